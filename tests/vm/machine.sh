# What the scripts of this folder share: a Debian kernel, a file system in memory and a small virtual machine. Sourced, after
# `suite`, `limit` and `work` are set and before `finish` is wanted.
#
#   KERNEL, SUITE, ACCEL, KEEP    as the scripts say

vm=
finish() {
  [ -z "$vm" ] || { kill "$vm" 2>/dev/null || true; wait "$vm" 2>/dev/null || true; }
  if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    cp "$work"/console-*.log "$work"/report-*.txt "$KEEP" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

skip() { echo "skipped: $*"; exit 77; }
say() { printf '%s\n' "$*" >&2; }
# The first file that `find` knows.
first() { find "$@" 2>/dev/null | head -1 || true; }

# PROGRAM:PACKAGE...
needs() {
  [ "$(uname -m)" = x86_64 ] || skip "the kernel package and the machine are those of x86_64"
  local tool
  for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils dpkg-deb:dpkg "$@"; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${tool%%:*}" >/dev/null ||
      skip "needs ${tool%%:*} (Debian: apt-get install ${tool##*:})"
  done
}

# --- the kernel ----------------------------------------------------------------------------------

# The archive alone, in apt's state of our own: nothing about the system's changes, and no rights are needed.
download() { # FOLDER
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  command -v apt-get >/dev/null || { echo "no apt here: name a kernel package in KERNEL"; return 1; }
  [ -r "$keys" ] || { echo "no $keys (package debian-archive-keyring)"; return 1; }
  # The archive that this system uses, or its mirror: not the one of security updates, which has other paths.
  local archive
  archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -v -- -security | sort -u | head -1)
  [ -n "$archive" ] || { echo "apt names no archive here: name a kernel package in KERNEL"; return 1; }
  mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$1"
  echo "deb [arch=amd64 signed-by=$keys] $archive $suite main" >"$work/apt/sources.list"
  : >"$work/apt/status"
  local apt=(-qq -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/apt/lists" -o "Dir::State::Status=$work/apt/status" -o "Dir::Cache=$work/apt/cache"
    -o Acquire::Languages=none -o APT::Architecture=amd64 -o APT::Sandbox::User=)
  apt-get "${apt[@]}" update >"$work/apt/log" 2>&1 && ! grep -q ^E: "$work/apt/log" ||
    { echo "apt-get update: $(grep -m1 -E '^[EW]:' "$work/apt/log")"; return 1; }
  local package
  package=$(apt-cache "${apt[@]}" depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\).*/\1/p' | head -1)
  [ -n "$package" ] || { echo "$suite has no linux-image-amd64"; return 1; }
  local there
  there=$(first "$1" -name "${package}_*.deb")
  if [ -z "$there" ]; then
    say "downloading $package from $suite"
    (cd "$work/apt" && apt-get "${apt[@]}" download "$package" >log 2>&1) ||
      { echo "apt-get download $package: $(grep -m1 -E '^[EW]:' "$work/apt/log")"; return 1; }
    mv "$work/apt/$package"_*.deb "$1/"
    there=$(first "$1" -name "${package}_*.deb")
  fi
  echo "$there"
}

find_kernel() { # sets image and modules
  local kernel=${KERNEL:-}
  if [ -z "$kernel" ]; then
    kernel=$(download "${XDG_CACHE_HOME:-$HOME/.cache}/hoistway") || skip "$kernel"
  fi
  if [ -f "$kernel" ]; then
    dpkg-deb --extract "$kernel" "$work/kernel"
    kernel=$work/kernel
  fi
  image=$(first "$kernel/boot" -name 'vmlinuz-*')
  [ -n "$image" ] || skip "no boot/vmlinuz-* in $kernel"
  modules=$(first "$kernel/lib/modules" "$kernel/usr/lib/modules" -maxdepth 1 -name "${image##*/vmlinuz-}")
}

# --- the machine's memory file system ------------------------------------------------------------

root=$work/root

make_root() {
  mkdir -p "$root"/{bin,dev,proc,sys/fs/cgroup,tmp,run,mnt,modules,usr/sbin}
  cp -L "$(command -v busybox)" "$root/bin/busybox"
  : >"$root/modules/order"
}
program_into() { # PROGRAM PLACE: with the libraries it loads
  cp -L "$1" "$root/$2"
  { ldd "$1" 2>/dev/null || true; } | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' |
    while read -r library; do
      [ -e "$root/$library" ] || { mkdir -p "$root/${library%/*}" && cp -L "$library" "$root/$library"; }
    done
}
# Modules in the order in which they can be loaded, each after those it depends on.
module() { # NAME
  local name=${1//-/_} file needs
  ! grep -qx "$name" "$root/modules/order" || return 0
  file=$(first "$modules" -name "$name.ko*" -o -name "${name//_/-}.ko*")
  # Built in, in this kernel.
  [ -n "$file" ] || return 0
  case $file in
    *.xz) xz -dc "$file" ;;
    *.zst) zstd -dcq "$file" ;;
    *) cat "$file" ;;
  esac >"$root/modules/$name.ko"
  needs=$(tr '\0' '\n' <"$root/modules/$name.ko" | sed -n 's/^depends=//p')
  for need in ${needs//,/ }; do module "$need"; done
  echo "$name" >>"$root/modules/order"
}
pack() { # INIT
  cp "$1" "$root/init"
  cp tests/vm/guest.sh "$root/guest.sh"
  chmod 755 "$root/init"
  (cd "$root" && find . | cpio --quiet -o -H newc) >"$work/initramfs"
}

# --- run -----------------------------------------------------------------------------------------

# More of the kernel's command line, and of qemu's.
append=
machine=()

boot() { # ACCELERATOR SECONDS-TO-COME-UP; 0: it came to an end, 1: it did not come up, 2: it did not end
  local console=$work/console-$1.log report=$work/report-$1.txt cpu=max begun=$SECONDS lines=0 total
  [ "$1" != kvm ] || cpu=host
  : >"$console"; : >"$report"
  # no_timer_check: on a busy host an emulated timer is late, and the kernel would panic because it "doesn't work".
  qemu-system-x86_64 -accel "$1" -cpu "$cpu" -smp 2 -m 3072 -nodefaults -display none -no-reboot \
    -kernel "$image" -initrd "$work/initramfs" \
    -append "console=ttyS0 edd=off no_timer_check panic=-1 loglevel=4 $append" "${machine[@]}" \
    -serial "file:$console" -serial "file:$report" -monitor none </dev/null >"$work/qemu" 2>&1 &
  vm=$!
  while kill -0 "$vm" 2>/dev/null; do
    total=$(wc -l <"$report")
    if [ "$total" -gt "$lines" ]; then
      sed -n "$((lines + 1)),${total}p" "$report"
      lines=$total
    fi
    if [ "$lines" -eq 0 ] && [ $((SECONDS - begun)) -ge "$2" ]; then break; fi
    if [ $((SECONDS - begun)) -ge "$limit" ]; then break; fi
    sleep 0.2
  done
  local over=0
  if kill "$vm" 2>/dev/null; then over=2; fi
  { wait "$vm" || true; } 2>/dev/null
  vm=
  total=$(wc -l <"$report")
  [ "$total" -le "$lines" ] || sed -n "$((lines + 1)),${total}p" "$report"
  [ "$total" -gt 0 ] || over=1
  return $over
}

# What runs inside, the report of which decides: exits 0 where it says "verdict: ok".
run_machine() { # WHAT IS TRIED
  say "kernel ${image##*/vmlinuz-}, $1"
  ended=1
  accel=tcg
  if [ "${ACCEL:-kvm}" = kvm ] && [ -w /dev/kvm ]; then
    accel=kvm
    boot kvm 20 2>/dev/null && ended=0 || ended=$?
    if [ "$ended" -eq 1 ]; then
      say "KVM does not boot it here ($(head -c 200 "$work/qemu" | head -1)); emulating the processor"
      [ -z "${ACCEL:-}" ] || skip "KVM does not boot it here"
      accel=tcg
    fi
  fi
  if [ "$ended" -eq 1 ]; then
    boot tcg 120 && ended=0 || ended=$?
  fi
  if [ "$ended" -ne 0 ]; then
    say "--- the machine did not come to an end in $limit s; its console:"
    tail -40 "$work/console-$accel.log" >&2
    [ "$ended" -ne 1 ] || skip "the machine did not come up: $(head -c 300 "$work/qemu")"
    exit 1
  fi
  grep -q '^verdict: ok' "$work/report-$accel.txt" || {
    say "--- the console:"
    tail -40 "$work/console-$accel.log" >&2
    exit 1
  }
}
