#!/usr/bin/env bash
# Installs what hoistway's commands need on Debian/Ubuntu: a C linker for Rust, and (with "test") the real
# programs that tests look for, (with "python") the packages of Python that they use, or (with "linux") what
# `hoistway linux build` needs. Does nothing when everything is there.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

packages=()
command -v cc >/dev/null || packages+=(gcc libc6-dev)
if [ "${1:-}" = test ]; then
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
    command -v google-chrome >/dev/null || packages+=(chromium)
  # Clients of the NBD server, and the server it is measured against.
  command -v nbdcopy >/dev/null || packages+=(libnbd-bin)
  command -v nbdkit >/dev/null || packages+=(nbdkit)
  command -v qemu-io >/dev/null || packages+=(qemu-utils)
  command -v fio >/dev/null || packages+=(fio)
  # Traces of block devices, and counts of instructions.
  command -v blkparse >/dev/null || packages+=(blktrace)
  command -v valgrind >/dev/null || packages+=(valgrind)
  # Programs in C against the installed library.
  command -v pkg-config >/dev/null || packages+=(pkg-config)
  # The job files that come with it.
  [ -d /usr/share/doc/fio/examples ] || packages+=(fio-examples)
  # File systems on exports that are files.
  command -v mkfs.ext4 >/dev/null || packages+=(e2fsprogs)
  command -v mkfs.xfs >/dev/null || packages+=(xfsprogs)
  command -v mkfs.btrfs >/dev/null || packages+=(btrfs-progs)
  command -v losetup >/dev/null || packages+=(mount)
  # FUSE without root.
  command -v fusermount3 >/dev/null || packages+=(fuse3)
  # promtool checks the metrics; Debian has it beside the server alone.
  command -v promtool >/dev/null || packages+=(prometheus)
  # Sockets that are passed on, and programs on a terminal.
  command -v systemd-socket-activate >/dev/null || packages+=(systemd)
  command -v script >/dev/null || packages+=(bsdutils)
  # The module of Python; ensurepip comes with venv.
  python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3 python3-venv)
fi
if [ "${1:-}" = linux ]; then
  for program in make flex bison bc patch; do
    command -v "$program" >/dev/null || packages+=("$program")
  done
  command -v xz >/dev/null || packages+=(xz-utils)
  # The newest source that the distribution has.
  compgen -G '/usr/src/linux-source-*.tar.*' >/dev/null || packages+=(linux-source)
fi

if [ "${#packages[@]}" -gt 0 ]; then
  sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "needs ${packages[*]}: run as root, or install them by hand"; exit 3; }
    sudo=sudo
  fi
  say "installing ${packages[*]}"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  # Only promtool was wanted, not a server that listens from now on.
  case " ${packages[*]} " in *" prometheus "*)
    if [ -d /run/systemd/system ]; then $sudo systemctl disable --now --quiet prometheus || true; fi ;;
  esac
fi

if ! command -v cargo >/dev/null; then
  if [ -x "$HOME/.cargo/bin/cargo" ]; then
    say "cargo is not on the PATH: run  . \"\$HOME/.cargo/env\"  and try again"
  else
    say "no Rust tool chain found (1.88 or newer is needed): install one from https://rustup.rs and try again"
  fi
  exit 3
fi

# The page and modules of schedulers are WebAssembly; their tests are skipped without.
wasm=wasm32-unknown-unknown
if [ "${1:-}" = test ] && command -v rustup >/dev/null && [ ! -d "$(rustc --print target-libdir --target "$wasm")" ]; then
  rustup target add "$wasm" >/dev/null 2>&1 || say "rustup could not add $wasm"
fi
if [ "${1:-}" = python ]; then
  # What the tests of the module of Python read tables, tune, and run notebooks with, in an environment of its own. Tests
  # of what is missing are skipped.
  venv=$(dirname "$0")/target/venv
  if [ ! -e "$venv/installed" ]; then
    say "installing packages of Python into $venv"
    if python3 -m venv "$venv" 2>/dev/null &&
       timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --retries 1 --timeout 15 \
         polars pandas pyarrow duckdb "dask[distributed]" "optuna>=5" altair matplotlib nbclient nbformat ipykernel \
         >/dev/null 2>&1; then
      touch "$venv/installed"
    else
      say "skipped: they could not be installed; the tests that need them will say so"
    fi
  fi
fi
