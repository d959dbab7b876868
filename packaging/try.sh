#!/usr/bin/env bash
# Tries packages of target/packages where nothing else is installed:
#
#     packaging/try.sh deb|static|wheel...
#
# deb: apt installs it in a fresh minimal Debian, which needs root and debootstrap; MIRROR names another mirror than this
# machine's. static: in a folder with nothing but /proc, which needs root. wheel: in a fresh venv. All is done in a
# folder of its own, which is removed at the end. Exit code 3: skipped, for what this machine lacks.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 3; }

target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
version=$(cargo pkgid -p hoistway-cli | sed 's/.*[@#]//')
if [ -z "$target" ] || [ -z "$version" ]; then die "cargo names no target folder or no version"; fi
work=''

# What is mounted below the folder, the innermost first; only if nothing is left is the folder removed.
mounts() { awk -v below="$work/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | sort -r; }
clean() {
  local code=$?
  trap '' INT TERM HUP
  if [ -n "$work" ]; then
    mounts | while read -r place; do umount "$place" || true; done
    if [ -z "$(mounts)" ]; then rm -rf --one-file-system "$work"; else echo "still mounted, kept: $work" >&2; fi
  fi
  exit "$code"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
work=$(mktemp -d)
chmod 755 "$work"

package() { # FILE: as target/packages has it
  local file=$target/packages/$1
  [ -f "$file" ] || die "$file is not there: packaging/build.sh makes it"
  printf '%s\n' "$file"
}

# Runs a command, and says the processor time of it and of all it started; its output stands in the file `said`.
timed() { # WHAT COMMAND...
  local what=$1 TIMEFORMAT='%3U %3S'
  shift
  if ! { time "$@" >"$work/said" 2>&1; } 2>"$work/time"; then
    cat "$work/said"
    die "$what failed"
  fi
  awk -v what="$what" '{ printf "%s: %.2f s of processor time\n", what, $1 + $2 }' "$work/time"
  awk '{ print $1 + $2 }' "$work/time" >>"$work/times"
}

# The table, without the progress and the notes on stderr.
table() { grep -A 8 '^drive' "$work/said" || { cat "$work/said"; die "there is no table"; }; }

deb() {
  [ "$(id -u)" = 0 ] || skip "deb: a root folder of one's own needs root"
  command -v debootstrap >/dev/null || skip "deb: needs debootstrap"
  local file root=$work/debian release mirror
  file=$(package "hoistway_$version-1_$(dpkg --print-architecture).deb")
  # The Debian that it was built on: an older one may lack the libraries.
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  mirror=${MIRROR:-$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$release" '$1 == release { print $2; exit }')}
  [ -n "$mirror" ] || skip "deb: this machine's apt knows no mirror of $release; MIRROR=http://... names one"
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$work/said" 2>&1 ||
    { tail -n 5 "$work/said"; skip "deb: debootstrap could not install $release from $mirror"; }
  cp "$file" "$root/hoistway.deb"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc"
  local inside=(chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive
    ${http_proxy:+"http_proxy=$http_proxy"})
  : >"$work/times"
  timed "apt-get install ./hoistway.deb" "${inside[@]}" apt-get install -y --no-install-recommends ./hoistway.deb
  timed "hoistway compare" "${inside[@]}" hoistway compare -o /root/run
  table
  awk '{ all += $1 } END { printf "together: %.2f s of processor time\n", all }' "$work/times"
  "${inside[@]}" sh -euc '
    hoistway --version
    for verb in compare bench serve ctl list restore; do test -s /usr/share/man/man1/hoistway-$verb.1.gz; done
    test -s /usr/lib/systemd/system/hoistway.service
    bash -n /usr/share/bash-completion/completions/hoistway
    hoistway serve -e ram:1M -U /root/nbd.sock --run true
    apt-get remove -y hoistway >/dev/null 2>&1
    test ! -e /usr/bin/hoistway' || die "something is missing in the package"
}

static() {
  [ "$(id -u)" = 0 ] || skip "static: chroot needs root"
  local file root=$work/empty
  file=$(package "hoistway-$version-$(uname -m)-linux-static")
  mkdir -p "$root/proc"
  cp "$file" "$root/hoistway"
  mount -t proc proc "$root/proc"
  : >"$work/times"
  timed "hoistway compare --quick" chroot "$root" /hoistway compare --quick -o /run
  table
  chroot "$root" /hoistway serve -q -e ram:1M -U /nbd.sock --pidfile /pid &
  local server=$! tries=0
  until [ -e "$root/pid" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || die "hoistway serve is not ready after 10 s"
    kill -0 "$server" 2>/dev/null || die "hoistway serve ended"
    sleep 0.1
  done
  kill "$server"
  wait "$server" || die "hoistway serve ended with code $?"
  # The same sources, built for glibc: the same bytes.
  local other=$target/release/hoistway
  if [ ! -x "$other" ]; then
    echo "skipped: the comparison with $other, which is not there (cargo build --release)"
    return
  fi
  timed "the same, built for glibc" "$other" compare --quick -o "$work/run"
  cmp "$root/run/metrics.csv" "$work/run/metrics.csv" || die "the two programs have different results"
  echo "metrics.csv: the same bytes ($(sha256sum "$work/run/metrics.csv" | cut -c1-16))"
}

wheel() {
  command -v python3 >/dev/null || skip "wheel: needs python3"
  local files
  files=("$target"/packages/hoistway-"$version"-*.whl)
  [ -f "${files[0]}" ] || die "$target/packages has no wheel: packaging/build.sh wheel makes it"
  python3 -m venv "$work/venv" >/dev/null || skip "wheel: needs venv (python3-venv)"
  : >"$work/times"
  # Nothing from anywhere else: a wheel that needs other packages fails here.
  timed "pip install" "$work/venv/bin/pip" install --disable-pip-version-check --no-index "${files[0]}"
  cat >"$work/first.py" <<'PY'
import hoistway
result = hoistway.compare("latency-2019", seed=1, jobs=1)
print(result)
result.save("run")
PY
  timed "compare in Python" sh -c 'cd "$1" && HOME=$1 venv/bin/python first.py' sh "$work"
  cat "$work/said"
  local other=$target/release/hoistway
  if [ -x "$other" ]; then
    timed "the same by the command line" "$other" compare latency-2019 --seed 1 --jobs 1 -o "$work/line"
    cmp "$work/run/metrics.csv" "$work/line/metrics.csv" || die "Python and the command line have different results"
    echo "metrics.csv: the same bytes"
  else
    echo "skipped: the comparison with $other, which is not there (cargo build --release)"
  fi
}

[ $# -gt 0 ] || { echo "usage: packaging/try.sh deb|static|wheel..." >&2; exit 2; }
for kind in "$@"; do
  case $kind in
    deb | static | wheel) ;;
    *) echo "error: '$kind' cannot be tried: deb, static or wheel" >&2; exit 2 ;;
  esac
done
if [ $# = 1 ]; then
  "$1"
else
  # Each by itself: one that is skipped or fails does not end the others.
  code=0
  for kind in "$@"; do packaging/try.sh "$kind" || code=$?; done
  exit "$code"
fi
