#!/usr/bin/env bash
# Builds the WebAssembly components of this repository:
#
#   target/wasm/example.wasm    examples/wasm, a template of a handler
#   target/wasm/faults.wasm     crates/tidegate-faults-wasm, for tests/handlers
#
# They are for the target wasm32-unknown-unknown: their host functions are not in the standard library
# but in the interface `wasi:http/proxy`. The linker, which comes with rustup's compiler, makes components.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
directory=$PWD/target/wasm

scripts/setup.sh wasm
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
FIRST_IN_PATH=$tools/gcc-ld:$tools CARGO_PROFILE_RELEASE_DEBUG=0 \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$tools/wasm-component-ld \
    scripts/debian-cargo.sh "$directory" "$target" std,panic_abort build --quiet --release \
    --package tidegate-example-wasm --package tidegate-faults-wasm
made=$directory/$target/release
cp "$made/tidegate_example_wasm.wasm" "$directory/example.wasm"
cp "$made/tidegate_faults_wasm.wasm" "$directory/faults.wasm"
