#!/usr/bin/env bash
# Throughput of `hoistway serve` (memory, over a Unix socket) beside nbdkit's memory plugin on the same
# machine: fio's nbd engine, 4 KiB random reads and writes, 1 and 4 connections x 32, the servers taking
# turns, each round in another order. Prints as Markdown medians, the median of the ratios within a round
# (what else runs changes from round to round; within one it hits all alike), and the server's CPU time per
# request, which moves less with the load than the throughput does.
#
#   benches/nbd.sh [ROUNDS [SECONDS]]        default: 5 rounds of 3 s
#
# SIZE=1G: of the memory. JOBS="1 4": numbers of connections. NICE=-19 (root): servers and clients go before everything else, for a machine
# that is not quiet.
set -euo pipefail
if [ -n "${NICE:-}" ] && [ -z "${NICED:-}" ]; then
  NICED=1 exec setsid --wait "$0" "$@"
fi
if [ -n "${NICE:-}" ]; then
  # The session's niceness counts where the kernel groups tasks by session, the processes' elsewhere.
  [ ! -e /proc/self/autogroup ] || echo "$NICE" >/proc/self/autogroup
  renice -n "$NICE" -p $$ >/dev/null
fi
cd "$(dirname "$0")/.."
rounds=${1:-5} seconds=${2:-3} size=${SIZE:-1G} jobs_list=${JOBS:-1 4}
source benches/begin.sh
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

# Every server runs all the time, idle when it is not its turn.
declare -A pid
start() {
  local name=$1; shift
  "$@" >"$folder/$name.log" 2>&1 &
  pid[$name]=$!
  pids+=($!)
  answers "nbd+unix:///?socket=$folder/$name.sock" "$folder/$name.log"
}
start nbdkit nbdkit -f -U "$folder/nbdkit.sock" memory size="$size"
start none "$binary" serve -q -e disk=ram:"$size" -s none -U "$folder/none.sock"
start bfq "$binary" serve -q -e disk=ram:"$size" -s bfq -U "$folder/bfq.sock"

# utime + stime of a process with all its threads, in ticks.
ticks() { awk '{sub(/^.*\) /, ""); print $12 + $13}' "/proc/$1/stat"; }

measure() { # SERVER RW JOBS TIME -> "IOPS CPU-us-per-request"
  local before after
  before=$(ticks "${pid[$1]}")
  timeout $(($4 + 20)) fio --name=bench --ioengine=nbd --uri="nbd+unix:///?socket=$folder/$1.sock" --rw="$2" --bs=4k \
    --iodepth=32 --numjobs="$3" --size="$size" --time_based --runtime="$4" --group_reporting --norandommap \
    --output-format=json --output="$folder/out.json" >/dev/null 2>&1
  after=$(ticks "${pid[$1]}")
  python3 - "$folder/out.json" "$2" "$((after - before))" "$(getconf CLK_TCK)" <<'P'
import json, sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]["read" if "read" in sys.argv[2] else "write"]
print(job["iops"], 1e6 * int(sys.argv[3]) / int(sys.argv[4]) / max(job["total_ios"], 1))
P
}

# The memory is filled first: a page that was never written costs next to nothing to read.
for server in nbdkit none bfq; do
  timeout 60 fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$folder/$server.sock" --rw=write --bs=1m \
    --iodepth=8 --size="$size" >/dev/null 2>&1
done
servers=(nbdkit none bfq)
load_before=$(cut -d' ' -f1 /proc/loadavg)
for round in $(seq "$rounds"); do
  for jobs in $jobs_list; do
    for rw in randread randwrite; do
      for at in 0 1 2; do
        server=${servers[$(((at + round) % 3))]}
        echo "$jobs $rw $server $round $(measure "$server" "$rw" "$jobs" "$seconds")" >>"$folder/results"
      done
    done
  done
  echo "round $round of $rounds done" >&2
done

python3 - "$folder/results" "$rounds" "$seconds" "$load_before" "$(cut -d' ' -f1 /proc/loadavg)" <<'P'
import collections, platform, sys
from statistics import median
rows = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    jobs, rw, server, round_, iops, cpu = line.split()
    rows[jobs, rw, server][round_] = float(iops), float(cpu)
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
count = sum(1 for l in open("/proc/cpuinfo") if l.startswith("processor"))
print(f"{cpu}, {count} CPUs, Linux {platform.release()}, load {sys.argv[4]} to {sys.argv[5]}; {sys.argv[2]} rounds of {sys.argv[3]} s, medians.\n")
print("| connections x depth | 4 KiB | server | requests/s | ratio within a round | lowest, highest | CPU per request (us) | ratio |")
print("|---|---|---|---:|---:|---:|---:|---:|")
for jobs, rw in dict.fromkeys((j, r) for j, r, _ in rows):
    for server in ("nbdkit", "none", "bfq"):
        mine = rows[jobs, rw, server]
        against = {"nbdkit": None, "none": "nbdkit", "bfq": "none"}[server]
        ratio = spread = cpus = "-"
        if against:
            other = rows[jobs, rw, against]
            ratios = [mine[r][0] / other[r][0] for r in mine]
            ratio, spread = f"{median(ratios):.2f} x {against}", f"{min(ratios):.2f}, {max(ratios):.2f}"
            cpus = f"{median(mine[r][1] / max(other[r][1], 0.01) for r in mine):.2f}"
        iops, cost = (median(v[n] for v in mine.values()) for n in (0, 1))
        name = server if server == "nbdkit" else f"hoistway {server}"
        print(f"| {jobs} x 32 | {rw} | {name} | {iops:,.0f} | {ratio} | {spread} | {cost:.2f} | {cpus} |")
P
