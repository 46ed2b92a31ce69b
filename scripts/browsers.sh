#!/usr/bin/env bash
# Has headless browsers load a page from Tidegate by HTTP/2 (200 images, 5 MB both ways, a WebSocket), and compares with
# the list of expected differences, tests/conformance/browsers.tsv.
#
#   scripts/browsers.sh [BINARY [BROWSER...]]
#
# BINARY defaults to target/release/tidegate, the browsers to those of chromium and firefox-esr that are installed (on
# Debian: apt-get install chromium firefox-esr). Needs Python 3.9 with venv; hypercorn is installed below target/peers.
# Takes half a minute. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
tools=target/peers
if ! [ -x "$tools/python/bin/hypercorn" ]; then
    mkdir -p "$tools"
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet h2 hypercorn
fi
browsers=("${@:2}")
if [ ${#browsers[@]} -eq 0 ]; then
    mapfile -t browsers < <(command -v chromium firefox-esr)
fi
exec python3 tests/conformance/browsers.py --python "$PWD/$tools/python/bin/python" --binary "$binary" "${browsers[@]}"
