#!/usr/bin/env bash
# Builds the server for delivery with profile-guided optimization (PGO): once with instrumentation, and once more with
# the profile of a training workload, so that the code of common requests is contiguous and rare code is elsewhere.
#
#   scripts/release.sh [arguments of cargo build]   default: --package tidegate
#
# Prints the directory of the programs. Where the compiler has no profile tools they are built without a profile.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'release: %s\n' "$*" >&2; }

scripts/setup.sh release
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
work=$target/profile
php_fpm=$(compgen -G '/usr/sbin/php-fpm*' | head -n 1) || true
given=("$@")
if [ ${#given[@]} -eq 0 ]; then given=(--package tidegate); fi

if ! [ -x "$profdata" ]; then
    say "no llvm-profdata (rustup component add llvm-tools): built without a profile"
    cargo build --release "${given[@]}" >&2
    echo "$target/release"
    exit
fi

# A free port; the search begins at $1.
free_port() {
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    echo "$port"
}

prepare() {
    rm -rf "$work/prefix" "$work/raw"
    mkdir -p "$work/prefix/logs" "$work/prefix/files/files" "$work/prefix/files/pages" "$work/raw"
    front=$(free_port 18080) tls=$(free_port $((front + 1)))
    origin=$(free_port $((tls + 1)))
    sed -e "s/@FRONT@/$front/; s/@TLS@/$tls/; s/@ORIGIN@/$origin/; s|@PHP@|$work/prefix/php.sock|" \
        packaging/profile/tidegate.conf >"$work/prefix/tidegate.conf"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
        -keyout "$work/prefix/key.pem" -out "$work/prefix/certificate.pem" 2>/dev/null
    local files=$work/prefix/files
    head -c 452 /dev/zero | tr '\0' s >"$files/files/small.html"
    head -c 10240 /dev/zero | tr '\0' m >"$files/files/medium.html"
    head -c 102400 /dev/urandom >"$files/files/large.bin"
    head -c 3000000 /dev/urandom >"$files/files/huge.bin"
    seq 1 4000 >"$files/pages/style.css"
    cp "$files/pages/style.css" "$files/pages/index.html"
    deep=$(printf 'directory/%.0s' {1..40})
    mkdir -p "$files/files/$deep"
    cp "$files/files/small.html" "$files/files/$deep"
    echo '<?php for ($row = 1; $row < 150; $row++) echo "<li>Row $row is for ", $_SERVER["REQUEST_URI"], "</li>\n";' \
        >"$files/page.php"
    printf '%s\n' '[global]' 'daemonize = no' "error_log = $work/prefix/logs/php.log" \
        '[practice]' "listen = $work/prefix/php.sock" 'pm = static' 'pm.max_children = 8' >"$work/prefix/php.conf"
    if [ "$(id -u)" -eq 0 ]; then printf 'user = root\ngroup = root\n' >>"$work/prefix/php.conf"; fi
}

# wrk's options, then the paths after "--".
ask() { wrk --script packaging/profile/requests.lua --threads 1 --duration 1s "$@" >>"$work/prefix/logs/wrk.log"; }

# The same with HTTP/2; the arguments are addresses.
ask_http2() { h2load --duration 1 --warm-up-time 0 -c 16 -m 16 "$@" >>"$work/prefix/logs/h2load.log"; }

# 3,000 requests on each of ten connections with HTTP/3.
ask_http3() {
    local _
    for _ in {1..10}; do
        gtlsclient --quiet --no-quic-dump --no-http-dump --exit-on-all-streams-close --max-data=100M -n 3000 \
            127.0.0.1 "$tls" "$@" >>"$work/prefix/logs/gtlsclient.log" 2>&1
    done
}

practise() {
    local http=http://127.0.0.1:$front https=https://127.0.0.1:$tls
    ask -c 64 "$http" -- /fixed
    ask -c 64 "$http" -- /files/small.html /cached-files/small.html /files/missing.html
    ask -c 16 "$http" -- "/files/${deep}small.html" "/cached-files/${deep}small.html" "/files/${deep}missing.html"
    ask -c 16 "$http" -- /files/large.bin /cached-files/large.bin /files/huge.bin
    ask -c 64 "$http" -- /kept/small.html
    ask -c 64 "$http" -- /plain/small.html /several/small.html
    ask -c 64 "$http" -- /kept/large.bin /several/medium.html /once/small.html
    ask -c 64 "$http" -- /hits/medium.html /hits/small.html
    ask -c 32 "$http" -- /hits/huge.bin /cache/large.bin /hits/medium.html?# /cache/medium.html?#
    ask -c 32 "$http" -- /cache/huge.bin?# /cache/large.bin?#
    ask -c 64 "$http" -- /old/style/small.html /fixed /files/missing.html
    ask -c 16 -H 'Accept-Encoding: gzip' "$http" -- /pages/style.css /pages/ /files/small.html
    ask -c 64 -H 'Connection: close' "$http" -- /fixed /kept/small.html
    if [ -n "$php_fpm" ]; then ask -c 16 "$http" -- /page.php /kept/page.php; fi
    ask -c 32 "$https" -- /fixed /kept/small.html /hits/medium.html /files/large.bin
    ask -c 32 -H 'Connection: close' "$https" -- /fixed
    ask_http2 "$https/fixed" "$https/files/small.html" "$https/kept/small.html" "$https/hits/medium.html"
    ask_http2 "$https/fixed"
    ask_http2 "$https/files/large.bin" "$https/two/medium.html" "$https/pages/style.css"
    ask_http2 "$http/fixed" "$http/two/small.html" "$http/cached-files/small.html"
    if command -v gtlsclient >/dev/null; then
        ask_http3 "$https/fixed"
        ask_http3 "$https/files/small.html" "$https/fixed" "$https/kept/small.html" "$https/hits/medium.html"
        ask_http3 "$https/files/large.bin" "$https/two/small.html"
    else
        say "no gtlsclient: HTTP/3 is not practised"
    fi
}

start_php() {
    "$php_fpm" -F -R -n -y "$work/prefix/php.conf" &
    php=$!
    until [ -S "$work/prefix/php.sock" ]; do kill -0 "$php" 2>/dev/null || return 1; done
}

watch_at_work() {
    local program=$1
    prepare
    # The worker writes the profile, so it must not change its user.
    local start=(-p "$work/prefix" -c tidegate.conf)
    if [ "$(id -u)" -eq 0 ]; then start+=(-g "user root;"); fi
    "$program" "${start[@]}" &
    server=$!
    php=
    trap 'say "this failed; logs are in $work/prefix/logs"; kill "$server" $php 2>/dev/null || true' EXIT
    if [ -n "$php_fpm" ] && ! start_php; then
        say "php-fpm does not start: the profile is made without it"
        php_fpm='' php=''
    fi
    until (exec 3<>"/dev/tcp/127.0.0.1/$front") 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || exit 1
    done
    practise
    # The profile is written when the processes end.
    "$program" "${start[@]}" -s quit
    wait "$server"
    if [ -n "$php" ]; then
        kill "$php"
        wait "$php" || true
    fi
    trap - EXIT
}

say "building what is watched"
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$work/raw" \
    cargo build --release --target "$host" --target-dir "$target/instrumented" \
    "${given[@]}" --bin tidegate >&2
watched=$target/instrumented/$host/release/tidegate
# Named after the profiled program: nothing is repeated for the same program.
profile=$work/$(sha256sum "$watched" | cut -c 1-16).profdata
if ! [ -e "$profile" ]; then
    say "watching it at work for half a minute"
    watch_at_work "$watched" >&2
    "$profdata" merge -o "$profile.new" "$work/raw"
    mv "$profile.new" "$profile"
fi
say "building by what was seen"
# Code without samples is not optimized for size: other workloads may need it fast.
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$profile -Cllvm-args=-pgso=false" \
    cargo build --release --target "$host" --target-dir "$target/optimized" "${given[@]}" >&2
echo "$target/optimized/$host/release"
