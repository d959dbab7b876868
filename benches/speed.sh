#!/usr/bin/env bash
# The table of docs/results/speed.md. Instructions of schedulers, simulator and replay, counted by valgrind in a build for
# release: the same on a busy machine. Processor time of the first build and of the server beside nbdkit, and memory: of a
# quiet machine. Counts and measures the column `now` of benches/speed.csv; `before` is what commit 1adc3f5 took, `goal` what
# was wanted then. Some fifteen minutes.
#
#   benches/speed.sh
#
# HOISTWAY=PATH: the program that serves; else one is built.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in valgrind python3 fio nbdkit; do
  command -v "$tool" >/dev/null || { echo "needs $tool: ./setup.sh test" >&2; exit 3; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
counted=$folder/counted
say() { printf '%s\n' "$*" >&2; }
say "schedulers"
for scheduler in $(awk -F '[, ]' '$1 == "scheduler" { print $2 }' benches/speed.csv | uniq); do
  cargo bench --locked --quiet -p hoistway --bench sched_cost -- --instructions --only "$scheduler" >>"$counted"
done
say "simulator"
cargo bench --locked --quiet -p hoistway-sim --bench path -- --instructions none >>"$counted"
say "replay"
cargo bench --locked --quiet -p hoistway-sim --bench replay -- --instructions >>"$counted"
# Rows of what has no instructions: NAME<tab>FIGURE.
row() { printf '%s\t%.0f\n' "$1" "$2" >>"$folder/rows"; }
# Largest memory of a command in MB.
peak() {
  python3 - "$@" <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6)
END
}
say "first build"
TIMEFORMAT='%U %S'
{ time CARGO_TARGET_DIR=$folder/target ./hoistway compare --dry-run >/dev/null 2>&1; } 2>"$folder/took"
row "first build, s" "$(awk '{ print $1 + $2 }' "$folder/took")"
say "2,400 runs"
first=$folder/target/first/hoistway
row "compare of 2,400 runs, MB" \
  "$(peak "$first" compare -c none,mq-deadline,bfq -r 400 --quick --quiet -o "$folder/runs")"
row "report of them, MB" "$(peak "$first" report "$folder/runs")"
say "memory of a process"
cargo bench --locked --quiet -p hoistway-sim --bench path -- --growth 1024 >"$folder/growth"
for load in sequential random; do
  row "a process of 1,024, $load, KiB" "$(awk -v load="$load" '$1 == load { print $(NF - 3) }' "$folder/growth")"
done
say "server"
CSV=$folder/server.csv SIZE=256M RW=randread benches/nbd.sh 6 1 >/dev/null
while IFS=, read -r clients _ server _ _ _ _ _ _ of_nbdkit of_none; do
  case $server in
    none) row "none, % of nbdkit $clients" "$(awk -v x="$of_nbdkit" 'BEGIN { print 100 * x }')" ;;
    bfq) row "bfq, % of none $clients" "$(awk -v x="$of_none" 'BEGIN { print 100 * x }')" ;;
  esac
done <"$folder/server.csv"

python3 - "$counted" "$folder/rows" <<'END'
import csv, re, sys

PAGE, TABLE = "docs/results/speed.md", "benches/speed.csv"
now = {}
for line in open(sys.argv[1]):
    words = line.split()
    if line.rstrip().endswith(("instructions per command", "instructions per record")):
        now[" ".join(words[:-4]).removeprefix("replay ")] = words[-4]
    elif len(words) == 9 and words[1].isdigit():
        now[" ".join(words[:4])] = words[7]
now.update(line.rstrip("\n").split("\t") for line in open(sys.argv[2]))
rows, page = list(csv.DictReader(open(TABLE))), open(PAGE).read()
for row in rows:
    row["now"] = now.get(row["row"]) or sys.exit(f"{TABLE}: nothing was counted for '{row['row']}'")

def figure(text):
    return f"{int(text):,}" if text else ""

def cell(row):
    before = figure(row["before"]) + "→" if row["before"] else ""
    return before + figure(row["now"]) + (f" ({figure(row['goal'])})" if row["goal"] else "")

def table(what, split):
    cells = {}
    for row in rows:
        if row["what"] == what:
            name, column = split(row["row"])
            cells.setdefault(name, {})[column] = cell(row)
    columns = list(dict.fromkeys(c for line in cells.values() for c in line))
    text = f"| {what} | " + " | ".join(columns) + " |\n|---|" + "--:|" * len(columns) + "\n"
    for name, line in cells.items():
        text += f"| {name} | " + " | ".join(line.get(c, "") for c in columns) + " |\n"
    return text

def shape(row):
    name, queues, pending, tree = row.split()
    return name, "tree" if tree == "tree" else f"{int(queues):,}x{pending}"

text = table("scheduler", shape) + "\n" + table("simulator", lambda row: row.split(" none "))
text += "\n" + table("replay", lambda row: row.split(" ", 1))
text += "\n" + table("server, processor time", lambda row: row.rsplit(" ", 1))
text += "\n" + table("the program", lambda row: (row, "now"))
page, n = re.subn(r"(?<=<!-- speed -->\n).*(?=<!-- /speed -->)", "\n" + text, page, flags=re.S)
if n != 1:
    sys.exit(f"{PAGE} has no place for the table")
open(PAGE, "w").write(page)
with open(TABLE, "w", newline="") as out:
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
END
