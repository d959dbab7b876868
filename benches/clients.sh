#!/usr/bin/env bash
# What `hoistway serve` gives to many clients at once: fio's nbd engine reads 4 KiB at random from memory, 1 x 32,
# 4 x 32, 16 x 1, 64 x 1 and 256 x 1 (clients x requests of each), under `none`, under `bfq` as the server sets it, and
# under BFQ as the kernel has it (`injection=1,low_latency=1`). Three states of a server: fresh; after use (the device
# was written from end to end, other loads ran, and nothing for PAUSE seconds: what BFQ takes for applications that
# start); and the long run, LONG seconds on end. Prints a table: reads per second and p99.
#
#   benches/clients.sh [SECONDS [LONG]]        default: 3 s and 20 s
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-3} long=${2:-20} size=512M pause=${PAUSE:-6}
source benches/begin.sh
pid=
stop() { [ -z "$pid" ] || { kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null || true; pid=; }; }
cleanup() { stop; rm -rf "$folder"; }
trap cleanup EXIT

serve() { # CONFIG
  rm -f "$folder/sock"
  "$binary" serve -q -e disk=ram:$size -s "$1" -U "$folder/sock" >"$folder/log" 2>&1 &
  pid=$!
  answers "nbd+unix:///?socket=$folder/sock" "$folder/log"
}
load() { # RW CLIENTS DEPTH SECONDS [BS] -> reads per second, p99 in ms
  timeout $(($4 + 60)) fio --name=c --ioengine=nbd --uri="nbd+unix:///?socket=$folder/sock" --rw="$1" --bs="${5:-4k}" \
    --iodepth="$3" --numjobs="$2" --size=$size --time_based --runtime="$4" --group_reporting --norandommap \
    --output-format=json --output="$folder/out.json" >/dev/null 2>&1
  python3 - "$folder/out.json" <<'P'
import json, sys
text = open(sys.argv[1]).read()
job = json.loads(text[text.index("{"):])["jobs"][0]["read"]
print(f'{job["iops"]:.0f} | {job["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1e6:.1f}')
P
}
fill() { load write 1 8 2 1m >/dev/null; }

echo "| clients | scheduler | fresh: reads/s | p99 ms | after use: reads/s | p99 ms | long run: reads/s | p99 ms |"
echo "|---|---|--:|--:|--:|--:|--:|--:|"
for clients in 1x32 4x32 16x1 64x1 256x1; do
  for config in none bfq 'bfq{injection=1,low_latency=1}'; do
    jobs=${clients%x*} depth=${clients#*x}
    serve "$config"
    fresh=$(load randread "$jobs" "$depth" "$seconds")
    fill
    load randwrite 4 8 2 >/dev/null
    load randread 16 1 2 >/dev/null
    sleep "$pause"
    used=$(load randread "$jobs" "$depth" "$seconds")
    held=$(load randread "$jobs" "$depth" "$long")
    stop
    echo "| $clients | \`$config\` | $fresh | $used | $held |"
  done
done
