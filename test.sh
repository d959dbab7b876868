#!/usr/bin/env bash
# Passes every test: format, lints, no_std build of the core, unit, scenario, property, contract and command-line
# tests, documentation. Installs what it needs.
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh test

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
  cargo build --locked -p hoistway --target "$target"
else
  echo "skipped: the tool chain has no $target and rustup could not add it"
fi

step "lints"
if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy --locked --workspace --all-targets -- -D warnings
  # What is not in the defaults.
  cargo clippy --locked -p hoistway-cli --features ublk --all-targets -- -D warnings
  cargo clippy --locked -p hoistway-live --features ublk --all-targets -- -D warnings
  # As ./hoistway builds it for what only simulates.
  cargo clippy --locked -p hoistway-cli --no-default-features -- -D warnings
else
  echo "skipped: this tool chain has no clippy (rustup component add clippy)"
fi

step "tests"
cargo test --locked --workspace
cargo test --locked -p hoistway-live --features ublk --lib ublk

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
echo "all passed"
