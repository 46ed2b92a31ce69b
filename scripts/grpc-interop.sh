#!/usr/bin/env bash
# Runs gRPC's interoperability tests, client and server of grpc-go, through `grpc_pass`, and prints a table.
#
#   scripts/grpc-interop.sh                                      Go's programs are built in target/grpc-interop
#   scripts/grpc-interop.sh grpc-interop target/release/tidegate
#   scripts/grpc-interop.sh grpc-interop /usr/sbin/nginx         another server with the same configuration
#   BESIDE=/usr/sbin/nginx scripts/grpc-interop.sh               and the load of `ghz`, as a ratio to this server
#
# The programs stay outside of the repository. Needs Go with access to its module proxy, openssl, iproute2 and unshare.
# Each case runs without a proxy first; one that fails there says nothing about the proxy and is only listed. Then it
# runs in four ways: the client plain or over TLS, the server by grpc:// or grpcs://. A failure there makes the script
# fail. ROUNDS=10 runs each case ten times, which shows races. The test server listens on all addresses, so everything
# is in a network namespace of its own, with loopback alone. Takes about a minute.
set -euo pipefail

here=$(realpath "$(dirname "$0")/..")
tools=$(realpath -m "${1:-$here/target/grpc-interop}")
binary=$(realpath "${2:-$here/target/release/tidegate}")
rounds=${ROUNDS:-1}
grpc_version=v1.85.0
ghz_version=v0.93.0
calls=20000

install_tools() {
    mkdir -p "$tools"
    local module
    for module in grpc/interop/client grpc/interop/server; do
        [ -x "$tools/${module##*/}" ] || GOBIN=$tools go install "google.golang.org/$module@$grpc_version"
    done
    if [ -n "${BESIDE:-}" ] && ! [ -x "$tools/ghz" ]; then
        GOBIN=$tools go install "github.com/bojand/ghz/cmd/ghz@$ghz_version"
    fi
}

if [ -z "${GRPC_INTEROP_NAMESPACE:-}" ]; then
    install_tools
    flags=(--net)
    [ "$(id -u)" -eq 0 ] || flags+=(--map-root-user)
    GRPC_INTEROP_NAMESPACE=1 exec unshare "${flags[@]}" "$0" "$tools" "$binary"
fi
ip link set lo up

work=$(mktemp -d)
processes=()
finish() {
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap finish EXIT
mkdir "$work/logs"
chmod 755 "$work"

# One certificate for the proxy and the test server, which is its own authority.
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
chmod 644 "$work/key.pem"

# Ports: the test server plain and with TLS, then a proxy's four.
plain=10000 encrypted=10001
configure() {
    local first=$1
    cat <<CONF
worker_processes 1; daemon off; pid $work/$first.pid; error_log $work/logs/$first.log notice;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path $work/body;
    keepalive_requests 1000000;
    http2 on;
    upstream plain     { server 127.0.0.1:$plain;     keepalive 64; keepalive_requests 1000000; }
    upstream encrypted { server 127.0.0.1:$encrypted; keepalive 64; keepalive_requests 1000000; }
    grpc_ssl_verify on;
    grpc_ssl_name localhost;
    grpc_ssl_trusted_certificate $work/cert.pem;
    ssl_certificate     $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    server { listen 127.0.0.1:$first;              location / { grpc_pass grpc://plain; } }
    server { listen 127.0.0.1:$((first + 1));      location / { grpc_pass grpcs://encrypted; } }
    server { listen 127.0.0.1:$((first + 2)) ssl;  location / { grpc_pass grpc://plain; } }
    server { listen 127.0.0.1:$((first + 3)) ssl;  location / { grpc_pass grpcs://encrypted; } }
}
CONF
}

# Waits until a port of this namespace is listened on.
wait_for() {
    local deadline=$((SECONDS + 20))
    until [ -n "$(ss --no-header --listening --tcp "sport = :$1")" ]; do
        if [ $SECONDS -gt $deadline ]; then
            cat "$work"/logs/*
            exit 1
        fi
        sleep 0.05
    done
}

start() {
    local name=$1
    shift
    "$@" >"$work/logs/$name" 2>&1 &
    processes+=($!)
}

start_proxy() {
    configure "$2" >"$work/$2.conf"
    start "proxy-$2" "$1" -p "$work/" -c "$work/$2.conf"
    wait_for $(($2 + 3))
}

# Cases of grpc-go's client that need neither Google's credentials nor several servers.
cases=(empty_unary large_unary client_streaming server_streaming ping_pong empty_stream timeout_on_sleeping_server
    cancel_after_begin cancel_after_first_response status_code_and_message special_status_message custom_metadata
    unimplemented_method unimplemented_service pick_first_unary orca_per_rpc orca_oob rpc_soak channel_soak)

# Runs a case over a port; prints `pass`, or `FAIL` and keeps the client's last line.
run_case() {
    local name=$1 port=$2 tls=$3 output=$work/logs/client round
    local arguments=(-test_case "$name" -server_host 127.0.0.1 -server_port "$port")
    if [ "$tls" = yes ]; then
        arguments+=(-use_tls -use_test_ca -ca_file "$work/cert.pem" -server_host_override localhost)
    fi
    for ((round = 1; round <= rounds; round++)); do
        if ! timeout 60 "$tools/client" "${arguments[@]}" >"$output" 2>&1; then
            printf '%s, port %s, round %s: %s\n' "$name" "$port" "$round" "$(tail -n 1 "$output")" >>"$work/failures"
            echo FAIL
            return
        fi
    done
    echo pass
}

interop() {
    local first=20000 format='%-28s %-8s %-10s %-10s %-10s %-10s\n' name way result results passed=0 failed=0 absent=0
    start_proxy "$binary" $first
    : >"$work/failures"
    # shellcheck disable=SC2059 # the format is ours
    printf "$format" case direct 'h2c grpc' 'h2c grpcs' 'TLS grpc' 'TLS grpcs'
    for name in "${cases[@]}"; do
        result=$(run_case "$name" $plain no)
        results=("$result")
        if [ "$result" = pass ]; then
            for way in 0 1 2 3; do
                result=$(run_case "$name" $((first + way)) "$([ $way -ge 2 ] && echo yes)")
                results+=("$result")
                if [ "$result" = pass ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
            done
        else
            results+=(- - - -)
            absent=$((absent + 1))
        fi
        # shellcheck disable=SC2059
        printf "$format" "$name" "${results[@]}"
    done
    cat "$work/failures"
    # Resets by the test server (`rejected request`) belong to cases that cancel.
    grep -E '\[(alert|emerg|crit|error)\]|panicked' "$work/logs/$first.log" | sed 's/^[^[]*//' | sort | uniq -c || true
    echo "$passed passed, $failed failed, $absent cases fail without a proxy"
    [ $failed -eq 0 ]
}

# CPU time of a proxy's processes, in ticks of the clock.
cpu_ticks() {
    local total=0 process
    for process in "$1" $(pgrep --parent "$1"); do
        total=$((total + $(awk '{ print $14 + $15 }' "/proc/$process/stat")))
    done
    echo $total
}

# Sends calls with ghz; prints the ticks that they used, or fails when one was no success.
load() {
    local process=$1 port=$2 before
    before=$(cpu_ticks "$process")
    "$tools/ghz" --insecure --proto "$work/test.proto" --call grpc.testing.TestService/UnaryCall \
        --data '{"response_size": 100}' --total $calls --concurrency 50 --connections 5 --format json \
        "127.0.0.1:$port" >"$work/ghz.json"
    if ! grep -q "\"OK\": $calls" <(tr -d '\n' <"$work/ghz.json" | sed 's/"OK":\s*/"OK": /'); then
        echo "ghz: not all of $calls calls succeeded:" >&2
        grep -A 5 -E 'statusCodeDistribution|errorDistribution' "$work/ghz.json" >&2
        return 1
    fi
    echo $(($(cpu_ticks "$process") - before))
}

compare() {
    local first=30000 ours theirs round
    cat >"$work/test.proto" <<'PROTO'
syntax = "proto3";
package grpc.testing;
message SimpleRequest { int32 response_size = 2; }
message Payload { bytes body = 2; }
message SimpleResponse { Payload payload = 1; }
service TestService { rpc UnaryCall(SimpleRequest) returns (SimpleResponse); }
PROTO
    # The process of the comparison is the last one that was started.
    start_proxy "$BESIDE" $first
    local their_process=${processes[-1]} our_process=${processes[-2]}
    for round in 1 2 3; do
        for way in 0 1; do
            ours=$(load "$our_process" $((20000 + way)))
            theirs=$(load "$their_process" $((first + way)))
            awk -v round=$round -v way="$([ $way -eq 0 ] && echo grpc:// || echo grpcs://)" -v ours="$ours" \
                -v theirs="$theirs" -v calls=$calls 'BEGIN {
                printf "load %d, %-8s %d calls without an error each, CPU time %.2f of the other server\n",
                    round, way, calls, ours / theirs }'
        done
    done
}

start server-plain "$tools/server" -port $plain
start server-encrypted "$tools/server" -port $encrypted -use_tls -tls_cert_file "$work/cert.pem" -tls_key_file "$work/key.pem"
wait_for $plain
wait_for $encrypted
status=0
interop || status=1
if [ -n "${BESIDE:-}" ]; then compare || status=1; fi
exit $status
