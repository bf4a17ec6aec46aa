# Sourced by the measurements beside it: where things are, what they need, how they are built.
#
#   BENCH_DIR   where they write (default: the target folder; it must lie on the disk to be measured)
#   BROKER      the broker's binary (default: built here, optimised)

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
bench_dir=${BENCH_DIR:-$CARGO_TARGET_DIR/bench}
bin=$CARGO_TARGET_DIR/release
mkdir -p "$bench_dir"

# Rings and registered buffers need locked memory, many partitions many files. Without the right to raise a limit it stays.
ulimit -l unlimited 2>/dev/null || true
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true

# System calls are counted by a tracepoint of the kernel, which root sees here; without it they are not counted.
if [ "$(id -u)" = 0 ] && [ ! -e /sys/kernel/tracing/events ]; then
    mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || true
fi

# build PROGRAM...: of the package of measurements.
build() {
    local bins=()
    for program in "$@"; do bins+=(--bin "$program"); done
    cargo build -q --release --locked --manifest-path "$root/benches/Cargo.toml" "${bins[@]}"
}

# Sets `broker`, building it unless one was named.
need_broker() {
    broker=${BROKER:-$bin/tidemill}
    [ -n "${BROKER:-}" ] || cargo build -q --release --locked --manifest-path "$root/Cargo.toml" --bin tidemill
}
