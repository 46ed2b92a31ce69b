#!/usr/bin/env bash
# Opens every view of the live page in a headless Chromium, in light, dark and narrow: no error on its console, no request
# elsewhere, no name that is run, no finding of axe-core. Screenshots are in target/dashboard.
#
#   scripts/dashboard.sh [BINARY]
#
# BINARY defaults to target/debug/tidegate. Needs Node and Chromium (on Debian: apt-get install nodejs chromium, or
# chromium-headless-shell); playwright-core and axe-core are installed below target/tools. Takes a minute.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/debug/tidegate}")
cd "$(dirname "$0")/.."
browser=$(command -v chromium-headless-shell || command -v chromium) || { echo "dashboard: no chromium" >&2; exit 2; }
tools=$PWD/target/tools/dashboard
if ! [ -d "$tools/node_modules/axe-core" ]; then
    mkdir -p "$tools"
    npm install --silent --prefix "$tools" playwright-core@1 axe-core@4 >&2
fi
NODE_PATH=$tools/node_modules exec node tests/conformance/dashboard.js "$binary" "$browser" "$PWD/target/dashboard"
