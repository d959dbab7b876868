#!/usr/bin/env bash
# hoistway's kernel module in a stock Debian kernel: boots it in a small virtual machine, runs tests/vm/module-guest.sh there
# and prints what was checked. Exits 0 if all of it holds, 1 if not, 77 if it cannot be tried here (the last line says why).
#
#   tests/vm/module.sh [SECONDS]       SECONDS: limit of the whole run in the machine (default 3000)
#
#   MODULE=FILE.ko                     the module; `hoistway module build` makes it if not given, which needs the kernel's headers
#   KERNEL=FILE.deb or FOLDER          its linux-image package, or a folder with one unpacked; Debian's 6.1 if not given
#   HEADERS=FOLDER                     the folder of the kernel's headers (linux-headers-RELEASE)
#   SOURCE=FILE or FOLDER              the kernel's source, for block/*.h
#   HOISTWAY=PROGRAM                   the program; built if not given, unless MODULE is. With it the part bench is tried: module
#                                      install, and a bench of a disk
#   ONE=FILE.ko                        the module of paternoster alone; made likewise if not given, unless MODULE is. With it and
#                                      HOISTWAY the part one is tried: both are put in place, one after the other
#   ACCEL=kvm or tcg                   KVM where it boots the machine and TCG otherwise, if not given
#   ONLY='each panic'                  the named parts only; ONLY=cost counts instructions per I/O and nothing else
#   COST='bfq h-bfq'                   the schedulers that are counted
#   KEEP=FOLDER                        leave the console's text and the report there
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=${1:-3000}
only=${ONLY:-}
suite=${SUITE:-bookworm}
work=$(mktemp -d)
. tests/vm/machine.sh

needs fio:fio mkfs.ext4:e2fsprogs
find_kernel
release=${image##*/vmlinuz-}
[ -n "$modules" ] || skip "no modules of $release beside it"

ko=${MODULE:-} program=${HOISTWAY:-} one=${ONE:-}
if [ -z "$ko" ]; then
  headers=${HEADERS:-/usr/src/linux-headers-$release}
  [ -d "$headers" ] || skip "no headers of $release in $headers (Debian: apt-get install linux-headers-$release)"
  if [ -z "$program" ]; then
    say "building hoistway"
    cargo build --locked --release --quiet -p hoistway-cli
    program=${CARGO_TARGET_DIR:-target}/release/hoistway
  fi
  ko=$work/hoistway.ko
  "$program" module build --kernel-dir "$headers" ${SOURCE:+--kernel-source "$SOURCE"} --out "$ko" ||
    { [ $? -eq 3 ] && skip "the module cannot be built here"; exit 1; }
  one=$work/hoistway-paternoster.ko
  "$program" module build --kernel-dir "$headers" ${SOURCE:+--kernel-source "$SOURCE"} --only paternoster --out "$one"
fi

make_root
mkdir -p "$root/sys/fs/cgroup" "$root/etc"
program_into "$(command -v fio)" bin/fio
program_into "$(PATH=$PATH:/usr/sbin:/sbin command -v mkfs.ext4)" usr/sbin/mkfs.ext4
program_into "$(command -v bash)" bin/bash
for name in configfs null_blk nvme scsi_debug sd_mod virtio_pci virtio_blk bfq kyber_iosched ext4 crc32c_generic; do module "$name"; done
cp "$ko" "$root/hoistway.ko"
[ -z "$one" ] || cp "$one" "$root/hoistway-paternoster.ko"
if [ -n "$program" ]; then
  program_into "$program" usr/sbin/hoistway
  ! command -v strip >/dev/null || strip --strip-debug "$root/usr/sbin/hoistway"
  for name in depmod modprobe; do program_into "$(PATH=$PATH:/usr/sbin:/sbin command -v "$name")" "usr/sbin/$name"; done
  mkdir -p "$root/lib/modules/$release"
  cp "$modules"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$release"
fi
pack tests/vm/module-guest.sh
append="hoistway_only=${only// /,}"
# A drive that takes many requests in and serves them one after the other: what is inside decides how long the next one takes.
truncate -s 2G "$work/slow"
machine=(-drive "file=$work/slow,format=raw,if=none,id=slow,throttling.iops-total=400"
  -device virtio-blk-pci,drive=slow,num-queues=1)
truncate -s 256M "$work/nvme"
machine+=(-drive "file=$work/nvme,format=raw,if=none,id=nvme,discard=unmap,throttling.iops-total=400"
  -device nvme,drive=nvme,serial=hoistway,max_ioqpairs=1)
if [ "$only" = cost ]; then
  # One instruction takes one nanosecond, whatever the host does.
  ACCEL=tcg
  machine+=(-smp 1 -icount shift=0,align=off,sleep=off)
  cost=${COST:-none noop mq-deadline h-mq-deadline kyber h-kyber bfq h-bfq paternoster cfq adios k2 h-deadline}
  append="$append mitigations=off nokaslr norandmaps hoistway_cost=${cost// /,}"
fi
run_machine "$(stat -c '%s bytes' "$ko") of module"
