#!/usr/bin/env bash
# Reads the texts of `metrics`, in the format of Prometheus and as OpenMetrics, with the parsers of Prometheus' client
# library and, where it is installed, with promtool.
#
#   scripts/metrics-tests.sh [BINARY]
#
# BINARY defaults to target/debug/tidegate. Needs Python; prometheus_client is installed below target/tools. promtool is
# in Debian's package prometheus; PROMTOOL=FILE names another one. Takes a few seconds.
set -euo pipefail
binary=$(realpath "${1:-$(dirname "$0")/../target/debug/tidegate}")
cd "$(dirname "$0")/.."
tools=$PWD/target/tools/metrics
if ! [ -d "$tools/lib" ]; then
    python3 -m venv "$tools" >&2
    "$tools/bin/pip" install --quiet "prometheus_client>=0.20,<1" >&2
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
promtool=${PROMTOOL:-$(command -v promtool || true)}
"$tools/bin/python" tests/conformance/metrics.py "$binary" "$directory" ${promtool:+"$promtool"}
