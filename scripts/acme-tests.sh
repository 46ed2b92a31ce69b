#!/usr/bin/env bash
# Kills the ACME client at each point of an order at Pebble (github.com/letsencrypt/pebble, a test server for ACME),
# and counts orders and certificates: one of each for a name. Then the same with the server itself, which is killed after
# each request of an order, and renewals of its certificate while it is reloaded.
#
#   scripts/acme-tests.sh            Pebble is installed to target/pebble by Go
#   scripts/acme-tests.sh pebble     pebble and pebble-challtestsrv are in this directory
#
# Pebble stays outside of the repository. Takes ten minutes once it is built. `target/debug/tidegate-acme` has the
# options.
set -euo pipefail

pebble=$(realpath -m "${1:-target/pebble}")
cd "$(dirname "$0")/.."
# shellcheck source=scripts/pebble.sh
. scripts/pebble.sh
ensure_pebble "$pebble" pebble pebble-challtestsrv
cargo build --quiet --package tidegate --package tidegate-testkit
target/debug/tidegate-acme --pebble "$pebble" --kills 100
exec target/debug/tidegate-acme --pebble "$pebble" --server target/debug/tidegate --kills 50
