# A Debian that is booted in a container, for the tests of packages and of the tools around a server.
#
# A script sets `name`, reads this, and calls make_base, boot and run_steps. Needs root, debootstrap, systemd-nspawn and wrk,
# and the packages of `scripts/packages.sh deb`.
#
#   SUITE=trixie        the Debian (default bookworm)
#   PACKAGES=DIRECTORY  the packages (default target/packages)
#
# The system is in target/package-tests: made once from Debian's packages, and copied for each run. It has a network of
# its own; the load runs inside that.

suite=${SUITE:-bookworm}
directory=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")/package-tests
packages=$(realpath --canonicalize-missing "${PACKAGES:-${CARGO_TARGET_DIR:-target}/packages}")
base=$directory/base-$suite
root=$directory/$name-$suite
failed=0

say() { printf '%s: %s\n' "$name" "$*"; }
die() { say "$*" >&2; exit 2; }
# A check: its description, then a command that must succeed.
check() {
    local what=$1
    shift
    if "$@" >"$root.check" 2>&1; then
        say "ok: $what"
    else
        say "FAILED: $what"
        tail -n 20 "$root.check" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}
not() { ! "$@"; }

[ "$(id -u)" -eq 0 ] || die "needs root"
for tool in debootstrap systemd-nspawn nsenter wrk; do
    command -v "$tool" >/dev/null || die "$tool is missing"
done
deb() { compgen -G "$packages/$1_*.deb" | head -n 1; }
[ -n "$(deb tidegate)" ] && [ -n "$(deb nginx-tidegate)" ] || die "no packages in $packages: scripts/packages.sh deb"

make_base() {
    [ -e "$base/etc/debian_version" ] && return
    say "making a Debian in $base (once)"
    rm -rf "$base" "$base.new"
    mkdir -p "$directory"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,logrotate,iproute2,curl,procps,nginx \
        "$suite" "$base.new" >"$directory/debootstrap.log"
    # So that `apt install nginx` needs no network.
    chroot "$base.new" apt-get install -y --reinstall --download-only nginx >>"$directory/debootstrap.log" 2>&1
    mv "$base.new" "$base"
}

# Makes a base with more of Debian's packages from the one that is there, once: its suffix, then the packages.
add_to_base() {
    local from=$base
    base=$base-$1
    shift
    [ -e "$base/etc/debian_version" ] && return
    say "installing into $base (once): $*"
    rm -rf "$base.new"
    cp -a "$from" "$base.new"
    # Nothing is started in it.
    printf '#!/bin/sh\nexit 101\n' >"$base.new/usr/sbin/policy-rc.d"
    chmod 755 "$base.new/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$base.new/etc/resolv.conf"
    chroot "$base.new" sh -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"' \
        sh "$@" >"$directory/install.log" 2>&1 || die "apt fails: $directory/install.log"
    rm "$base.new/usr/sbin/policy-rc.d"
    mv "$base.new" "$base"
}

boot() {
    rm -rf "$root"
    cp -a "$base" "$root"
    cp "$(deb tidegate)" "$root/root/tidegate.deb"
    cp "$(deb nginx-tidegate)" "$root/root/nginx-tidegate.deb"
    systemd-nspawn --directory "$root" --boot --private-network --register=no --keep-unit --link-journal=no \
        --console=pipe </dev/null >"$root.console" 2>&1 &
    nspawn=$!
    trap stop EXIT
    local tries=300
    until init=$(cat "/proc/$nspawn/task/$nspawn/children" 2>/dev/null) && init=${init%% *} && [ -n "$init" ] &&
        inside systemctl is-system-running --wait >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || die "the system does not boot: $root.console"
        sleep 0.1
    done
    inside ip link set lo up
    inside sh -c 'echo ok >/var/www/html/index.html'
}

# Ends the system by the signal that its init understands as "power off".
stop() {
    trap - EXIT
    kill -s RTMIN+4 "$init" 2>/dev/null || true
    wait "$nspawn" 2>/dev/null || true
}

inside() { nsenter --target "$init" --all "$@"; }
install() { inside sh -c "cd /root && DEBIAN_FRONTEND=noninteractive apt-get install -y $*"; }

server() { inside curl -sI http://127.0.0.1/ | tr -d '\r' | sed -n 's/^Server: //p'; }
serves() { [[ $(server) == $1* ]]; }
master() { inside cat /run/nginx.pid; }

# Waits until a command succeeds.
eventually() {
    local tries=300
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

# Runs steps by their names; without a name, all of `all`.
run_steps() {
    local step
    if [ $# -eq 0 ]; then set -- "${all[@]}"; fi
    for step in "$@"; do
        declare -F "step_$step" >/dev/null || die "no step $step: ${all[*]}"
        say "== $step"
        "step_$step"
    done
    [ "$failed" -eq 0 ] || { say "$failed failed"; exit 1; }
    say "all passed"
}
