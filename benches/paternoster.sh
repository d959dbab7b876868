#!/usr/bin/env bash
# Runs everything behind docs/results/paternoster.md in the simulator. Writes the summary table into the page, its picture, and every
# cell and every missed promise into docs/data/paternoster-*.csv.
#
#   benches/paternoster.sh                   all runs, then the tables
#   benches/paternoster.sh PART...           these runs: kept nvme rivals probes numbers weights floods starts picture
#   benches/paternoster.sh tables            only the tables, of the runs that are there
#
# HOISTWAY: the program [target/release/hoistway]. OUT: folder of the runs [runs/paternoster]. JOBS: simulations at a time [number of
# cores]. REPS: repetitions of what is promised [10]. NVME_REPS: the same on NVMe drives, whose loads are millions of I/Os [3]. RIVAL_REPS: of
# the others [2]. SHARE_REPS: of weights and floods [1]. QUICK=1: a quarter of the time. Interrupted runs are continued by the same command.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${HOISTWAY:-target/release/hoistway}
out=${OUT:-runs/paternoster}
page=docs/results/paternoster.md
data=docs/data
reps=${REPS:-10}
nvme_reps=${NVME_REPS:-3}
rival_reps=${RIVAL_REPS:-2}
share_reps=${SHARE_REPS:-1}
options=(--quiet -j "${JOBS:-$(nproc)}")
[ -z "${QUICK:-}" ] || options+=(--quick)

flash=plextor-px-256m5s,sata-qlc-1tb,intel-dc-s3520-240g,intel-320-160g,emmc-5.1-64g,cloud-gp3
nvme=samsung-970-pro,nvme-enterprise-gen4,nvme-consumer-gen4
stick=usb-stick-32g         # too small for the files of 64 readers
disks=hitachi-hts727550a9e364,hdd-nearline-16tb,maxtor-stm3320613as
loads=alone,readers,seqdirect,hog32,writers,writes,mixed,mixed-sync
rivals=none-none,mq-deadline,kyber,adios,bfq,none-bfq,prop-bfq,lat-none,cost-none
ours=slo-paternoster

[ -x "$program" ] || { echo "$program is missing: cargo build --release -p hoistway-cli --no-default-features, or set HOISTWAY" >&2; exit 3; }

compare() { # NAME EXPERIMENT REPS DRIVES CONFIGS WORKLOADS
  "$program" compare "$2" -d "$4" -c "$5" -w "$6" -r "$3" "${options[@]}" -o "$out/$1" >/dev/null
  echo "$out/$1"
}

run() {
  case $1 in
    kept) compare kept control-latency "$reps" "$flash,$stick,$disks" "none-none,$ours" "$loads" ;;
    nvme) compare nvme control-latency "$nvme_reps" "$nvme" "none-none,$ours" "$loads" ;;
    rivals)
      compare rivals control-latency "$rival_reps" "plextor-px-256m5s,emmc-5.1-64g,cloud-gp3,$stick,$disks" "$rivals,$ours" "$loads" ;;
    probes)
      compare probes control-latency "$reps" "$disks,$stick" "none-none,bfq,none-bfq,$ours" \
        probe100+alone,probe100+readers ;;
    numbers)
      compare numbers control-latency "$reps" "$disks" \
        "none-none,$ours,$ours{target=100ms},$ours{target=200ms},$ours{target=400ms}" alone,readers ;;
    weights)
      compare weights control-weights "$share_reps" "$flash,$nvme,$disks" "none-none,prop-bfq,cost-none,$ours" \
        streams,random,tree-streams,tree-random ;;
    floods)
      compare floods control-targets "$share_reps" "$flash,$stick,samsung-970-pro" "none-none,none-bfq,lat-none,$ours" \
        alone,one,several,flood4+alone,flood4+readers,flood32+alone,flood32+readers ;;
    starts)
      compare starts-s startup-s 3 intel-320-160g,hitachi-hts727550a9e364 "none-none,bfq,$ours" \
        xterm+10r-seq,gnome-terminal+10r-seq,lowriter+10r-seq
      compare starts-2010 startup-hdd-2010 3 maxtor-6l080l0,maxtor-7l250s0,maxtor-stm3320613as \
        "none-none,bfq{nr_requests=128},$ours{nr_requests=128}" konsole+10r-seq,konsole+10r-rand,xterm+10r-seq,xterm+10r-rand
      compare starts-2018 startup-blkmq-2018 3 plextor-px-256m5s "none-none,bfq,$ours" \
        xterm+10r-seq,gnome-terminal+10r-seq,lowriter+10r-seq ;;
    picture)
      compare picture control-latency 3 "$flash,$stick,$nvme" "$rivals,$ours" alone,readers ;;
    *) echo "no part '$1'" >&2; exit 2 ;;
  esac
}

# The tables of a run without title and command: sections per workload.
tables_of() { # NAME FORMAT
  "$program" report "$out/$1" --format "$2" | awk '/^### /{on=1} /^[0-9]+ repetitions from seed/{on=0} on'
}

# The cells of runs as rows of a CSV: what the tables of the format `control` show, a column each.
csv() { # FILE COLUMNS NAME...
  local file=$data/$1 columns=$2 name
  shift 2
  for name in "$@"; do
    [ -d "$out/$name" ] || { echo "no run $out/$name: $file stays" >&2; return 0; }
  done
  {
    echo "part,workload,drive,configuration,$columns"
    for name in "$@"; do
      tables_of "$name" control | awk -v part="$name" '
        /^### / { load = substr($0, 5) }
        /^\| / && !/^\| drive / {
          gsub(/×|\\|\302\240|\342\200\257/, ""); gsub(/–/, ""); gsub(/&gt;/, ">"); gsub(/&lt;/, "<")
          sub(/^\| /, ""); sub(/ \|$/, ""); n = split($0, cell, / \| /)
          row = part "," load
          for (i = 1; i <= n; i++) {
            # "0.146 / 0.153" are two columns, the shares of four kinds are one.
            if (split(cell[i], two, " / ") == 2) cell[i] = two[1] "," two[2]
            gsub(/ \/ /, ":", cell[i])
            row = row "," cell[i]
          }
          print row
        }'
    done
  } >"$file"
}

# Puts a text between `<!-- NAME -->` and `<!-- /NAME -->` of the page.
put() { # NAME FILE
  grep -q "^<!-- $1 -->$" "$page" || { echo "$page has no place '$1'" >&2; exit 1; }
  awk -v name="$1" -v file="$2" '
    $0 == "<!-- /" name " -->" { skip = 0 }
    !skip { print }
    $0 == "<!-- " name " -->" { skip = 1; print ""; while ((getline line < file) > 0) print line }
  ' "$page" >"$page.new"
  mv "$page.new" "$page"
}

# How many drives keep every promise; into a CSV every cell of the runs `kept` and `nvme` that misses a promise: drive, load, and what is missing.
missed() { # CSV
  awk -F, -v ours="$ours" -v disks="$disks" -v csv="$1" '
    FNR == 1 || $3 != ours || $8 != "" || $9 != "sim" { next }
    { value[$2, $4, $5] = $7; if (!(($2, $4) in seen)) { seen[$2, $4] = 1; cells[++n] = $2 SUBSEP $4 } }
    function miss(what) { rows = rows sprintf("%s,%s,%s\n", drive, load, what); bad[load, drive] = 1 }
    function below(metric, limit, words,   v) {
      v = value[drive, load, metric]
      if (v != "" && v < limit) miss(sprintf("%s,%.1f,%g", words " %", 100 * v, 100 * limit))
    }
    function above(metric, limit, words,   v) {
      v = value[drive, load, metric]
      if (v != "" && v > limit) miss(sprintf("%s,%.2f,%g", words, v, limit))
    }
    END {
      for (i = 1; i <= n; i++) {
        split(cells[i], key, SUBSEP); drive = key[1]; load = key[2]
        if (index("," disks ",", "," drive ",") || load == "alone") continue
        if (!all[load]++) loads[++count] = load
        if (load == "readers") {
          below("throughput_total_ratio", 0.97, "throughput"); below("throughput_interferers_ratio", 0.95, "others")
          above("latency_avg_over_alone", 2, "mean over alone"); above("latency_p99_over_alone", 4, "p99 over alone")
        } else if (load == "writers") {
          below("throughput_interferers_ratio", 0.99, "others"); above("latency_avg_ratio", 1.005, "latency over none")
        } else {
          below("throughput_total_ratio", 0.95, "throughput"); below("throughput_interferers_ratio", 0.95, "others")
          above("latency_avg_ratio", 1.005, "latency over none")
        }
        kept[load] += !((load, drive) in bad)
      }
      print "| load | drives that keep all of it |\n|---|--:|"
      for (l = 1; l <= count; l++) printf "| %s | %d of %d |\n", loads[l], kept[loads[l]], all[loads[l]]
      printf "drive,load,quantity,is,promised\n%s", rows >csv
    }' "$out"/{kept,nvme}/metrics.csv
}

# Syncs of the load mixed-sync on each flash drive, in % of none's: a sentence.
syncs() {
  python3 - "$ours" "$disks" "$out"/{kept,nvme}/records/histograms.json.gz <<'P'
import gzip, json, sys
count, seeds = {}, set()
for file in sys.argv[3:]:
    for cell in json.load(gzip.open(file))["cells"]:
        if cell["workload"] == "mixed-sync" and cell["drive"] not in sys.argv[2].split(","):
            made = sum(p["ios"] for rep in cell["reps"] for p in rep["procs"] if p["name"].startswith("sync"))
            seeds.add(len(cell["reps"]))
            count.setdefault(cell["drive"], {})[cell["config"]] = made
parts = sorted((100 * of[sys.argv[1]] / max(of["none-none"], 1), drive) for drive, of in count.items())
less = ", ".join(f"{drive} {part:.0f}" for part, drive in parts if part < 100)
print(f"`mixed-sync`: {sum(part >= 100 for part, _ in parts)} of {len(parts)} drives make as many fdatasyncs as under none, others in %: {less} (seeds: {', '.join(map(str, sorted(seeds)))}).")
P
}

# The matrix of the picture, a row for each drive and configuration. A cell is `0.164 (×1.13) 99.8 / 95.1`, without control `41.0 (×281) 528 MB/s`.
matrix() {
  echo "drive,configuration,mean_ms,mean_over_alone,all_mb_per_s,all_percent_of_none,others_percent_of_none"
  awk -F' \\| ' '
    /^\| drive / { sub(/^\| /, ""); sub(/ \|$/, ""); for (i = 2; i <= NF; i++) name[i] = $i; next }
    /^\| / {
      sub(/^\| /, ""); sub(/ \|$/, "")
      for (i = 2; i <= NF; i++) {
        cell = $i; gsub(/[×()]/, "", cell); split(cell, part, " ")
        if (part[4] == "MB/s") print $1 "," name[i] "," part[1] "," part[2] "," part[3] ",,"
        else print $1 "," name[i] "," part[1] "," part[2] ",," part[3] "," part[5]
      }
    }'
}

tables() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  local speed=all_mb_per_s,all_percent_of_none
  csv paternoster-latency.csv "alone_mean_ms,alone_p99_ms,mean_ms,p50_ms,p99_ms,max_ms,mean_over_alone,p99_over_alone,$speed,others_percent_of_none" \
    kept nvme rivals numbers probes floods
  csv paternoster-shares.csv "shares_percent,entitled_percent,largest_error_points,largest_error_percent_of_share,$speed" weights
  csv paternoster-starts.csv "startup_s,startup_over_none,$speed,others_percent_of_none" starts-s starts-2010 starts-2018
  if [ -d "$out/kept" ] && [ -d "$out/nvme" ]; then
    missed "$data/paternoster-missed.csv" >"$folder/missed"
    put missed "$folder/missed"
    syncs >"$folder/syncs"
    put syncs "$folder/syncs"
  fi
  if [ -d "$out/picture" ]; then
    "$program" report "$out/picture" --format control-svg >docs/images/paternoster.svg
    tables_of picture control-matrix | matrix >"$data/paternoster-picture.csv"
  fi
}

case ${1:-all} in
  tables) tables ;;
  all)
    for part in rivals kept nvme probes numbers weights floods starts picture; do run "$part"; done
    tables ;;
  *) for part in "$@"; do run "$part"; done ;;
esac
