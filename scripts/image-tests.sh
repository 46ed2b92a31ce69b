#!/usr/bin/env bash
# Tests the images of `scripts/packages.sh image`: the contract of nginx's official image, as a list.
#
#   scripts/image-tests.sh
#
# Needs root and runc. Containers have the host's processes hidden and a network of their own; requests run inside that.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
packages=${PACKAGES:-$target/packages}
work=$target/image-tests
name=tidegate-image-test-$$
failed=0
container=''
limit_kib=25600

say() { printf 'image-tests: %s\n' "$*"; }
die() { say "$*" >&2; exit 2; }
check() {
    local what=$1
    shift
    if "$@" >"$work/check" 2>&1; then
        say "ok: $what"
    else
        say "FAILED: $what"
        tail -n 10 "$work/check" "$work/log" 2>/dev/null | sed 's/^/    /' || true
        failed=$((failed + 1))
    fi
}

[ "$(id -u)" -eq 0 ] || die "needs root"
for tool in runc nsenter curl jq; do command -v "$tool" >/dev/null || die "$tool is missing"; done

# Unpacks an image: its files, and its configuration.
unpack() {
    local archive manifest
    archive=$(compgen -G "$packages/$1-[0-9]*.oci.tar.gz" | head -n 1) || die "no image $1: scripts/packages.sh image"
    rm -rf "$work/oci" "$work/rootfs"
    mkdir -p "$work/oci" "$work/rootfs"
    tar -xzf "$archive" -C "$work/oci"
    blob() { echo "$work/oci/blobs/sha256/${1#sha256:}"; }
    manifest=$(blob "$(jq -r '.manifests[0].digest' "$work/oci/index.json")")
    cp "$(blob "$(jq -r .config.digest "$manifest")")" "$work/image.json"
    layer=$(blob "$(jq -r '.layers[0].digest' "$manifest")")
    tar -xzf "$layer" -C "$work/rootfs"
    [ "$(gzip -dc "$layer" | sha256sum | cut -c 1-64)" = "$(jq -r '.rootfs.diff_ids[0]' "$work/image.json" | cut -d : -f 2)" ]
}

# Starts a container in the background, for two minutes at most: variables as NAME=VALUE, then `--` and a command in place of the image's.
start() {
    local variables=() words=() user
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
    if [ "${1:-}" = -- ]; then shift; words=("$@"); fi
    user=$(jq -r '.config.User // ""' "$work/image.json")
    (cd "$work" && rm -f config.json && runc spec)
    jq --slurpfile image "$work/image.json" --argjson readonly "${readonly:-false}" --argjson uid "${uid:-${user:-0}}" \
        --argjson variables "$(printf '%s\n' "${variables[@]}" | jq -R . | jq -s 'map(select(. != ""))')" \
        --argjson words "$(printf '%s\n' "${words[@]}" | jq -R . | jq -s 'map(select(. != ""))')" '
        $image[0].config as $config
        | .process.terminal = false
        | .process.user = { uid: $uid, gid: $uid }
        | .process.env = $config.Env + $variables
        | .process.args = ($config.Entrypoint // []) + (if $words == [] then $config.Cmd else $words end)
        | .process.capabilities[] += ["CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER"]
        | .root.readonly = $readonly
        | .mounts += [{ destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["mode=1777"] }]
        | del(.linux.resources)
        ' "$work/config.json" >"$work/config.json.new"
    mv "$work/config.json.new" "$work/config.json"
    timeout --kill-after=10 120 runc run --bundle "$work" "$name" >"$work/log" 2>&1 </dev/null &
    container=$!
}

init() { runc state "$name" | jq -r .pid; }

# Waits until the server answers on a port.
answers() {
    local tries=100
    until nsenter --target "$(init 2>/dev/null || echo 0)" --net sh -c \
        "ip link set lo up && curl -sf -o '$work/body' -D '$work/head' 'http://${2:-127.0.0.1}:$1/${3:-}'" 2>/dev/null; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] && kill -0 "$container" 2>/dev/null || return 1
        sleep 0.1
    done
}

# Ends it as an engine does; succeeds when it ends by itself with status 0.
ends() {
    local signal=${1:-$(jq -r .config.StopSignal "$work/image.json")}
    runc kill "$name" "$signal"
    wait "$container"
}

not() { ! "$@"; }

# The server must refuse to start, with a message.
not_started() {
    local status=0
    wait "$container" || status=$?
    [ $status -eq 1 ] && grep -q "$1" "$work/log"
}

other_command() {
    local status=0
    wait "$container" || status=$?
    [ $status -eq 3 ] && grep -qx 'another command' "$work/log"
}

force_end() {
    [ -n "$container" ] || return 0
    runc kill "$name" KILL >/dev/null 2>&1 || true
    wait "$container" 2>/dev/null || true
    runc delete --force "$name" >/dev/null 2>&1 || true
}
trap 'force_end; rm -rf "$work/rootfs" "$work/oci"' EXIT

mkdir -p "$work"
for image in tidegate-image tidegate-image-unprivileged tidegate-image-static; do
    say "== $image"
    check "its digests fit" unpack "$image"
    size=$(($(stat -c %s "$layer") / 1024))
    check "at most $limit_kib KiB compressed: $size" [ "$size" -le "$limit_kib" ]
    port=$(jq -r '.config.ExposedPorts | keys[0] | split("/")[0]' "$work/image.json")
    check "STOPSIGNAL is SIGQUIT" jq -e '.config.StopSignal == "SIGQUIT"' "$work/image.json"
    check "user nginx is 101" grep -q '^nginx:x:101:101:' "$work/rootfs/etc/passwd"
    start
    check "it serves on port $port" answers "$port"
    check "the page is the default one" grep -q 'Tidegate works' "$work/body"
    check "the access log is on standard output" grep -q '"GET / HTTP/1.1" 200' "$work/log"
    check "the error log is on standard error" grep -q 'start worker process' "$work/log"
    check "it ends by its stop signal, with status 0" ends
    force_end
    if [ "$image" = tidegate-image-static ]; then
        check "no shell" [ ! -e "$work/rootfs/bin/sh" ]
        continue
    fi
    mkdir -p "$work/rootfs/etc/nginx/templates/sub"
    printf 'nameserver 192.0.2.1\nnameserver 2001:db8::1\n' >"$work/rootfs/etc/resolv.conf"
    # shellcheck disable=SC2016
    echo '# resolver ${NGINX_LOCAL_RESOLVERS};' >"$work/rootfs/etc/nginx/templates/resolver.inc.template"
    # shellcheck disable=SC2016
    printf 'location = /made { return 200 "$host ${WORD} $WORD ${UNKNOWN_WORD} ${HIDDEN} ${FILTER}"; }\r\n' \
        >"$work/rootfs/etc/nginx/templates/made.inc.template"
    cp "$work/rootfs/etc/nginx/conf.d/default.conf" "$work/default.conf"
    sed -i 's|^ *server_name.*|&\n    include /etc/nginx/conf.d/*.inc;|' "$work/rootfs/etc/nginx/conf.d/default.conf"
    printf '#!/bin/sh\necho "from my own script: $WORD"\n' >"$work/rootfs/docker-entrypoint.d/40-own.sh"
    printf 'export WORD="$WORD!"\n' >"$work/rootfs/docker-entrypoint.d/05-own.envsh"
    chmod 755 "$work/rootfs/docker-entrypoint.d"/{40-own.sh,05-own.envsh}
    echo 'exit 1' >"$work/rootfs/docker-entrypoint.d/50-not-executable.sh"
    chmod 644 "$work/rootfs/docker-entrypoint.d/50-not-executable.sh"
    sed -i 's/\${UNKNOWN_WORD}/-/' "$work/rootfs/etc/nginx/templates/made.inc.template"
    start WORD=tide HIDDEN=no 'NGINX_ENVSUBST_FILTER=^WORD$' NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE=1 \
        NGINX_ENTRYPOINT_QUIET_LOGS=1
    # `${HIDDEN}` is left to nginx, which knows no such variable.
    check "a variable that the filter excludes is left alone" not_started 'unknown "hidden" variable'
    force_end
    start WORD=tide HIDDEN=no FILTER=own NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE=1 NGINX_ENTRYPOINT_LOCAL_RESOLVERS=1
    check "templates become configuration" answers "$port" 127.0.0.1 made
    check "variables are substituted, and sourced scripts may change them" grep -qx '127.0.0.1 tide! tide! - no own' "$work/body"
    check "name servers are a variable" grep -qF '# resolver 192.0.2.1 [2001:db8::1];' \
        "$work/rootfs/etc/nginx/conf.d/resolver.inc"
    check "scripts run in order" grep -q 'from my own script: tide!' "$work/log"
    check "a script that is not executable is ignored" grep -q 'ignoring .*50-not-executable.sh' "$work/log"
    check "worker_processes is tuned" grep -qE '^worker_processes +[0-9]+;' "$work/rootfs/etc/nginx/nginx.conf"
    check "SIGTERM ends it" ends TERM
    force_end
    cp "$work/default.conf" "$work/rootfs/etc/nginx/conf.d/default.conf"
    start NGINX_ENTRYPOINT_QUIET_LOGS=1
    check "an unchanged default server listens on IPv6 too" answers "$port" '[::1]'
    check "the entrypoint is quiet" not grep -q 'launching' "$work/log"
    force_end
    start -- sh -c 'echo another command; exit 3'
    check "another command is run as it is" other_command
    force_end
    if [ "$image" = tidegate-image-unprivileged ]; then
        readonly=true start NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE=1
        check "a root that is read only" answers "$port"
        check "templates that are not used are reported" grep -q 'made.inc.template is not used' "$work/log"
        force_end
        rm -rf "$work/rootfs/etc/nginx/templates"
        uid=12345 start
        check "a user without a name" answers "$port"
        force_end
    fi
done
[ "$failed" -eq 0 ] || { say "$failed failed"; exit 1; }
say "all passed"
