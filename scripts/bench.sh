#!/usr/bin/env bash
# The quick benchmark: CPU per request beside genuine nginx. Arguments replace the suite's name, as in
#   scripts/bench.sh streaming --html streaming.html
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh bench
if [ $# -eq 0 ]; then set -- quick; fi
cargo build --release --package tidegate --package tidegate-bench
exec "${CARGO_TARGET_DIR:-target}/release/tidegate-bench" "$@"
