#!/usr/bin/env bash
# Makes the page, one static HTML file: target/page/hoistway.html, or FILE. With --test the module is not optimised: it
# is compiled in a fraction of the time, and is larger and slower.
# usage: build.sh [--test] [FILE]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
triple=wasm32-unknown-unknown

profile=page folder=page level=9 options=()
if [ "${1:-}" = --test ]; then
  # A folder of its own would need the procedural macros of its own as well.
  profile=dev folder=debug level=1
  options=(--config profile.dev.opt-level=0 --config profile.dev.debug=false --config profile.dev.incremental=false)
  shift
fi
out=${1:-$target/page/hoistway.html}

if ! test -d "$(rustc --print target-libdir --target "$triple")"; then
  echo "the tool chain has no $triple: rustup target add $triple" >&2
  exit 3
fi
(cd "$root" && cargo rustc --locked --quiet "${options[@]}" -p hoistway-page --lib --crate-type cdylib \
  --profile "$profile" --target "$triple" -- -C strip=symbols)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gzip -$level -n <"$target/$triple/$folder/hoistway_page.wasm" | base64 | tr -d '\n' >"$work/module"
cp "$here"/web/* "$here"/vendor/uplot/uPlot.* "$root/crates/hoistway-lab/src/report/chart.css" "$work"
# Text between @@ is the name of the file that stands in its place.
LC_ALL=C awk -v work="$work/" '
  match($0, /@@[A-Za-z.]+@@/) {
    printf "%s", substr($0, 1, RSTART - 1)
    rest = substr($0, RSTART + RLENGTH)
    file = work substr($0, RSTART + 2, RLENGTH - 4)
    lines = 0
    while ((got = (getline line < file)) > 0) printf "%s%s", lines++ ? "\n" : "", line
    if (got < 0 || !lines) { print file ": cannot be read" > "/dev/stderr"; exit 1 }
    print rest
    next
  }
  { print }' "$work/index.html" >"$work/page"
mkdir -p "$(dirname "$out")"
mv "$work/page" "$out"
wc -c "$out"
