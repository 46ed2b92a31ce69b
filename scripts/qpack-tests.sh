#!/usr/bin/env bash
# Decodes the published output of QPACK encoders (github.com/qpackers/qifs), and encodes its fields.
#
#   scripts/qpack-tests.sh        the corpus is cloned to target/qifs
#   scripts/qpack-tests.sh qifs   it is in this directory
#
# The corpus stays outside of the repository. Takes a few seconds once built; a section that decodes to other fields than
# its own makes the script fail.
set -euo pipefail

corpus=$(realpath -m "${1:-target/qifs}")
cd "$(dirname "$0")/.."
if ! [ -d "$corpus" ]; then
    git clone --quiet https://github.com/qpackers/qifs "$corpus"
fi
cargo run --quiet --package tidegate-h3 --example qpack_corpus -- "$corpus"
