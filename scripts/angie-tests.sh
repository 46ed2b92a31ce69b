#!/usr/bin/env bash
# Runs Angie's tests of its statistics and error logs (github.com/webserver-llc/angie, tests/) against Tidegate, and compares the result with
# tests/conformance/angie-tests.tsv. Fails when a file loses more than its entry says.
#
#   scripts/angie-tests.sh [BINARY]
#
# BINARY defaults to target/release/tidegate. The suite stays outside of the repository: ANGIE_TESTS names the directory of
# its tests, else it is cloned to target/angie. Needs root, perl, and of Debian libtest-deep-perl, libjson-perl and
# libio-socket-ssl-perl. Each file runs unprivileged, in a network of its own. Takes two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath "${1:-target/release/tidegate}")
list=$PWD/tests/conformance/angie-tests.tsv
if [ -z "${ANGIE_TESTS:-}" ]; then
    [ -d target/angie ] || git clone --quiet --depth 1 https://github.com/webserver-llc/angie target/angie
    ANGIE_TESTS=target/angie/tests
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 777 "$work"
cp -r "$ANGIE_TESTS" "$work/tests"

# The suite starts the server with an option of Angie's, for the level of its log.
cat > "$work/angie" <<EOF
#!/usr/bin/env bash
arguments=()
for argument; do
    [[ \$argument == --log-level* ]] || arguments+=("\$argument")
done
exec "$binary" "\${arguments[@]}"
EOF
chmod 755 "$work/angie"

lost=0
while IFS=$'\t' read -r file allowed _; do
    [[ -z $file || $file == \#* ]] && continue
    unshare -n bash -c 'ip link set lo up
        cd "$0/tests" && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
            env HOME="$0" TMPDIR="$0" TEST_ANGIE_BINARY="$0/angie" timeout 300 perl "$1"' \
        "$work" "$file" > "$work/out" 2>&1 || true
    passed=$(grep -c '^ok ' "$work/out" || true)
    failed=$(grep '^not ok ' "$work/out" | grep -vc '# TODO' || true)
    planned=$(sed -n 's/^1\.\.//p' "$work/out" | tail -1)
    # What did not run has failed.
    missing=$((${planned:-0} > passed + failed ? planned - passed - failed : 0))
    [ -n "$planned" ] || missing=1
    failed=$((failed + missing))
    echo "$file: $passed passed, $failed failed, $allowed expected"
    if [ "$failed" -gt "$allowed" ]; then
        lost=1
        grep -a '^not ok ' "$work/out" | head -20
        tail -3 "$work/out"
    fi
done < "$list"
exit $lost
