#!/usr/bin/env bash
# Instructions of schedulers, simulator and replay, counted by valgrind in a build for release; the same on a busy machine.
# Counts the column `now` of benches/speed.csv, and writes the table of docs/results/speed.md. `before` is what commit 1adc3f5
# took, `goal` what was wanted then. Some ten minutes.
#
#   benches/speed.sh
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in valgrind python3; do
  command -v "$tool" >/dev/null || { echo "needs $tool: ./setup.sh test" >&2; exit 3; }
done
counted=$(mktemp)
trap 'rm -f "$counted"' EXIT
say() { printf '%s\n' "$*" >&2; }
say "schedulers"
for scheduler in $(awk -F '[, ]' '$1 == "scheduler" { print $2 }' benches/speed.csv | uniq); do
  cargo bench --locked --quiet -p hoistway --bench sched_cost -- --instructions --only "$scheduler" >>"$counted"
done
say "simulator"
cargo bench --locked --quiet -p hoistway-sim --bench path -- --instructions none >>"$counted"
say "replay"
cargo bench --locked --quiet -p hoistway-sim --bench replay -- --instructions >>"$counted"

python3 - "$counted" <<'END'
import csv, re, sys

PAGE, TABLE = "docs/results/speed.md", "benches/speed.csv"
now = {}
for line in open(sys.argv[1]):
    words = line.split()
    if line.rstrip().endswith(("instructions per command", "instructions per record")):
        now[" ".join(words[:-4]).removeprefix("replay ")] = words[-4]
    elif len(words) == 9 and words[1].isdigit():
        now[" ".join(words[:4])] = words[7]
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
page, n = re.subn(r"(?<=<!-- speed -->\n).*(?=<!-- /speed -->)", "\n" + text, page, flags=re.S)
if n != 1:
    sys.exit(f"{PAGE} has no place for the table")
open(PAGE, "w").write(page)
with open(TABLE, "w", newline="") as out:
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
END
