#!/usr/bin/env bash
# Passes every test: format, lints, no_std check of the core, unit, scenario, property, contract and command-line
# tests, documentation. Installs what it needs.
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh test
# Beside the build: for one and a half minutes it loads more than it computes.
./setup.sh python &
installing=$!
trap 'kill "$installing" 2>/dev/null || true' EXIT

step() { printf '\n== %s\n' "$*"; }

step "format"
if cargo fmt --version >/dev/null 2>&1; then
  cargo fmt --all --check
else
  echo "skipped: this tool chain has no rustfmt (rustup component add rustfmt)"
fi

step "the core builds without the standard library"
target=thumbv7em-none-eabi
if rustc --print target-libdir --target "$target" 2>/dev/null | xargs -I{} test -d {} ||
   { command -v rustup >/dev/null && rustup target add "$target" >/dev/null 2>&1; }; then
  cargo check --locked -p hoistway --target "$target"
else
  echo "skipped: the tool chain has no $target and rustup could not add it"
fi

# Beside the tests, which wait more than they compute: lints, of the crates of the real machine also without their options,
# of the program also as ./hoistway builds it for what only simulates; and the documentation.
beside() {
  # Whoever builds keeps others of the same folder from building.
  until grep -q "Running" "$log"; do sleep 1; done
  if cargo clippy --version >/dev/null 2>&1; then
    # With modules, which the usual build of the program leaves out.
    cargo clippy --locked --workspace --features hoistway-cli/plugin --all-targets -- -D warnings &&
      cargo clippy --locked -p hoistway-serve -p hoistway-machine --all-targets -- -D warnings &&
      cargo clippy --locked -p hoistway-cli --no-default-features -- -D warnings &&
      cargo clippy --locked -p hoistway-cli --no-default-features --features studies -- -D warnings || return
  else
    echo "skipped: this tool chain has no clippy (rustup component add clippy)"
  fi
  RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
}

step "tests"
cargo test --locked --workspace --features hoistway-cli/plugin --no-run --quiet
wait "$installing"
log=$(mktemp)
said=$(mktemp)
beside >"$said" 2>&1 &
beside=$!
trap 'rm -f "$log" "$said"; kill "$beside" 2>/dev/null || true' EXIT
# Tests that pass keep what they print to themselves, but for what was skipped and why (at the end).
quiet='/^successes:$/ { hide = 1 } /^(failures:$|test result:)/ { hide = 0 } !hide { print; fflush() }'
where='$1 == "Running" || $1 == "Doc-tests" { where = $0; sub(/^ */, "", where); sub(/ \(.*/, "", where) }'
passed=true
cargo test --locked --workspace --features hoistway-cli/plugin --no-fail-fast -- --show-output 2>&1 |
  tee "$log" | awk "$quiet" || passed=false
if grep -q "^skipped: " "$log"; then
  step "skipped"
  awk "$where"' /^skipped: / { print where ": " $0 }' "$log" | sort -u
fi
if ! $passed; then
  step "failed"
  # Which test of which program; a program that was ended by a signal, or not built, says it itself.
  awk "$where"' /^test .* FAILED$/ { sub(/^test /, ""); sub(/ \.\.\. FAILED$/, ""); print where ": " $0 }
       /^error/ { print }' "$log"
  exit 1
fi

step "lints, other builds, and the documentation"
wait "$beside" || { cat "$said"; exit 1; }
grep "^skipped: " "$said" || true
echo "all passed"
