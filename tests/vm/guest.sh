# What the programs of this folder that run inside a virtual machine begin with: the file systems, where that program is the
# machine's first, and words for the report on the second serial line: "ok WHAT", "FAILED WHAT: ...", "figure ...", and
# "verdict: ..." at the end. Sourced.
if [ $$ -eq 1 ]; then
  # Before busybox's own versions of the same programs.
  export PATH=/usr/sbin:/bin
  /bin/busybox --install -s /bin
  mount -t proc proc /proc
  mount -t sysfs sys /sys
  mount -t devtmpfs dev /dev
  mkdir -p /dev/shm /sys/fs/cgroup
  mount -t tmpfs -o size=1500m tmp /tmp
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  exec 3>/dev/ttyS1 2>/dev/ttyS0 >&2
  cd /tmp
  only=$(sed -n 's/.*hoistway_only=\([^ ]*\).*/\1/p' /proc/cmdline)
fi
failures=0
part=

report() { echo "$*" >&3; echo "### $*"; }
ok() { report "ok ${part:+$part: }$*"; }
failed() { failures=$((failures + 1)); report "FAILED ${part:+$part: }$*"; }
# WHAT COMMAND...: the command is to succeed.
must() {
  local what=$1 said; shift
  if said=$("$@" 2>&1); then ok "$what"; else failed "$what ($?): $* : $(echo "$said" | tail -3 | tr '\n' ' ')"; fi
}
# WHAT COMMAND...: the command is to fail.
refused() {
  local what=$1 said; shift
  if said=$("$@" 2>&1); then failed "$what: succeeded: $*"; else ok "$what"; fi
}
# WHAT EXPECTED FOUND
same() { if [ "$2" = "$3" ]; then ok "$1 ($3)"; else failed "$1: expected $2, found $3"; fi; }
