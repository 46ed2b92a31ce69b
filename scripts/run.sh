#!/usr/bin/env bash
# Builds Tidegate and starts it in the foreground on its built-in demonstration: port 8080, no root,
# data below a temporary directory. Arguments are passed on.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh run
cargo build --release --package tidegate
exec "${CARGO_TARGET_DIR:-target}/release/tidegate" demo "$@"
