#!/usr/bin/env bash
# All fault cases, with counts: origins, clients, disks and processes that fail, each an end-to-end
# case in tests/cases/faults, a caching server that is killed (SIGKILL) at random moments, and one whose files another
# process changes while they are served.
#
#   scripts/faults.sh            with 200 kills, about four minutes
#   scripts/faults.sh KILLS      with KILLS kills
#
# The exit code is 1 when anything failed.
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-200}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
server=${CARGO_TARGET_DIR:-target}/debug/tidegate

scripts/setup.sh run
cargo build --quiet --package tidegate --package tidegate-testkit
status=0
echo "== faults"
cargo run --quiet --package tidegate-testkit --bin tidegate-cases -- \
    --world tidegate --tidegate "$server" --quiet --groups tests/cases/faults || status=1
echo "== kills"
cargo run --quiet --package tidegate-testkit --bin tidegate-torture -- \
    --rounds "$kills" --tidegate "$server" || status=1
echo "== changed files"
cargo run --quiet --package tidegate-testkit --bin tidegate-torture -- \
    --changes 2000 --tidegate "$server" || status=1
exit $status
