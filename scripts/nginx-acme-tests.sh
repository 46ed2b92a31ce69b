#!/usr/bin/env bash
# Runs the tests of nginx's ACME module (github.com/nginx/nginx-acme) against Tidegate, with Pebble as the authority, and
# compares the result with tests/conformance/nginx-acme-tests.tsv. Fails when a file loses more than its entry says.
#
#   scripts/nginx-acme-tests.sh [BINARY [arguments of tests/conformance/nginx-tests.py]]
#
# BINARY defaults to target/release/tidegate. Both suites stay outside of the repository: NGINX_TESTS and NGINX_ACME name
# their checkouts, else they are cloned to target/. Pebble is in PEBBLE, or is installed to target/pebble by Go. Takes three
# minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${1:-target/release/tidegate}
suite=${NGINX_TESTS:-target/nginx-tests}
acme=${NGINX_ACME:-target/nginx-acme}
pebble=$(realpath -m "${PEBBLE:-target/pebble}")
# shellcheck source=scripts/pebble.sh
. scripts/pebble.sh
[ -d "$suite" ] || git clone --quiet https://github.com/nginx/nginx-tests "$suite"
[ -d "$acme" ] || git clone --quiet https://github.com/nginx/nginx-acme "$acme"
ensure_pebble "$pebble" pebble

# The module's tests with the library of nginx's own suite. Pebble of `go install` does not know its version, by which the
# tests choose what they can try.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp -r "$suite/lib" "$work/lib"
cp -r "$acme/t/lib/." "$work/lib/"
cp "$acme"/t/*.t "$work/"
cp "$pebble/pebble" "$work/pebble.real"
printf '#!/bin/sh\n[ "$1" = -version ] && echo "Pebble version: %s" && exit 0\nexec "%s" "$@"\n' \
    "$pebble_version" "$work/pebble.real" > "$work/pebble"
chmod 755 "$work/pebble" "$work/pebble.real"
TEST_NGINX_PEBBLE_BINARY=$work/pebble python3 tests/conformance/nginx-tests.py --tests "$work" --binary "$binary" \
    --baseline tests/conformance/nginx-acme-baseline.tsv --expected tests/conformance/nginx-acme-tests.tsv "${@:2}"
