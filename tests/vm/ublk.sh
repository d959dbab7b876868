#!/usr/bin/env bash
# `hoistway serve --ublk` against the kernel's own driver: boots a Debian kernel that has it in a small virtual machine,
# runs tests/vm/ublk-guest.sh there and prints what was checked. Exits 0 if all of it holds, 1 if not, 77 if
# it cannot be tried here (the last line says why).
#
#   tests/vm/ublk.sh [SECONDS]         SECONDS: limit of the whole run in the machine (default 1200)
#
# Without further wishes the kernel is Debian's newest of bookworm-backports: about 100 MB, downloaded by apt from
# Debian's archive once and kept in ${XDG_CACHE_HOME:-~/.cache}/hoistway.
#
#   KERNEL=FILE.deb or FOLDER          a linux-image package, or a folder with one unpacked (boot/, lib/modules/)
#   SUITE=trixie                       take it from another suite of Debian
#   HOISTWAY=PROGRAM                   the program; built if not given
#   UNIT=PROGRAM                       the unit tests of hoistway-serve with its feature ublk; not run if not given
#   ACCEL=kvm or tcg                   KVM where it boots the machine and TCG otherwise, if not given
#   ONLY='ram figures'                 the named parts only
#   KEEP=FOLDER                        leave the console's text and the report there
set -euo pipefail
cd "$(dirname "$0")/../.."
limit=${1:-1200}
only=${ONLY:-}
suite=${SUITE:-bookworm-backports}
work=$(mktemp -d)
. tests/vm/machine.sh

needs mkfs.ext4:e2fsprogs e2fsck:e2fsprogs blkdiscard:util-linux blockdev:util-linux losetup:mount fio:fio
find_kernel
[ -n "$modules" ] && [ -n "$(first "$modules" -name 'ublk_drv.ko*')" ] || skip "the kernel ${image##*/vmlinuz-} has no module ublk_drv"

# --- the program ---------------------------------------------------------------------------------

program=${HOISTWAY:-}
if [ -z "$program" ]; then
  say "building hoistway"
  cargo build --locked --release --quiet -p hoistway-cli
  program=${CARGO_TARGET_DIR:-target}/release/hoistway
fi
"$program" list fronts | grep -q ublk || { say "$program was built without ublk"; exit 1; }

make_root
for tool in mkfs.ext4 e2fsck blkdiscard blockdev losetup fio dd cmp timeout; do
  program_into "$(PATH=$PATH:/usr/sbin:/sbin command -v "$tool")" usr/sbin/"$tool"
done
program_into "$(command -v bash)" bin/bash
program_into "$program" usr/sbin/hoistway
[ -z "${UNIT:-}" ] || program_into "$UNIT" usr/sbin/hoistway-serve-tests
! command -v strip >/dev/null || strip --strip-debug "$root/usr/sbin/hoistway"
for name in crc32c_generic ext4 loop fuse ublk_drv; do module "$name"; done
pack tests/vm/ublk-guest.sh
append="hoistway_only=${only// /,}"
run_machine "$("$program" --version)"
