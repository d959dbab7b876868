#!/usr/bin/env bash
# Two tenants on one slow drive: the victim reads 4 KiB at random, one at a time; the hog has four
# connections with 32 reads of 64 KiB each. Uncontrolled (none), under BFQ with weights 900 and 100, and
# under io.latency with a target for the victim and nothing said of the hog, on
# a 100 MB/s volume and on the emulated PLEXTOR; and the same pair on nbdkit's memory plugin behind its rate
# filter at 100 MB/s. Prints Markdown.
#
#   benches/tenants.sh [SECONDS]             default: 8 s per measurement
#   benches/tenants.sh database [SECONDS [ROUNDS]]   default: 6 s and 3 rounds, root
#
# `database`: the victim is sqlite (WAL, synchronous=full) on ext4 on a loop device on nbdfuse, which is a client of the server. Without
# control, under bfq (weights 800 and 100), mq-deadline and paternoster (latency=auto for the database), on the PLEXTOR, gp3, the PLEXTOR
# with four hardware queues, and drives with faults: garbage collection and thermal throttling (PLEXTOR), tokens that run out (gp3).
# Rounds take all in turn. Prints rows of docs/data/serve-tenants.csv, a request of sqlite being a transaction: medians of the rounds. `limited` names what the machine did not carry: `rate` where the hog alone
# gets less than 95 % of what the drive file states, `late` where the drive answered on average more than 10 % and 60 us later than its model.
#
# LATENCY=1ms: the victim's target.
# ONLY=REGEX: these drives of `database`.
# REALTIME=1 (root): servers and clients go before everything else, for a machine that is not quiet. Drives
# this slow leave the processors idle, so nothing starves.
set -euo pipefail
first=()
[ -z "${REALTIME:-}" ] || first=(chrt -r 1)
cd "$(dirname "$0")/.."
mode=reader
[ "${1:-}" != database ] || { mode=$1; shift; }
seconds=${1:-$([ $mode = reader ] && echo 8 || echo 6)} rounds=${2:-3}
latency=${LATENCY:-1ms}
source benches/begin.sh
server=
stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
}
trap 'detach; stop; rm -rf "$folder"' EXIT

loop= fuse=
detach() { # the file system of the database, from top to bottom
  [ -z "$loop" ] || { umount "$folder/fs" 2>/dev/null || true; losetup -d "$loop" 2>/dev/null || true; }
  [ -z "$fuse" ] || { fusermount3 -u "$folder/nbd" 2>/dev/null || true; wait "$fuse" 2>/dev/null || true; }
  loop= fuse=
}

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

# Drives of the database: name, file or name of the drive, and what it states to deliver (MB/s; 0: with a fault, nothing).
drives() {
  local variant
  while read -r variant base mb text; do
    printf 'schema = 1\nname = "%s"\nbase = "%s"\n%b' "$variant" "$base" "$text" >"$folder/$variant.toml"
    echo "$variant $folder/$variant.toml $mb"
  done <<'D'
plextor plextor-px-256m5s 528
plextor-4-queues plextor-px-256m5s 528 [host]\nhw_queues = 4\n
gp3 cloud-gp3 131
plextor-garbage plextor-px-256m5s 0 [faults]\npause_every_ms = 500\npause_ms = 20\n
plextor-hot plextor-px-256m5s 0 [faults]\nslow_every_ms = 1500\nslow_ms = 500\nslow_factor = 3\n
gp3-tokens cloud-gp3 0 [faults]\ncredit_ios = 4000\ncredit_iops = 800\n
D
}

attach() { # the export `db` as a file system
  mkdir -p "$folder/nbd" "$folder/fs"
  "${first[@]}" nbdfuse "$folder/nbd/db" "nbd+unix:///db?socket=$folder/s.sock" &
  fuse=$!
  for _ in $(seq 100); do [ -s "$folder/nbd/db" ] && break; sleep 0.05; done
  loop=$(losetup -f --show --direct-io=on "$folder/nbd/db")
  mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 -J size=8 -N 256 "$loop"
  mount -o noatime "$loop" "$folder/fs"
}

# Transactions for so long behind one second of run-in: per second, median and 99th percentile in ms.
database() {
  "${first[@]}" python3 - "$folder/fs/db" "$seconds" <<'P'
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode=wal"), db.execute("pragma synchronous=full")
db.execute("create table t (k integer primary key, v blob)")
begin, times = time.monotonic() + 1, []
end = begin + float(sys.argv[2])
while (at := time.monotonic()) < end:
    db.execute("insert into t (v) values (?)", (os.urandom(400),))
    # Whoever waits at the beginning counts with all of its wait.
    if time.monotonic() >= begin:
        times.append(time.monotonic() - at)
times.sort()
print(f"{len(times) / float(sys.argv[2]):.1f},{times[len(times) // 2] * 1e3:.3f},{times[len(times) * 99 // 100] * 1e3:.3f}")
P
}

# One cell: drive,control,transactions/s,p50,p99,hog MB/s,service time by the model and achieved (us).
cell() { # DRIVE FILE LABEL SCHEDULER DB-KEYS HOG-KEYS WHO
  local pids=() answer=,, rate=
  local target=emulate:$2:16G
  serve "$binary" serve -e "db=$target,size=1G$5" -e "hog=$target,offset=1G$6" -s "$4" -U "$folder/s.sock"
  rm -f "$folder/hog.json"
  [ "$7" = hog ] || attach
  [ "$7" = db ] || { tenant hog hog 64k 32 4 & pids+=($!); }
  [ "$7" = hog ] || answer=$(database)
  [ ${#pids[@]} = 0 ] || {
    wait "${pids[@]}"
    rate=$(python3 -c 'import json,sys; t=open(sys.argv[1]).read(); print(json.loads(t[t.index("{"):])["jobs"][0]["read"]["bw_bytes"]/1e6)' "$folder/hog.json")
  }
  detach
  stop
  echo "$1,$3,$answer,$rate,$(sed -n 's/^emulated drive: .* service time \([0-9.]*\) us by the model, \([0-9.]*\) us achieved.*/\1,\2/p' "$folder/log")"
}

if [ $mode = database ]; then
  victim=hog
  drives | grep -E "^(${ONLY:-.*}) " >"$folder/drives"
  for _ in $(seq "$rounds"); do
    while read -r name file _; do
      cell "$name" "$file" alone none '' '' db
      cell "$name" "$file" 'hog alone' none '' '' hog
      cell "$name" "$file" none none '' '' both
      cell "$name" "$file" bfq bfq ,weight=800 ,weight=100 both
      cell "$name" "$file" mq-deadline mq-deadline '' '' both
      cell "$name" "$file" 'paternoster latency=auto' paternoster ,latency=auto '' both
    done <"$folder/drives"
  done >"$folder/cells"
  python3 - "$folder/drives" "$folder/cells" <<'P'
import csv, statistics, sys
stated = {name: float(mb) for name, _, mb in (line.split() for line in open(sys.argv[1]))}
cells = {}
for row in csv.reader(open(sys.argv[2])):
    cells.setdefault(tuple(row[:2]), []).append([float(v) if v else None for v in row[2:]])
middle = {key: [statistics.median(v) if None not in v else None for v in zip(*rows)] for key, rows in cells.items()}
print("drive_and_control,victim_p50_ms,victim_p99_ms,victim_requests_per_s,hog_mb_per_s,late_us,limited")
for (drive, control), (count, p50, p99, rate, model, got) in middle.items():
    limited = ["rate"] * (middle[drive, "hog alone"][3] < 0.95 * stated[drive]) + ["late"] * (got - model > max(60, 0.1 * model))
    show = lambda v, digits: "" if v is None else f"{v:.{digits}f}"
    numbers = show(p50, 2), show(p99, 2), show(count, 0), show(rate, 1), show(got - model, 0)
    print(f'"sqlite, {drive}, {control}"', *numbers, " ".join(limited), sep=",")
P
  exit
fi

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
