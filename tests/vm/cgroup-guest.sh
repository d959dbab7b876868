#!/bin/bash
# What tests/vm/cgroup.sh does inside the virtual machine, as its first program; with the argument `here`, the same on
# this machine, with the cgroups it has, on the block device in $DEVICE (which is only read). The report: the table of hoistway,
# and what guest.sh says.
if [ "${1:-}" = here ]; then
  exec 3>&1 >/dev/null
  . "$(dirname "$0")/guest.sh"
  device=${DEVICE:?DEVICE=/dev/NAME}
  out=$(mktemp -d)/run
  hoistway=${HOISTWAY:-hoistway}
  experiment=$(dirname "$0")/weights.toml
else
  . /guest.sh
  for name in $(cat /modules/order); do [ -d "/sys/module/$name" ] || insmod "/modules/$name.ko"; done
  for _ in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; sleep 0.5; done
  device=/dev/vda
  experiment=/weights.toml
  out=/tmp/run
  hoistway=hoistway
fi
# WHAT LOW VALUE HIGH
within() {
  if awk "BEGIN { exit !($3 >= $2 && $3 <= $4) }"; then ok "$1: $3 (from $2 to $4)"; else failed "$1: $3 is not from $2 to $4"; fi
}

queue=/sys/block/${device#/dev/}/queue
seconds=12
limit=1000000
version=v2
[ -e /sys/fs/cgroup/cgroup.controllers ] || version=v1
state() { # all that is to be as it was
  cat $queue/scheduler $queue/nr_requests $queue/wbt_lat_usec $queue/read_ahead_kb
  cat /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
  find /sys/fs/cgroup -type d | grep -i hoistway | sort
}
# While it runs: the most that the groups' own accounts (io.stat, or blkio's) say they have read, per group.
watch_groups() {
  while :; do
    for file in $(find /sys/fs/cgroup -path '*hoistway*' \( -name io.stat -o -name blkio.throttle.io_service_bytes \) 2>/dev/null); do
      awk -v f="$file" '{ for (i = 1; i <= NF; i++) if ($i ~ /^rbytes=/) r = substr($i, 8); if ($2 == "Read") r = $3 } END { if (r > 0) print f, r }' "$file"
    done >>"$out.groups" 2>/dev/null
    for file in $(find /sys/fs/cgroup -path '*hoistway*' \( -name io.bfq.weight -o -name io.weight -o -name blkio.bfq.weight \) 2>/dev/null); do
      echo "$file $(head -1 "$file")"
    done >>"$out.weights" 2>/dev/null
    sleep 0.5
  done
}
# CONFIG PREFIX: bytes that the processes of that name have read
moved() {
  zcat "$out/records/intervals.csv.gz" | sed 's/"cost-none{[^}]*}"/cost-none/' | awk -F, -v c="$1" -v p="proc:$2" '$2 == c && index($5, p) == 1 { sum += $7 } END { print sum + 0 }'
}

# The weights as they stand in the kernel, once each.
weights() { sort -u "$out.weights" 2>/dev/null | awk '$3 > 0 { n = split($1, part, "/"); gsub(/hoistway-[0-9]+-|[0-9]$/, "", part[n - 1]); print part[n - 1] " " part[n], $3 }' | sort -u | tr '\n' ';'; }
report "kernel $(uname -r), cgroup $version, $device: $(cat $queue/scheduler)"
before=$(state)
watch_groups &
watcher=$!
limited="max-none{rbps=$limit}"
# The rates of the experiment file, as they stand: no steering by latency.
cost="cost-none{min=100,max=100}"
$hoistway compare "$experiment" --on kernel --device "$device" -r 1 --quiet --wide --out "$out" \
  --config "none-none,$cost,$limited,prop-bfq,none-bfq" >"$out.table" 2>"$out.said"
code=$?
kill $watcher
wait $watcher 2>/dev/null
cat "$out.said" "$out.table" >&3
same "exit code of compare" 0 $code

# What cannot run is named, and only that.
if [ -e "$(find /sys/fs/cgroup -name io.latency 2>/dev/null | head -1)" ] || zcat /proc/config.gz 2>/dev/null | grep -q 'IOLATENCY=y'; then
  report "figure io.latency: this kernel has it"
else
  $hoistway compare latency-2019 --on kernel --device "$device" -r 1 --duration 1s --quiet --out "$out.lat" --config lat-none >/dev/null 2>"$out.lat.said"
  same "exit code where nothing can run" 3 $?
  cat "$out.lat.said" >&3
  if grep -q 'lat-none: io.latency' "$out.lat.said"; then ok "lat-none is left out, with a reason"; else failed "lat-none: this kernel has no io.latency, and nothing says so"; fi
fi
if [ $version = v1 ]; then
  if grep -q 'left out: cost-none' "$out.said"; then ok "cost-none is left out, with a reason"; else failed "cost-none on v1"; fi
fi

# The groups were real: the kernel's own accounts name them.
groups=$(awk '{ print $1 }' "$out.groups" 2>/dev/null | sort -u | wc -l)
if [ "$groups" -ge 8 ]; then ok "groups with bytes of their own in the kernel's accounts: $groups"; else failed "groups in the kernel's accounts: $groups, not 8"; fi

report "figure weights in the kernel: $(weights)"

total() { echo $(($(moved "$1" light) + $(moved "$1" heavy))); }
ratio() { awk "BEGIN { printf \"%.2f\", $(moved "$1" heavy) / ($(moved "$1" light) + 1) }"; }
mb() { awk "BEGIN { printf \"%.2f\", $1 / $seconds / 1e6 }"; }
for config in none-none none-bfq prop-bfq cost-none "$limited"; do
  [ "$(total "$config")" -gt 0 ] || continue
  report "figure $config: $(mb "$(total "$config")") MB/s in all, heavy over light $(ratio "$config")"
done
within "io.max: MB/s of eight groups of 1 MB/s each" 7.2 "$(mb "$(total "$limited")")" 8.8
within "io.max: heavy over light (both limited alike)" 0.9 "$(ratio "$limited")" 1.1
within "bfq's weights 300 and 100: heavy over light" 2 "$(ratio prop-bfq)" 4
[ $version = v1 ] || within "io.cost: MB/s of a device that it takes for one of 9 MB/s" 7 "$(mb "$(total cost-none)")" 10
[ $version = v1 ] || within "io.cost's weights 300 and 100: heavy over light" 1.8 "$(ratio cost-none)" 4
within "no groups: heavy over light" 0.7 "$(ratio none-none)" 1.4

after=$(state)
if [ "$before" = "$after" ]; then ok "scheduler, queue and cgroups are as they were"; else failed "left changed: $(echo "$after" | tr '\n' ' ')"; fi
if [ $failures -eq 0 ]; then report "verdict: ok"; else report "verdict: $failures failed"; fi
if [ "${1:-}" = here ]; then
  rm -rf "$(dirname "$out")"
  exit $((failures > 0))
fi
sync
poweroff -f
