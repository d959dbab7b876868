#!/usr/bin/env bash
# `hoistway compare --on kernel` with groups, against the kernel's own controllers in cgroup v2: boots a Debian kernel in a
# small virtual machine whose disk does 1000 I/Os and 16 MB per second, runs tests/vm/cgroup-guest.sh there and
# prints its table and what was checked. Exits 0 if all of it holds, 1 if not, 77 if it cannot be tried here.
#
#   tests/vm/cgroup.sh [SECONDS]       SECONDS: limit of the whole run in the machine (default 900)
#
# Nearly every machine with systemd has cgroup v2; where one has v1, as some containers' hosts do, this shows the other path.
# The kernel is Debian 12's unless said otherwise (70 MB, downloaded once). Linux 6.12.95 of the cloud flavour crashed while it booted on an
# emulated processor of qemu 7.2.
#
#   KERNEL=FILE.deb or FOLDER          a linux-image package, or a folder with one unpacked (boot/, lib/modules/)
#   SUITE=trixie                       take it from another suite of Debian
#   HOISTWAY=PROGRAM                   the program; built if not given
#   ACCEL=kvm or tcg                   KVM where it boots the machine and TCG otherwise, if not given
#   KEEP=FOLDER                        leave the console's text and the report there
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=${1:-900}
suite=${SUITE:-bookworm}
work=$(mktemp -d)
. tests/vm/machine.sh

needs
find_kernel
[ -n "$modules" ] && [ -n "$(first "$modules" -name 'bfq.ko*')" ] || skip "the kernel ${image##*/vmlinuz-} has no module bfq"

program=${HOISTWAY:-}
if [ -z "$program" ]; then
  say "building hoistway"
  cargo build --locked --release --quiet -p hoistway-cli
  program=${CARGO_TARGET_DIR:-target}/release/hoistway
fi

make_root
program_into "$(command -v bash)" bin/bash
program_into "$program" usr/sbin/hoistway
! command -v strip >/dev/null || strip --strip-debug "$root/usr/sbin/hoistway"
for name in virtio_pci virtio_blk mq_deadline kyber_iosched bfq; do module "$name"; done
cp tests/vm/weights.toml "$root/weights.toml"
pack tests/vm/cgroup-guest.sh

truncate -s 2G "$work/disk"
machine=(-drive "file=$work/disk,format=raw,if=none,id=disk,cache=unsafe,throttling.iops-total=1000,throttling.bps-total=16000000"
  -device virtio-blk-pci,drive=disk)
run_machine "$("$program" --version)"
