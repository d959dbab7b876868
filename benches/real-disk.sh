#!/usr/bin/env bash
# A 4 KiB random reader beside four processes that keep 32 random reads of 128 KiB each in flight, on a real file:
# what the reader waits, and what is moved, under no control, bfq, and paternoster with and without a target. Both
# through the engine (hoistway compare --on engine) and as NBD server with fio's nbd engine as clients. The
# configurations take turns within a round, each round begins with another one; printed as Markdown are medians and
# the median of the ratios to none within a round.
#
#   benches/real-disk.sh FILE [ROUNDS [SECONDS]]     default: 10 rounds of 3 s
#
# FILE is made if it is not there (SIZE=3G) and overwritten. It asserts its premises and exits with 1 if one does
# not hold: the file is on a device and not in memory, without control the reader waits at least ten times what it
# waits alone, and the load of the machine (LOAD=2) is low enough for figures to mean something; WAIT=600: seconds
# it waits for that. WAYS="engine nbd": both, or one of them.
set -euo pipefail
file=${1:?FILE: where to make the file of the test}
rounds=${2:-10} seconds=${3:-3} size=${SIZE:-3G} limit=${LOAD:-2} patience=${WAIT:-600} ways=${WAYS:-engine nbd}
file=$(realpath -m "$file")
cd "$(dirname "$0")/.."
source benches/begin.sh
configs=(none-none none-bfq paternoster slo-paternoster)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT

kind=$(stat -f -c %T "$(dirname "$file")")
case $kind in
  tmpfs | ramfs) echo "premise: $file is in memory ($kind); choose a file on a device" >&2; exit 1 ;;
esac
if [ ! -e "$file" ]; then
  fio --name=fill --filename="$file" --rw=write --bs=1m --size="$size" --direct=1 --refill_buffers \
    --output="$folder/fill.log"
fi

quiet() { # waits until the machine is
  for _ in $(seq "$patience"); do
    awk -v limit="$limit" '{ exit $1 > limit }' /proc/loadavg && return
    sleep 1
  done
  echo "premise: the load stays above $limit for $patience s; LOAD=N accepts more" >&2
  exit 1
}

# CONFIG WORKLOAD -> "mean_us p99_us MB/s" of the reader's latency and of all together.
engine() {
  "$binary" compare benches/real-disk.toml --on engine --file "$file" --yes-destroy-data "$file" -c "$1" -w "$2" \
    --reps 1 --duration "${seconds}s" --csv --quiet --out "$folder/run" --fresh >"$folder/out.csv" 2>"$folder/err" ||
    { cat "$folder/err" >&2; exit 1; }
  python3 - "$folder/out.csv" <<'P'
import csv, sys
of = {r["metric"]: float(r["value"]) for r in csv.DictReader(open(sys.argv[1])) if r["rep"] == "1" and r["value"]}
# Of fewer than 1000 reads there is no 99th percentile.
print(of["latency_avg"] * 1e3, of.get("latency_p99", float("nan")) * 1e3, of["throughput_total"])
P
}

# The same with fio as clients of a server. What is moved is what the server counts while the reader runs: a client that
# is starved measures itself later.
nbd() {
  local scheduler=${1#none-} keys="" server hogs=""
  if [ "$1" = slo-paternoster ]; then scheduler=paternoster keys=,latency=auto; fi
  if [ "$1" = none-bfq ]; then keys=,prio=rt/4; fi
  "$binary" serve -q -e "gold=file:$file,direct,size=512M$keys" -e "hog=file:$file,direct,offset=512M" -s "$scheduler" \
    -U "$folder/nbd.sock" --control "$folder/ctl" >"$folder/server.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    nbdinfo --size "nbd+unix:///gold?socket=$folder/nbd.sock" >/dev/null 2>&1 && break
    sleep 0.1
  done
  local common=(--ioengine=nbd --rw=randread --time_based --norandommap --output-format=json)
  if [ "$2" = hogs ]; then
    fio --name=hog "${common[@]}" --uri="nbd+unix:///hog?socket=$folder/nbd.sock" --bs=128k --iodepth=32 --numjobs=4 \
      --size=2G --runtime=$((seconds + 8)) >"$folder/hog.json" 2>/dev/null &
    hogs=$!
    sleep 1.5
  fi
  moved >"$folder/before"
  fio --name=gold "${common[@]}" --uri="nbd+unix:///gold?socket=$folder/nbd.sock" --bs=4k --iodepth=1 --size=512M \
    --runtime="$seconds" >"$folder/gold.json" 2>/dev/null
  moved >"$folder/after"
  kill $hogs "$server" 2>/dev/null || true
  wait $hogs "$server" 2>/dev/null || true
  python3 - "$folder" <<'P'
import json, sys
text = open(f"{sys.argv[1]}/gold.json").read()
clat = json.loads(text[text.index("{"):])["jobs"][0]["read"]["clat_ns"]
(t0, b0), (t1, b1) = (map(float, open(f"{sys.argv[1]}/{name}").read().split()) for name in ("before", "after"))
print(clat["mean"] / 1e3, clat["percentile"]["99.000000"] / 1e3, (b1 - b0) / (t1 - t0) / 1e6)
P
}

moved() { # time and bytes read, as the server counts
  "$binary" ctl --control "$folder/ctl" metrics |
    awk -v now="$(date +%s.%N)" '/^hoistway_bytes_total.*op="read"/ { sum += $2 } END { printf "%s %.0f\n", now, sum }'
}

for round in $(seq "$rounds"); do
  for way in $ways; do
    quiet
    echo "$way alone $round $($way none-none alone) $(cut -d' ' -f1 /proc/loadavg)" >>"$folder/results"
    for at in $(seq 0 $((${#configs[@]} - 1))); do
      config=${configs[$(((at + round) % ${#configs[@]}))]}
      echo "$way $config $round $($way "$config" hogs) $(cut -d' ' -f1 /proc/loadavg)" >>"$folder/results"
    done
  done
  echo "round $round of $rounds done" >&2
done

python3 - "$folder/results" "$rounds" "$seconds" <<'P'
import collections, platform, sys
from statistics import median
rows = collections.defaultdict(dict)
loads = []
for line in open(sys.argv[1]):
    way, config, round_, *values, load = line.split()
    rows[way, config][round_] = [float(v) for v in values]
    loads.append(float(load))
count = sum(1 for l in open("/proc/cpuinfo") if l.startswith("processor"))
print(f"{count} CPUs, Linux {platform.release()}, load {min(loads)} to {max(loads)}; {sys.argv[2]} rounds of {sys.argv[3]} s, medians.\n")
print("| through | configuration | reader: mean ms | p99 ms | of none's mean | all MB/s | of none's |")
print("|---|---|---:|---:|---:|---:|---:|")
bad = []
for (way, config), mine in rows.items():
    none = rows[way, "none-none"]
    mean, p99, total = (median(v[n] for v in mine.values()) for n in range(3))
    ratio = lambda n: median(mine[r][n] / none[r][n] for r in mine)
    part, kept = f"{100 * ratio(0):.1f} %", f"{100 * ratio(2):.1f} %"
    if config == "alone":
        kept = "-"
        if ratio(0) > 0.1:
            bad.append(f"premise: through {way} the reader waits alone {part} of what it waits beside the others")
    shown = "-" if p99 != p99 else f"{p99 / 1e3:.3f}"
    print(f"| {way} | {config} | {mean / 1e3:.3f} | {shown} | {part} | {total:.0f} | {kept} |")
for line in bad:
    print(line, file=sys.stderr)
sys.exit(1 if bad else 0)
P
