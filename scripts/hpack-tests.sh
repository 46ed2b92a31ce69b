#!/usr/bin/env bash
# Decodes the published header blocks of HPACK encoders (github.com/http2jp/hpack-test-case), and encodes their fields.
#
#   scripts/hpack-tests.sh                   the corpus is cloned to target/hpack-test-case
#   scripts/hpack-tests.sh hpack-test-case   it is in this directory
#
# The corpus stays outside of the repository. Takes a few seconds once built; a block that decodes to other fields than
# its own makes the script fail.
set -euo pipefail

corpus=$(realpath -m "${1:-target/hpack-test-case}")
cd "$(dirname "$0")/.."
if ! [ -d "$corpus" ]; then
    git clone --quiet https://github.com/http2jp/hpack-test-case "$corpus"
fi
cargo run --quiet --package tidegate-h2 --example hpack_corpus -- "$corpus"
