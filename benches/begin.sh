# Sourced by the benchmarks of the server, in the root of the repository: checks the tools, builds what is
# measured ($binary; HOISTWAY=PATH takes another one) and makes a folder for the run ($folder).
for tool in fio nbdkit nbdinfo python3; do
  command -v "$tool" >/dev/null || { echo "needs $tool: ./setup.sh test" >&2; exit 3; }
done
binary=${HOISTWAY:-}
if [ -z "$binary" ]; then
  cargo build --locked --release --quiet -p hoistway-cli
  binary=${CARGO_TARGET_DIR:-target}/release/hoistway
fi
folder=$(mktemp -d)

# Waits until a server answers there; where none does, its log and the end.
answers() { # URI LOG
  for _ in $(seq 100); do
    nbdinfo --size "$1" >/dev/null 2>&1 && return
    sleep 0.1
  done
  cat "$2" >&2; exit 1
}
