#!/usr/bin/env bash
# Two tenants on one slow drive: the victim reads 4 KiB at random, one at a time; the hog has four
# connections with 32 reads of 64 KiB each. Uncontrolled (none), under BFQ with weights 900 and 100, and
# under io.latency with a target for the victim and nothing said of the hog, on
# a 100 MB/s volume and on the emulated PLEXTOR; and the same pair on nbdkit's memory plugin behind its rate
# filter at 100 MB/s. Prints Markdown.
#
#   benches/tenants.sh [SECONDS]             default: 8 s per measurement
#
# LATENCY=1ms: the victim's target.
# REALTIME=1 (root): servers and clients go before everything else, for a machine that is not quiet. Drives
# this slow leave the processors idle, so nothing starves.
set -euo pipefail
first=()
[ -z "${REALTIME:-}" ] || first=(chrt -r 1)
cd "$(dirname "$0")/.."
seconds=${1:-8}
latency=${LATENCY:-1ms}
source benches/begin.sh
server=
stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
}
trap 'stop; rm -rf "$folder"' EXIT

tenant() { # NAME EXPORT BS DEPTH JOBS
  "${first[@]}" timeout $((seconds + 30)) fio --name="$1" --ioengine=nbd --uri="nbd+unix:///$2?socket=$folder/s.sock" \
    --rw=randread --bs="$3" --iodepth="$4" --numjobs="$5" --size=1G --time_based --ramp_time=1 \
    --runtime="$seconds" --group_reporting --norandommap --output-format=json --output="$folder/$1.json" \
    >/dev/null 2>&1
}

measure() { # LABEL WHO...
  local label=$1; shift
  rm -f "$folder"/*.json
  local pids=()
  for who in "$@"; do
    if [ "$who" = victim ]; then tenant victim "$victim" 4k 1 1 & else tenant hog "$hog" 64k 32 4 & fi
    pids+=($!)
  done
  wait "${pids[@]}"
  python3 - "$folder" "$label" <<'P'
import json, os, sys
def job(name):
    path = os.path.join(sys.argv[1], name + ".json")
    if not os.path.exists(path):
        return None
    text = open(path).read()
    return json.loads(text[text.index("{"):])["jobs"][0]["read"]
victim, hog = job("victim"), job("hog")
ms = lambda q: f"{victim['clat_ns']['percentile'][q] / 1e6:.2f}" if victim else "-"
iops = f"{victim['iops']:,.0f}" if victim else "-"
rate = f"{hog['bw_bytes'] / 1e6:.1f}" if hog else "-"
print(f"| {sys.argv[2]} | {ms('50.000000')} | {ms('99.000000')} | {iops} | {rate} |", flush=True)
P
}

serve() { # COMMAND...
  "${first[@]}" "$@" >"$folder/log" 2>&1 &
  server=$!
  answers "nbd+unix:///$victim?socket=$folder/s.sock" "$folder/log"
}

echo "| drive, control | victim p50 (ms) | victim p99 (ms) | victim requests/s | hog MB/s |"
echo "|---|---:|---:|---:|---:|"
for drive in benches/bucket-100mb.toml plextor-px-256m5s; do
  target=emulate:$drive:16G
  name=$(basename "$drive" .toml)
  for config in none bfq 'bfq{strict_guarantees=1}' "none, latency=$latency"; do
    victim=victim hog=hog
    case $config in
      none) keys=('' '') ;;
      *latency=*) keys=(",latency=$latency" '') ;;
      *) keys=(,weight=900 ,weight=100) ;;
    esac
    serve "$binary" serve -e "victim=$target${keys[0]}" -e "hog=$target${keys[1]}" -s "${config%%,*}" -U "$folder/s.sock"
    if [ "$config" = none ]; then
      measure "$name, victim alone" victim
      measure "$name, hog alone" hog
    fi
    measure "$name, $config" victim hog
    stop
    sed -n 's/^emulated drive: /<!-- '"$name, $config"': /p' "$folder/log" | sed 's/$/ -->/' >>"$folder/notes"
  done
done
victim='' hog=''
serve nbdkit -f -U "$folder/s.sock" --filter=rate memory size=16G rate=800M
measure "nbdkit memory + rate filter (100 MB/s)" victim hog
stop
echo
cat "$folder/notes"
