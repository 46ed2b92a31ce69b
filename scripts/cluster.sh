#!/usr/bin/env bash
# A test bed of three servers that share limits and purges by Redis, each in a network namespace of its own, on a bridge.
#
#   scripts/cluster.sh up [BINARY]      makes it and starts everything; BINARY defaults to target/release/tidegate
#   scripts/cluster.sh down             ends everything and removes it
#   scripts/cluster.sh run COMMAND…     up, then the command in the client's namespace, then down
#   scripts/cluster.sh in PLACE COMMAND…    a command in a namespace: node1 node2 node3 engine client
#   scripts/cluster.sh fault FAULT…
#   scripts/cluster.sh envoy ENVOY RATELIMIT    three Envoys beside the servers (port 81), their rate-limit service and
#                                       its Redis beside the engine; scripts/envoy.sh fetches the programs
#   scripts/cluster.sh no-envoy         ends these
#   scripts/cluster.sh processes WHAT   ids of processes: nodes, engine, envoys, ratelimit (with its Redis)
#
# Faults: `cut NODE [in|out]` drops packets between a node and the engine (of one direction), `heal NODE` ends that;
# `kill`, `start` (an empty engine), `stop`, `continue` (SIGSTOP, SIGCONT), `pause MS` (CLIENT PAUSE), `password` and
# `no-password`, `full` and `not-full` (maxmemory) are about the engine; `garbage` puts a server that is no engine in its place;
# `kill-node NODE` and `start-node NODE` are about a server. `clocks` starts the engine (an empty one) and the servers again with
# clocks of their own, and `clock PLACE SECONDS` sets one of them ahead of the machine's clock, or behind it (-3600).
# `sentinel` starts a replica of the engine (port 6381) and a Sentinel (port 26379), and the servers again with
# `sentinel=main`: `kill` is a fail-over then.
#
# Needs root, ip (iproute2), nft (nftables), redis-server, redis-cli and python3, and cc for clocks (scripts/clock.c). All names
# begin with tgc-; files are in target/cluster, or in $CLUSTER. Addresses: 10.99.0.1 to .3 are the nodes (port 80), .10 the
# engine, .12 the client, which is the origin and Consul as well (ports 9000 to 9002).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bed=${CLUSTER:-$root/target/cluster}
nodes="node1 node2 node3"
net=10.99.0

say() { printf 'cluster: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
in_place() { ip netns exec "tgc-$1" "${@:2}"; }
engine() { in_place engine redis-cli -h $net.10 "$@"; }

address() {
    case $1 in
        node[123]) echo "$net.${1#node}" ;;
        engine) echo $net.10 ;;
        client) echo $net.12 ;;
        *) fail "there is no place \"$1\"" ;;
    esac
}

place() {
    ip netns add "tgc-$1"
    ip -n "tgc-$1" link set lo up
    ip link add "tgc-l" netns tgc-lan type veth peer name eth0 netns "tgc-$1"
    ip -n tgc-lan link set tgc-l name "$1"
    ip -n tgc-lan link set "$1" master lan up
    ip -n "tgc-$1" addr add "$(address "$1")/24" dev eth0
    ip -n "tgc-$1" link set eth0 up
}

# A command in a place, with the clock of that place if it has one of its own.
clocked() {
    local place=$1
    shift
    if [ -e "$bed/$place.clock" ]; then
        set -- env CLOCK_OFFSET="$bed/$place.clock" LD_PRELOAD="$bed/clock.so" "$@"
    fi
    in_place "$place" "$@"
}

# Programs see the file as it is: the new text takes the place of the old one, and has its length.
set_clock() { printf '%+012d\n' "$2" | dd of="$bed/$1.clock" conv=notrunc status=none; }

start_clocks() {
    cc -shared -fPIC -O2 -o "$bed/clock.so" "$root/scripts/clock.c"
    end_by "$bed/engine.pid" KILL
    set_clock engine 0
    start_engine
    for node in $nodes; do
        end_by "$bed/$node/nginx.pid" KILL
        set_clock "$node" 0
        start_node "$node"
    done
}

# A Redis with a name and a port, and further arguments.
start_redis() {
    rm -f "$bed/$1.pid"
    mkdir -p "$bed/$1"
    clocked engine redis-server "${@:3}" --bind $net.10 --port "$2" --protected-mode no \
        --dir "$bed/$1" --pidfile "$bed/$1.pid" --daemonize yes --logfile "$bed/$1.log"
    for _ in $(seq 500); do
        if engine -p "$2" ping >/dev/null 2>&1; then return; fi
        sleep 0.01
    done
    fail "Redis has not started: $bed/$1.log"
}

start_engine() { start_redis engine 6379 --save '' --appendonly no --repl-diskless-sync-delay 0; }

# Waits until a Redis says something about a subject.
await_engine() {
    local port=$1 text=$2
    for _ in $(seq 500); do
        if engine -p "$port" "${@:3}" | grep -q "$text"; then return; fi
        sleep 0.02
    done
    fail "Redis on port $port does not say $text"
}

start_sentinel() {
    start_redis replica 6381 --save '' --replicaof $net.10 6379
    await_engine 6381 master_link_status:up info replication
    mkdir -p "$bed/sentinel"
    printf '%s\n' "sentinel monitor main $net.10 6379 1" 'sentinel down-after-milliseconds main 200' \
        'sentinel failover-timeout main 1000' >"$bed/sentinel/sentinel.conf"
    start_redis sentinel 26379 "$bed/sentinel/sentinel.conf" --sentinel
    await_engine 26379 6381 sentinel replicas main
    for node in $nodes; do
        end_by "$bed/$node/nginx.pid" KILL
        sed -i "s|redis://$net.10/0|& sentinel=main|" "$bed/$node/nginx.conf"
        start_node "$node"
    done
}

# The ids of processes are those in files that they have written.
end_by() {
    local file=$1 signal=${2:-TERM} pid
    [ -s "$file" ] || return 0
    pid=$(cat "$file")
    kill "-$signal" "$pid" 2>/dev/null || true
    kill -CONT "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
    rm -f "$file"
}

# The configuration of a node, from a file with places to fill in.
configure() {
    sed "s|{dir}|$bed/$1|g; s|{address}|$(address "$1")|g; s|{engine}|$net.10|g; s|{origin}|$net.12:9000|g; s|{consul}|$net.12:9001|g" "$2"
}

start_node() {
    clocked "$1" "$(cat "$bed/binary")" -p "$bed/$1" -c "$bed/$1/nginx.conf" -e "$bed/$1/error.log"
}

start_envoy() {
    local envoy ratelimit
    envoy=$(realpath "$1") ratelimit=$(realpath "$2")
    start_redis ratelimit-redis 6380 --save ''
    mkdir -p "$bed/ratelimit/config"
    # As `rate=200r/s` of cluster.conf, for each value of the key.
    printf '%s\n' 'domain: cluster' 'descriptors:' '  - key: path' '    rate_limit: { unit: second, requests_per_unit: 200 }' \
        >"$bed/ratelimit/config/cluster.yaml"
    # Not by a function, here and below: the id has to be that of the program.
    USE_STATSD=false LOG_LEVEL=warn REDIS_SOCKET_TYPE=tcp REDIS_URL=$net.10:6380 RUNTIME_ROOT=$bed \
        RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false \
        ip netns exec tgc-engine "$ratelimit" >"$bed/ratelimit.log" 2>&1 &
    echo $! >"$bed/ratelimit.pid"
    for node in $nodes; do
        configure "$node" "$root/scripts/cluster-envoy.yaml" >"$bed/$node/envoy.yaml"
        ip netns exec "tgc-$node" "$envoy" -c "$bed/$node/envoy.yaml" --concurrency 1 --disable-hot-restart -l error \
            >"$bed/$node/envoy.log" 2>&1 &
        echo $! >"$bed/$node/envoy.pid"
    done
}

end_envoy() {
    for node in $nodes; do end_by "$bed/$node/envoy.pid" KILL; done
    end_by "$bed/ratelimit.pid" KILL
    end_by "$bed/ratelimit-redis.pid" KILL
}

processes() {
    case $1 in
        nodes) cat "$bed"/node?/nginx.pid ;;
        engine) cat "$bed/engine.pid" ;;
        envoys) cat "$bed"/node?/envoy.pid ;;
        ratelimit) cat "$bed/ratelimit.pid" "$bed/ratelimit-redis.pid" ;;
        *) fail "there are no processes \"$1\"" ;;
    esac
}

up() {
    [ "$(id -u)" = 0 ] || fail "namespaces need root"
    for tool in ip nft redis-server redis-cli; do
        command -v $tool >/dev/null || fail "$tool is missing"
    done
    binary=$(realpath "${1:-$root/target/release/tidegate}")
    [ -x "$binary" ] || fail "$binary is missing: make release, or name a binary"
    down
    mkdir -p "$bed"
    chmod 755 "$bed"
    echo "$binary" >"$bed/binary"
    ip netns add tgc-lan
    ip -n tgc-lan link add lan type bridge
    ip -n tgc-lan link set lan up
    for one in engine client $nodes; do place "$one"; done
    start_engine
    for node in $nodes; do
        mkdir -p "$bed/$node"
        configure "$node" "${CLUSTER_CONF:-$root/scripts/cluster.conf}" >"$bed/$node/nginx.conf"
        start_node "$node"
    done
}

down() {
    end_envoy
    for node in $nodes; do end_by "$bed/$node/nginx.pid" KILL; done
    for one in sentinel replica engine garbage; do end_by "$bed/$one.pid" KILL; done
    for one in engine client $nodes lan; do
        ip netns del "tgc-$one" 2>/dev/null || true
    done
    rm -rf "$bed"
}

cut() {
    local node=$1 direction=${2:-both}
    in_place "$node" nft add table ip cut
    if [ "$direction" != out ]; then
        in_place "$node" nft 'add chain ip cut in { type filter hook input priority 0; }'
        in_place "$node" nft add rule ip cut in ip saddr $net.10 drop
    fi
    if [ "$direction" != in ]; then
        in_place "$node" nft 'add chain ip cut out { type filter hook output priority 0; }'
        in_place "$node" nft add rule ip cut out ip daddr $net.10 drop
    fi
}

fault() {
    local pid
    case $1 in
        cut) cut "${@:2}" ;;
        heal) in_place "$2" nft delete table ip cut 2>/dev/null || true ;;
        kill) end_by "$bed/engine.pid" KILL ;;
        start) end_by "$bed/garbage.pid" KILL; start_engine ;;
        stop) kill -STOP "$(cat "$bed/engine.pid")" ;;
        continue) kill -CONT "$(cat "$bed/engine.pid")" ;;
        pause) engine client pause "$2" >/dev/null ;;
        password)
            engine config set requirepass secret >/dev/null
            engine -a secret --no-auth-warning client kill type normal skipme yes >/dev/null
            ;;
        no-password) engine -a secret --no-auth-warning config set requirepass '' >/dev/null ;;
        full) engine config set maxmemory 1 >/dev/null ;;
        not-full) engine config set maxmemory 0 >/dev/null ;;
        garbage)
            end_by "$bed/engine.pid" KILL
            # Not by a function: the id has to be that of the server.
            ip netns exec tgc-engine python3 -m http.server --bind $net.10 6379 >/dev/null 2>&1 &
            echo $! >"$bed/garbage.pid"
            ;;
        kill-node) end_by "$bed/$2/nginx.pid" KILL ;;
        start-node) start_node "$2" ;;
        clocks) start_clocks ;;
        clock) set_clock "$2" "$3" ;;
        sentinel) start_sentinel ;;
        *) fail "there is no fault \"$1\"" ;;
    esac
}

case ${1:-} in
    up) up "${2:-}" ;;
    down) down ;;
    run)
        up "${BINARY:-}"
        trap down EXIT
        in_place client "${@:2}"
        ;;
    in) in_place "${@:2}" ;;
    envoy) start_envoy "$2" "$3" ;;
    no-envoy) end_envoy ;;
    processes) processes "$2" ;;
    fault) fault "${@:2}" ;;
    *) sed -n '2,29s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
