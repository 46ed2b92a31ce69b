#!/usr/bin/env bash
# The quick benchmark: CPU per request beside genuine nginx. Arguments replace the suite's name, as in
#   scripts/bench.sh streaming --html streaming.html
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
if [ $# -eq 0 ]; then set -- quick; fi
packages=(--package tidegate --package tidegate-bench)
# The suite `blocking` measures the server with handlers of both kinds.
if [ "$1" = blocking ]; then
    scripts/wasm.sh
    packages+=(--package tidegate-example --features tidegate/wasm)
fi
programs=$(scripts/release.sh "${packages[@]}")
exec "$programs/tidegate-bench" "$@"
