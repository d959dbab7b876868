#!/usr/bin/env bash
# Throughput of `hoistway serve` (memory, over a Unix socket) beside nbdkit's memory plugin on the same
# machine: fio's nbd engine, 4 KiB random reads and writes, the servers taking turns, each round in another order.
# Prints as Markdown medians, the median of the ratios within a round (what else runs changes from round to round;
# within one it hits all alike), and the server's CPU time per request, which moves less with the load than the
# throughput does.
#
#   benches/nbd.sh [ROUNDS [SECONDS]]        default: 5 rounds of 3 s
#
# ROWS="1x32 64x1": connections x requests of each. RW="randread": one kind of load. SIZE=1G: of the memory.
# BEFORE=PATH: another hoistway besides. CSV=PATH: the figures there, too. NICE=-19 (root): servers and clients go
# before everything else, for a machine that is not quiet.
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
rounds=${1:-5} seconds=${2:-3} size=${SIZE:-1G} rows=${ROWS:-1x32 4x32 16x4 64x1} loads=${RW:-randread randwrite}
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
servers=(nbdkit)
for scheduler in none bfq; do
  start "$scheduler" "$binary" serve -q -e disk=ram:"$size" -s "$scheduler" -U "$folder/$scheduler.sock"
  servers+=("$scheduler")
  [ -n "${BEFORE:-}" ] || continue
  start "before-$scheduler" "$BEFORE" serve -q -e disk=ram:"$size" -s "$scheduler" -U "$folder/before-$scheduler.sock"
  servers+=("before-$scheduler")
done

# utime + stime of a process with all its threads, in ticks.
ticks() { awk '{sub(/^.*\) /, ""); print $12 + $13}' "/proc/$1/stat"; }

measure() { # SERVER RW JOBSxDEPTH TIME -> "IOPS CPU-us-per-request"
  local before after
  before=$(ticks "${pid[$1]}")
  timeout $(($4 + 20)) fio --name=bench --ioengine=nbd --uri="nbd+unix:///?socket=$folder/$1.sock" --rw="$2" --bs=4k \
    --iodepth="${3#*x}" --numjobs="${3%x*}" --size="$size" --time_based --runtime="$4" --group_reporting --norandommap \
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
for server in "${servers[@]}"; do
  timeout 60 fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$folder/$server.sock" --rw=write --bs=1m \
    --iodepth=8 --size="$size" >/dev/null 2>&1
done
load_before=$(cut -d' ' -f1 /proc/loadavg)
for round in $(seq "$rounds"); do
  for row in $rows; do
    for rw in $loads; do
      for at in "${!servers[@]}"; do
        server=${servers[$(((at + round) % ${#servers[@]}))]}
        echo "$row $rw $server $round $(measure "$server" "$rw" "$row" "$seconds")" >>"$folder/results"
      done
    done
  done
  echo "round $round of $rounds done" >&2
done

python3 - "$folder/results" "$rounds" "$seconds" "$load_before" "$(cut -d' ' -f1 /proc/loadavg)" "${CSV:-}" <<'P'
import collections, csv, platform, sys
from statistics import median
rows = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    row, rw, server, round_, iops, cpu = line.split()
    rows[row, rw, server][round_] = float(iops), float(cpu)
model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
count = sum(1 for l in open("/proc/cpuinfo") if l.startswith("processor"))
print(f"{model}, {count} CPUs, Linux {platform.release()}, load {sys.argv[4]} to {sys.argv[5]}; {sys.argv[2]} rounds of {sys.argv[3]} s, medians.\n")
head = "connections_x_depth load server requests_per_s ratio_to_nbdkit lowest_round highest_round ratio_to_none"
head = f"{head} cpu_us_per_request cpu_ratio_to_nbdkit cpu_ratio_to_none".split()
print("| " + " | ".join(head) + " |\n|---|---|---|" + "--:|" * (len(head) - 3))
table = []
for (row, rw, server), mine in list(rows.items()):
    def ratios(other, which):
        theirs = rows[row, rw, other]
        return [mine[r][which] / max(theirs[r][which], 0.01) for r in mine]
    none = "before-none" if server.startswith("before") else "none"
    rate, cpu = (median(v[n] for v in mine.values()) for n in (0, 1))
    spread = ratios("nbdkit", 0)
    figures = [median(spread), min(spread), max(spread), median(ratios(none, 0)), cpu]
    figures += [median(ratios("nbdkit", 1)), median(ratios(none, 1))]
    table.append([row, rw, server, f"{rate:.0f}"] + [f"{figure:.2f}" for figure in figures])
    print("| " + " | ".join(table[-1]) + " |")
if sys.argv[6]:
    with open(sys.argv[6], "w") as out:
        csv.writer(out, lineterminator="\n").writerows([head] + table)
P
