#!/usr/bin/env bash
# Runs `openssl s_client` and raw bytes against Tidegate (sessions, key updates, renegotiation, stapling, early data,
# groups, alerts, lines of the error log), and compares with the list of expected differences,
# tests/conformance/openssl.tsv.
#
#   scripts/openssl.sh [BINARY]
#
# BINARY defaults to target/release/tidegate. Needs openssl 3. Takes a few seconds. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
exec python3 tests/conformance/openssl.py --binary "$binary"
