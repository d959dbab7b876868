#!/usr/bin/env bash
# Builds libhoistway and puts it below a folder: install.sh [PREFIX], /usr/local if none is named.
# LIBDIR is where libraries go (PREFIX/lib); DESTDIR stands before all paths, for packages.
# PROFILE is cargo's (release).
set -euo pipefail
prefix=${1:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
profile=${PROFILE:-release}
cd "$(dirname "$0")"

version=$(cargo pkgid --package hoistway-capi | sed 's/.*[@#]//')
# The number of the binary interface, which is part of the library's name.
abi=$(sed -n 's/^#define HW_ABI \([0-9]*\)$/\1/p' include/hoistway.h)
[ -n "$version" ] && [ -n "$abi" ] || { echo "no version of the crate or in hoistway.h" >&2; exit 1; }

# One kind at a time, and no Rust library among them: only then is the whole of it optimised together.
build() {
  cargo rustc --quiet --locked --package hoistway-capi --lib --profile "$profile" --crate-type "$@"
}
build staticlib
build cdylib -- -C link-arg="-Wl,-soname,libhoistway.so.$abi" -C strip=debuginfo

target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
built=$target/$profile
[ "$profile" = dev ] && built=$target/debug
lib=${DESTDIR:-}$libdir
include=${DESTDIR:-}$prefix/include
install -d "$lib/pkgconfig" "$include"
install -m 644 "$built/libhoistway_capi.a" "$lib/libhoistway.a"
install -m 755 "$built/libhoistway_capi.so" "$lib/libhoistway.so.$abi.$version"
ln -sf "libhoistway.so.$abi.$version" "$lib/libhoistway.so.$abi"
ln -sf "libhoistway.so.$abi" "$lib/libhoistway.so"
install -m 644 include/hoistway.h "$include/hoistway.h"
sed -e "s|@prefix@|$prefix|" -e "s|@libdir@|$libdir|" -e "s|@version@|$version|" hoistway.pc.in \
  >"$lib/pkgconfig/hoistway.pc"
echo "libhoistway $version (ABI $abi) is in $lib, its header in $include"
