#!/usr/bin/env bash
# Runs the simulations of many servers (docs/simulations), records their tables, and draws them. Tests compare the tables and
# the drawings with what is recorded.
#
#   scripts/simulations.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export SIMULATIONS=write
cargo test --quiet --package tidegate-modules --lib limit_req::tests::model
cargo test --quiet --package tidegate-gateway --lib purge_sync::tests::model
cargo run --quiet --package tidegate-bench -- draw docs/simulations/*.tsv
