#!/usr/bin/env bash
# Runs HTTP/3 clients of others against Tidegate: aioquic, ngtcp2's gtlsclient, quic-go and, where installed, Chromium:
# downloads, uploads, many streams, sessions and early data, key updates, migration, Retry, loss. Compares each
# transcript, and the results with the list of expected differences, tests/conformance/h3-clients.tsv.
#
#   scripts/h3-clients.sh [BINARY [arguments of tests/conformance/h3-clients.py]]
#   scripts/h3-clients.sh target/release/tidegate --only 'quic-go/.*'
#   scripts/h3-clients.sh /usr/sbin/nginx --server nginx     the same of an nginx with HTTP/3 (list: h3-clients-nginx.tsv)
#
# BINARY defaults to target/release/tidegate. Needs gtlsclient (on Debian: apt-get install ngtcp2-client), Go 1.26 and
# Python 3.9 with venv; packages are installed below target/peers. BROWSER names Chromium's program, `none` for no
# browser. Takes two minutes. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
tools=$PWD/target/peers
mkdir -p "$tools"
if ! [ -x "$tools/h3/bin/hypercorn" ]; then
    python3 -m venv "$tools/h3"
    "$tools/h3/bin/pip" install --quiet 'aioquic==1.7.2' h2 hypercorn
fi
if ! command -v gtlsclient >/dev/null; then
    echo "h3-clients: gtlsclient is missing: apt-get install ngtcp2-client" >&2
    exit 1
fi
go build -C tests/conformance/peers/h3 -o "$tools/h3-go" .
browser=${BROWSER:-$(command -v chromium || true)}
arguments=()
if [ -n "$browser" ] && [ "$browser" != none ]; then arguments=(--browser "$browser"); fi
exec python3 tests/conformance/h3-clients.py --python "$tools/h3/bin/python" --go "$tools/h3-go" \
    --binary "$binary" "${arguments[@]}" "${@:2}"
