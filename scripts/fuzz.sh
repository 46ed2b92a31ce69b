#!/usr/bin/env bash
# Coverage-guided fuzzing of every target, or of those named.
#
#   scripts/fuzz.sh SECONDS [TARGET…]
#
# Needs a nightly compiler, for its instrumentation. Without one it reports that and runs the mutation
# loop of `make test` for the same time.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
scripts/setup.sh run

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then mapfile -t targets < <(ls fuzz/seeds); fi

if ! rustup run nightly rustc --version >/dev/null 2>&1; then
    echo "fuzz: no nightly compiler (rustup toolchain install nightly): running the stable loop" >&2
    for target in "${targets[@]}"; do
        cargo xtask fuzz --target "$target" --seconds "$seconds" --iterations 1000000000
    done
    exit 0
fi

tools="$PWD/target/tools"
if ! [ -x "$tools/bin/cargo-fuzz" ]; then
    echo "fuzz: building cargo-fuzz (once)" >&2
    cargo install cargo-fuzz --quiet --locked --version 0.13.2 --root "$tools"
fi
# The fuzz crate is outside the workspace; with the workspace's lock file it fuzzes the same libraries.
cp Cargo.lock fuzz/Cargo.lock
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target"
    dictionary=()
    if [ -f "fuzz/dictionaries/$target.dict" ]; then
        dictionary=("-dict=fuzz/dictionaries/$target.dict")
    fi
    # quinn-proto's own debug assertions do not all hold (its issue 2658: a spare probe).
    profile=()
    if [ "$target" = quic_packets ]; then profile=(--release); fi
    PATH="$tools/bin:$PATH" cargo +nightly fuzz run "${profile[@]}" "$target" \
        "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        "-max_total_time=$seconds" -max_len=16384 -timeout=10 "${dictionary[@]}"
done
