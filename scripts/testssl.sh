#!/usr/bin/env bash
# Runs testssl.sh against a plain TLS server of Tidegate and against Mozilla's intermediate configuration, and compares
# the findings with the list of expected ones, tests/conformance/testssl.tsv.
#
#   scripts/testssl.sh [BINARY]
#
# BINARY defaults to target/release/tidegate, the program to the installed testssl (on Debian: apt-get install
# testssl.sh) or TESTSSL. Takes about four minutes. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
exec python3 tests/conformance/testssl.py --testssl "${TESTSSL:-testssl}" --binary "$binary"
