#!/usr/bin/env bash
# Builds packages into target/packages and prints the path and the size in bytes of each:
#
#     packaging/build.sh deb|static|wheel|crates...
#
# DEBEMAIL is the address of the .deb's maintainer; RELEASE_URL the folder from which the Phoronix profile will load the
# static archive. What each one needs and how it is tried: docs/guide/packages.md.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 3; }
need() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null || die "needs $1: apt-get install $2"
}

target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
version=$(cargo pkgid -p hoistway-cli | sed 's/.*[@#]//')
if [ -z "$target" ] || [ -z "$version" ]; then die "cargo names no target folder or no version"; fi
out=$target/packages
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The same sources give the same package: all its files are as old as the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

made() { # FILE...
  local file
  for file in "$@"; do printf '%s  %s bytes\n' "$file" "$(stat -c %s "$file")"; done
}

# The licences of the crates in the program: each text once, below the names of the crates that hold it.
third_party() { # RUST-TARGET
  local texts=$work/texts crate folder file sum
  rm -rf "$texts"
  mkdir "$texts"
  cargo metadata --locked --format-version 1 --filter-platform "$1" |
    grep -o '"manifest_path":"[^"]*"' | cut -d'"' -f4 >"$work/manifests"
  cargo tree --locked -p hoistway-cli -e normal,no-proc-macro --target "$1" --prefix none --format '{p}|{l}' |
    sed -n 's/^\([^ ]*\) v\([0-9][^ |]*\)|\(.*\)/\1-\2 \3/p' | sed 's/ (\*)$//' | sort -u >"$work/crates"
  echo "Crates that are part of the program, with their licences; the texts that they come with follow."
  echo
  cat "$work/crates"
  while read -r crate _; do
    folder=$(grep -F "/$crate/Cargo.toml" "$work/manifests" | head -n 1) || die "cargo names no folder of $crate"
    for file in "${folder%/*}"/*; do
      case ${file##*/} in [Ll][Ii][Cc][Ee][Nn][CcSs][Ee]* | COPYING* | COPYRIGHT* | NOTICE* | UNLICENSE*) ;; *) continue ;; esac
      [ -f "$file" ] || continue
      sum=$(sha256sum "$file" | cut -c1-64)
      echo "$crate: ${file##*/}" >>"$texts/$sum.names"
      cp "$file" "$texts/$sum.text"
    done
  done <"$work/crates"
  for file in "$texts"/*.names; do
    printf '\n%s\n' "==============================================================================="
    cat "$file"
    echo
    cat "${file%.names}.text"
  done
}

deb() {
  need dpkg-deb dpkg
  need dpkg-shlibdeps dpkg-dev
  need strip binutils
  # In one call, since examples share all crates with the program.
  cargo build --release --locked -p hoistway-cli --bin hoistway --example man
  local root=$work/deb program=$target/release/hoistway mode from to
  rm -rf "$root"
  install -D -m 755 "$program" "$root/usr/bin/hoistway"
  strip --strip-all --remove-section=.comment "$root/usr/bin/hoistway"
  while read -r mode from to; do
    case $mode in '' | '#'*) continue ;; esac
    install -D -m "$mode" "$from" "$root/$to"
  done <packaging/deb/files
  # The core of the kernel module: with it `hoistway module build` needs no Rust, of which a stable Debian has an older one.
  if [ "$(uname -m)" = x86_64 ]; then
    HOISTWAY_CACHE_DIR=$target/module-core "$program" module core --out "$work/core.o"
    install -D -m 644 "$work/core.o" "$root/usr/share/hoistway/module/core.o"
  fi
  mkdir -p "$root/usr/share/man/man1"
  "$target/release/examples/man" "$root/usr/share/man/man1"
  completions "$program" "$root/usr/share"
  third_party "$(uname -m)-unknown-linux-gnu" >"$root/usr/share/doc/hoistway/third-party-licences"
  gzip -9n "$root"/usr/share/man/man1/*.1 "$root"/usr/share/doc/hoistway/{changelog,third-party-licences}
  find "$root" -type d -exec chmod 755 {} +
  chmod 644 "$root"/usr/share/man/man1/*
  control "$root"
  find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  local file
  file=$out/hoistway_$version-1_$(dpkg --print-architecture).deb
  dpkg-deb --root-owner-group -Zxz -z9 --build "$root" "$file" >/dev/null
  made "$file"
}

completions() { # PROGRAM SHARE
  mkdir -p "$2/bash-completion/completions" "$2/zsh/vendor-completions" "$2/fish/vendor_completions.d"
  "$1" completions bash >"$2/bash-completion/completions/hoistway"
  "$1" completions zsh >"$2/zsh/vendor-completions/_hoistway"
  "$1" completions fish >"$2/fish/vendor_completions.d/hoistway.fish"
}

# DEBIAN/ of a package: packaging/deb/control with what only the finished tree tells.
control() { # ROOT
  local depends size script
  # dpkg-shlibdeps wants a source package around it.
  mkdir -p "$work/source/debian"
  printf 'Source: hoistway\n\nPackage: hoistway\nArchitecture: any\n' >"$work/source/debian/control"
  depends=$(cd "$work/source" && dpkg-shlibdeps -O "$1/usr/bin/hoistway" | sed -n 's/^shlibs:Depends=//p')
  [ -n "$depends" ] || die "dpkg-shlibdeps names no library of $1/usr/bin/hoistway"
  size=$(du -k -s --apparent-size "$1" | cut -f1)
  mkdir "$1/DEBIAN"
  sed -e "s|@version@|$version-1|" -e "s|@architecture@|$(dpkg --print-architecture)|" -e "s|@depends@|$depends|" \
    -e "s|@size@|$size|" -e "s|@address@|${DEBEMAIL:+ <$DEBEMAIL>}|" packaging/deb/control >"$1/DEBIAN/control"
  for script in postinst prerm postrm; do install -m 755 "packaging/deb/$script" "$1/DEBIAN/$script"; done
  (cd "$1" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$1/DEBIAN/md5sums"
}

static() {
  local machine name folder
  machine=$(uname -m)
  local triple=$machine-unknown-linux-musl
  need strip binutils
  need xz xz-utils
  # The C files of ring, which is TLS.
  need musl-gcc musl-tools
  if ! rustc --print target-libdir --target "$triple" | xargs test -d; then
    command -v rustup >/dev/null || die "the tool chain has no $triple, and there is no rustup to add it"
    rustup target add "$triple"
  fi
  local compiler=CC_${triple//-/_}
  env "$compiler=musl-gcc" cargo build --release --locked -p hoistway-cli --bin hoistway --target "$triple"
  name=hoistway-$version-$machine-linux-static
  folder=$work/$name
  mkdir "$folder"
  install -m 755 "$target/$triple/release/hoistway" "$folder/hoistway"
  strip --strip-all --remove-section=.comment "$folder/hoistway"
  install -m 644 LICENSE-MIT LICENSE-APACHE CHANGELOG.md "$folder"
  third_party "$triple" >"$folder/third-party-licences"
  install -m 755 "$folder/hoistway" "$out/$name"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
    xz -9 >"$out/$name.tar.xz"
  made "$out/$name" "$out/$name.tar.xz"
  phoronix "$out/$name.tar.xz"
}

# The profile for the Phoronix Test Suite around the static archive, whose sums only this build knows.
phoronix() { # ARCHIVE
  local to=$out/phoronix/hoistway archive=${1##*/}
  mkdir -p "$to"
  cp packaging/phoronix/hoistway/{test-definition.xml,results-definition.xml,install.sh} "$to"
  sed -i "s|@version@|$version|" "$to/test-definition.xml"
  sed -e "s|@url@|${RELEASE_URL:+$RELEASE_URL/$archive}|" -e "s|@file@|$archive|" \
    -e "s|@md5@|$(md5sum "$1" | cut -d' ' -f1)|" -e "s|@sha256@|$(sha256sum "$1" | cut -d' ' -f1)|" \
    -e "s|@size@|$(stat -c %s "$1")|" -e "s|@machine@|$(uname -m)|" \
    packaging/phoronix/hoistway/downloads.xml.in >"$to/downloads.xml"
  made "$to"/*
}

wheel() {
  [ -f python/pyproject.toml ] || die "there is no python/pyproject.toml"
  need python3 python3
  # Tools of a folder of its own: maturin, and zig as the linker, so that the wheel runs with glibc 2.28.
  local tools=$target/packaging-tools
  if [ ! -x "$tools/bin/maturin" ]; then
    python3 -m venv "$tools" || die "needs venv: apt-get install python3-venv"
    "$tools/bin/pip" install --quiet --disable-pip-version-check maturin
  fi
  local link=()
  if "$tools/bin/pip" install --quiet --disable-pip-version-check ziglang; then
    link=(--zig --compatibility manylinux_2_28)
  else
    echo "no zig to be had: the wheel needs this machine's glibc or a newer one" >&2
  fi
  rm -rf "$work/wheel"
  # maturin looks for the module of zig in the first python on the PATH.
  # The profile is that of python/pyproject.toml.
  (cd python && PATH=$tools/bin:$PATH maturin build --locked "${link[@]}" --out "$work/wheel")
  local file
  for file in "$work"/wheel/*.whl; do
    mv "$file" "$out"
    made "$out/${file##*/}"
  done
}

# With verification: each package is built from what is in it alone.
crates() {
  cargo publish --workspace --locked --dry-run
  # Where below that folder they lie depends on the version of cargo; its registry holds copies.
  find "$target/package" -name "hoistway*-$version.crate" -not -path '*/tmp-registry/*' -exec cp -t "$out" {} +
  made "$out"/hoistway*-"$version".crate
}

[ $# -gt 0 ] || { echo "usage: packaging/build.sh deb|static|wheel|crates..." >&2; exit 2; }
for kind in "$@"; do
  case $kind in
    deb | static | wheel | crates) ;;
    *) echo "error: no package '$kind': deb, static, wheel or crates" >&2; exit 2 ;;
  esac
done
for kind in "$@"; do "$kind"; done
