#!/usr/bin/env bash
# Runs the tests of nginx's OpenTelemetry module (github.com/nginxinc/nginx-otel) against Tidegate, with a collector by
# gRPC's own library for Python.
#
#   scripts/otel-tests.sh [BINARY [arguments of pytest]]
#
# BINARY defaults to target/release/tidegate. The suite stays outside of the repository: NGINX_OTEL names a checkout, else it
# is cloned to target/nginx-otel. Its waits are 10 ms long: beside busy processors it can fail. Takes half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath "${1:-target/release/tidegate}")
suite=${NGINX_OTEL:-target/nginx-otel}
[ -d "$suite" ] || git clone --quiet https://github.com/nginxinc/nginx-otel "$suite"
python=target/otel-tests/bin/python
if ! [ -x "$python" ]; then
    python3 -m venv target/otel-tests
    "$python" -m pip install --quiet --requirement "$suite/tests/requirements.txt"
fi
python=$PWD/$python
# The module is built in: the file is only named.
module=$PWD/target/otel-tests/ngx_otel_module.so
touch "$module"
cd "$suite/tests"
exec "$python" -m pytest --quiet -p no:cacheprovider "--nginx=$binary" "--module=$module" '--globals=user root;' \
    test_otel.py "${@:2}"
