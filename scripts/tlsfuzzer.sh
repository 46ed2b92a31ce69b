#!/usr/bin/env bash
# Runs tlsfuzzer's scripts for servers (github.com/tlsfuzzer/tlsfuzzer) with TLS 1.2 and 1.3 against Tidegate, and
# compares the results with the list of expected differences, tests/conformance/tlsfuzzer.tsv.
#
#   scripts/tlsfuzzer.sh [BINARY [arguments of tests/conformance/tlsfuzzer.py]]
#   scripts/tlsfuzzer.sh target/release/tidegate --only keyupdate
#
# BINARY defaults to target/release/tidegate. The suite stays outside of the repository: it is taken from TLSFUZZER, or
# cloned to target/tlsfuzzer at the commit that the list was made for. Needs Python 3.9 with venv; tlslite-ng is
# installed below target. Takes two minutes. Everything listens on loopback.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/release/tidegate}")
cd "$(dirname "$0")/.."
suite=${TLSFUZZER:-target/tlsfuzzer}
if ! [ -d "$suite" ]; then
    git clone --quiet https://github.com/tlsfuzzer/tlsfuzzer "$suite"
    git -C "$suite" checkout --quiet 14555fe211456c46deccc4b2d94751dbd894aece
fi
python=target/tlsfuzzer-python
if ! [ -e "$python/bin/tls.py" ]; then
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet -r "$suite/requirements.txt"
fi
exec python3 tests/conformance/tlsfuzzer.py --suite "$(realpath "$suite")" --python "$PWD/$python/bin/python" \
    --binary "$binary" "${@:2}"
