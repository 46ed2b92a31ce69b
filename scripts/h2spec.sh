#!/usr/bin/env bash
# Runs h2spec (github.com/summerwind/h2spec), a test suite of HTTP/2 servers, and compares the results with the list of
# expected differences, tests/conformance/h2spec.tsv.
#
#   scripts/h2spec.sh [BINARY]     BINARY defaults to target/release/tidegate; h2spec is built by Go into target/h2spec
#   H2SPEC=/usr/bin/h2spec scripts/h2spec.sh tidegate
#
# Takes half a minute. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
program=${H2SPEC:-target/h2spec/h2spec}
if ! [ -x "$program" ]; then
    GOBIN=$PWD/target/h2spec go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
fi
exec python3 tests/conformance/h2spec.py --h2spec "$(realpath "$program")" --binary "$binary"
