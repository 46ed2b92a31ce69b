#!/usr/bin/env bash
# Runs HTTP/2 clients and origins of others against Tidegate: curl and h2load, Go's net/http, Node.js' http2, Python's
# h2 and hypercorn. Compares the results with the list of expected differences, tests/conformance/peers.tsv.
#
#   scripts/peers.sh [BINARY [arguments of tests/conformance/peers.py]]
#   scripts/peers.sh target/release/tidegate --only 'go/tls/.*-2'
#
# BINARY defaults to target/release/tidegate. Needs curl, h2load (nghttp2-client), Go 1.24, Node.js 20 and Python 3.9
# with venv; packages are installed below target/peers. Takes two minutes. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
tools=target/peers
mkdir -p "$tools"
if ! [ -x "$tools/python/bin/hypercorn" ]; then
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet h2 hypercorn
fi
go build -o "$tools/go" tests/conformance/peers/peer.go
exec python3 tests/conformance/peers.py --go "$PWD/$tools/go" --python "$PWD/$tools/python/bin/python" \
    --binary "$binary" "${@:2}"
