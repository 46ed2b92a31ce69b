#!/usr/bin/env bash
# Installs the missing requirements of a task.
#
#   scripts/setup.sh run     a C compiler (some libraries bring C) and the pinned Rust toolchain
#   scripts/setup.sh release the same, and the compiler's profile tools (llvm-tools), wrk, h2load
#                            and a client of HTTP/3
#   scripts/setup.sh bench   the same as run, and genuine nginx to compare with
#   scripts/setup.sh test    the same as bench and windows, curl, valgrind, and the servers behind gateways:
#                            php-fpm, memcached, uWSGI and Redis
#   scripts/setup.sh deny    the same as run, and cargo-deny
#   scripts/setup.sh book    the same as run, and mdbook
#   scripts/setup.sh windows the same as run, and the tools to build for Windows and to run the result
#   scripts/setup.sh packages the same as run and windows, and the tools of packages: dpkg-dev, rpm, musl, BusyBox, zip, and
#                            a linker for arm64
#   scripts/setup.sh wasm    the same as run, and the tools to build WebAssembly components
#
# Debian packages are installed by apt, with sudo only when we are not root. When nothing is missing
# nothing is started and nothing is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

task=${1:-run}
cargo_deny_version=0.20.2
mdbook_version=0.5.4
tools="$PWD/target/tools"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
# A Debian package, where its files could be those of another one.
installed() { [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo --non-interactive "$@" || fail "'sudo $*' failed; run it yourself, then try again"
    else
        fail "neither root nor sudo here; as root, run: $*"
    fi
}

# Debian starts a server when its package is installed. /usr/sbin/policy-rc.d is Debian's own way
# to forbid that; it exists only while apt runs, unless it existed before.
policy=/usr/sbin/policy-rc.d
allow_services_again() { as_root rm -f "$policy"; }
forbid_service_starts() {
    [ -e "$policy" ] && return
    trap allow_services_again EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

install_packages() {
    [ $# -gt 0 ] || return 0
    have apt-get || fail "missing: $*. This machine has no apt; install them its own way"
    say "installing with apt: $*"
    forbid_service_starts
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
    # A machine that has just started may run apt itself: wait for its lock.
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >&2
    # The package also enables the service at the next boot. Only the program is wanted.
    case " $* " in *" nginx-extras "*)
        if have systemctl; then as_root systemctl --quiet disable nginx >&2 || true; fi
    esac
}

missing_packages() {
    have cc || echo build-essential
    if [ "$task" = release ]; then
        have openssl || echo openssl
        have wrk || echo wrk
        have h2load || echo nghttp2-client
    fi
    if [ "$task" = test ] || [ "$task" = bench ]; then
        have nginx || [ -x /usr/sbin/nginx ] || echo nginx-extras
    fi
    # The training workload uses it where it is available.
    if [ "$task" = test ] || { [ "$task" = release ] && have apt-get; }; then
        compgen -G '/usr/sbin/php-fpm*' >/dev/null || echo php-fpm
    fi
    # A module that `nginx-extras` does not have: cases compare with it.
    if [ "$task" = test ] && have apt-get; then
        installed libnginx-mod-http-set-misc || echo libnginx-mod-http-set-misc
    fi
    if [ "$task" = test ]; then
        have curl || echo curl
        have git || echo git
        have memcached || echo memcached
        have redis-server || echo redis-server
        { have etcd || ! have apt-get; } || echo etcd-server
        have valgrind || echo valgrind
        have uwsgi || echo uwsgi-core
        compgen -G '/usr/lib/uwsgi/plugins/python3*' >/dev/null || echo uwsgi-plugin-python3
    fi
    if [ "$task" = packages ]; then
        have dpkg-shlibdeps || echo dpkg-dev
        have rpmbuild || echo rpm
        have musl-gcc || echo musl-tools
        have zip || echo zip
        have aarch64-linux-gnu-gcc || echo crossbuild-essential-arm64
        installed busybox-static || echo busybox-static
    fi
    if [ "$task" = test ] || [ "$task" = windows ] || [ "$task" = packages ] || [ "$task" = wasm ]; then
        # A compiler with the sources of its library, beside rustup's.
        local package
        for package in rustc-web cargo-web rust-web-src; do installed "$package" || echo "$package"; done
    fi
    if [ "$task" = test ] || [ "$task" = windows ] || [ "$task" = packages ]; then
        # Its linker, and Wine to run its programs.
        have x86_64-w64-mingw32-gcc || echo gcc-mingw-w64-x86-64
        [ -x /usr/lib/wine/wine64 ] || echo wine64
    fi
}

# rust-toolchain.toml names the version. rustup fetches it by itself unless configured otherwise.
ensure_rust() {
    have cargo || fail "cargo is missing: install Rust from https://rustup.rs, then try again"
    if have rustup && ! rustup which rustc >/dev/null 2>&1; then
        local version
        version=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
        say "installing the Rust toolchain $version"
        rustup toolchain install "$version" --profile minimal --component rustfmt,clippy >&2
    fi
    [ "$task" = run ] && return
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt >&2
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy >&2
}

# Some builds of the compiler have no such component; they do without.
ensure_profile_tools() {
    local sysroot
    sysroot=$(rustc --print sysroot)
    compgen -G "$sysroot/lib/rustlib/*/bin/llvm-profdata" >/dev/null && return
    if have rustup; then rustup component add llvm-tools >&2 || true; fi
}

# Not every release of Debian has one; the training workload does without.
ensure_http3_client() {
    have gtlsclient && return
    if apt-cache show ngtcp2-client >/dev/null 2>&1; then install_packages ngtcp2-client; fi
}

# Kept below target/, so that a cache of that directory keeps it. It runs for a second: a short build matters more than speed.
ensure_cargo_deny() {
    local present
    present=$("$tools/bin/cargo-deny" --version 2>/dev/null || true)
    [ "$present" = "cargo-deny $cargo_deny_version" ] && return
    say "building cargo-deny $cargo_deny_version (once)"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install cargo-deny --debug --quiet --locked \
        --version "$cargo_deny_version" --root "$tools" >&2
}

ensure_mdbook() {
    local present
    present=$("$tools/bin/mdbook" --version 2>/dev/null || true)
    [ "$present" = "mdbook v$mdbook_version" ] && return
    say "building mdbook $mdbook_version (once)"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install mdbook --debug --quiet --locked --no-default-features \
        --version "$mdbook_version" --root "$tools" >&2
}

case $task in
    run | release | packages | test | deny | bench | windows | wasm | book) ;;
    *) fail "unknown task $task: run, release, packages, test, deny, bench, windows, wasm or book" ;;
esac
mapfile -t packages < <(missing_packages)
install_packages "${packages[@]}"
ensure_rust
if [ "$task" = release ]; then
    ensure_profile_tools
    ensure_http3_client
fi
if [ "$task" = deny ]; then ensure_cargo_deny; fi
if [ "$task" = book ]; then ensure_mdbook; fi
