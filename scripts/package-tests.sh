#!/usr/bin/env bash
# Tests Debian's packages in a booted Debian: nginx gives its place to Tidegate and takes it back, under load.
#
#   scripts/package-tests.sh [STEP…]      default: all steps, in their order
#   SUITE=trixie                          Debian 13 in place of 12
#   SWITCHES=50                           changes of the program in step `upgrades` (default 5)
#   ROTATIONS=200                         rotations in step `rotate` (default 20)
#
# scripts/packages/machine.sh has the requirements. scripts/tool-tests.sh is about the tools around a server.
set -euo pipefail
cd "$(dirname "$0")/.."
name=package-tests
# shellcheck source=scripts/packages/machine.sh
. scripts/packages/machine.sh
switches=${SWITCHES:-5}
rotations=${ROTATIONS:-20}

# Runs a command while requests are sent; says how many. Fails when one of them failed, or the command did.
under_load() {
    local status=0 load
    nsenter --target "$init" --net wrk --threads 1 --connections 8 --duration 600s --header 'Connection: close' \
        http://127.0.0.1/ >"$root.load" 2>&1 &
    load=$!
    sleep 1
    "$@" || status=$?
    sleep 1
    # wrk ends with its report.
    kill -s INT "$load"
    wait "$load" || true
    grep 'requests in' "$root.load" | sed 's/^ */    /' >&3
    ! grep -E 'Socket errors|Non-2xx' "$root.load" && return $status
}
exec 3>&1

# The unit's main process is the one of the pid file.
is_active() {
    inside systemctl is-active --quiet nginx.service &&
        [ "$(inside systemctl show --property MainPID --value nginx.service)" = "$(master)" ]
}
is_clean() { ! [ -e "$root/usr/sbin/policy-rc.d" ] && ! [ -e "$root/run/tidegate-switch" ]; }

# Tidegate beside nginx changes nothing.
step_beside() {
    local before
    before=$(master)
    check "tidegate is installed beside nginx" under_load install ./tidegate.deb
    check "nginx goes on" [ "$(master)" = "$before" ]
    check "nginx serves" serves nginx
}

# A configuration that the new program cannot use: nothing changes.
step_refused() {
    local before
    before=$(master)
    echo 'perl_modules /x;' >"$root/etc/nginx/modules-enabled/99-unusable.conf"
    check "a configuration that Tidegate cannot use stops apt" not install ./nginx-tidegate.deb
    rm "$root/etc/nginx/modules-enabled/99-unusable.conf"
    check "nginx goes on" [ "$(master)" = "$before" ]
    check "nginx is installed" inside dpkg --verify nginx
    check "nothing is left over" is_clean
}

step_there() {
    check "nginx-tidegate takes nginx's place under load" under_load install ./nginx-tidegate.deb
    check "Tidegate serves" serves tidegate
    check "the unit follows" is_active
    check "nothing is left over" is_clean
    check "its name is nginx" inside pidof nginx
    check "reload" under_load inside systemctl reload nginx
    check "the configuration is unchanged" inside dpkg --verify nginx-common
}

step_upgrades() {
    local i
    upgrade() { for ((i = 0; i < switches; i++)); do install --reinstall ./tidegate.deb || return; done; }
    check "$switches upgrades of tidegate under load" under_load upgrade
    check "the unit follows" is_active
    check "Tidegate serves" serves tidegate
}

# Pid files of processes that are no servers: nothing is signalled.
step_pid_files() {
    local before
    before=$(master)
    takes_over() { inside /usr/lib/tidegate/take-over "$@"; }
    inside sh -c 'echo 1 >/root/foreign; echo 4194304 >/root/dead; : >/root/empty; echo nonsense >/root/text'
    for file in foreign dead empty text absent; do
        check "take-over with a pid file that is $file" [ "$(takes_over "/root/$file" 2>&1; echo $?)" = 1 ]
    done
    check "the server goes on" [ "$(master)" = "$before" ]
}

# A program that does not come up: it is ended, and the server goes on. It waits for a writer of a pipe.
step_hangs() {
    local before
    before=$(master)
    inside sh -c 'cp /bin/sh /root/nginx && mkfifo /root/pipe && cp /usr/sbin/tidegate /root/kept && rm /usr/sbin/tidegate &&
        printf "#!/root/nginx\nread line </root/pipe\n" >/usr/sbin/tidegate && chmod 755 /usr/sbin/tidegate'
    goes_on() {
        local status=0
        inside /usr/lib/tidegate/take-over || status=$?
        [ $status -eq 2 ]
    }
    check "take-over by a program that hangs" goes_on
    check "it is ended" eventually ended /root/nginx
    check "the server goes on" [ "$(master)" = "$before" ]
    check "Tidegate serves" serves tidegate
    inside mv /root/kept /usr/sbin/tidegate
    check "take-over by the program itself" under_load inside /usr/lib/tidegate/take-over
}

# No process has a program.
ended() { ! inside sh -c 'ls -l /proc/[0-9]*/exe 2>/dev/null' | grep -q -- "-> $1\$"; }

# Lines are those of requests, however often the log is moved away.
step_rotate() {
    local i requests lines
    inside sh -c 'rm -f /var/log/nginx/access.log.*; : >/var/log/nginx/access.log'
    rotate() { for ((i = 0; i < rotations; i++)); do inside logrotate --force /etc/logrotate.d/nginx || return; done; }
    sed -i 's/rotate 14/rotate 100000/; s/^\t*\(delay\)*compress$//' "$root/etc/logrotate.d/nginx"
    check "$rotations rotations under load" under_load rotate
    inside systemctl reload nginx
    sleep 1
    requests=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' "$root.load")
    lines=$(cat "$root"/var/log/nginx/access.log* | wc -l)
    # Requests that wrk was still waiting for at its end: at most one for each connection.
    check "lines ($lines) are requests ($requests)" [ "$lines" -ge "$requests" ]
    check "no line more than requests" [ "$lines" -le $((requests + 8)) ]
}

# A configuration that nginx cannot use: its program is tested out of its package.
step_back_refused() {
    local before
    before=$(master)
    echo 'http3_alt_svc on;' >"$root/etc/nginx/conf.d/own.conf"
    inside systemctl reload nginx
    check "a configuration that nginx cannot use stops apt" not install nginx
    check "the server goes on" [ "$(master)" = "$before" ]
    check "nothing is left over" is_clean
    rm "$root/etc/nginx/conf.d/own.conf"
}

step_back() {
    check "apt install nginx goes back under load" under_load install nginx
    check "nginx serves" serves nginx
    check "the unit follows" is_active
    check "nothing is left over" is_clean
}

# Both in one command: nginx is stopped first, as apt removes it before anything of Tidegate's is there.
step_at_once() {
    inside dpkg --purge tidegate >/dev/null
    check "both packages in one command" install ./tidegate.deb ./nginx-tidegate.deb
    check "Tidegate serves" serves tidegate
    check "the unit follows" is_active
}

step_remove() {
    # As a run of apt leaves them behind that was killed between its hooks.
    inside sh -c ': >/run/tidegate-switch && printf "#!/bin/sh\n# tidegate-switch\nexit 101\n" >/usr/sbin/policy-rc.d &&
        chmod 755 /usr/sbin/policy-rc.d'
    check "purging nginx-tidegate stops the server" inside apt-get purge -y nginx-tidegate
    check "nothing runs" not inside pidof nginx
    check "nginx is installed again" install nginx
    check "removing tidegate" inside dpkg --remove tidegate
    check "apt goes on without its hook" quietly install --reinstall nginx
    check "purging tidegate" inside dpkg --purge tidegate
    check "nginx serves" serves nginx
    check "nothing is left over" is_clean
    check "no file is left over" not inside sh -c 'ls -d /etc/apt/apt.conf.d/20tidegate /usr/lib/tidegate 2>/dev/null'
}

# A command that says nothing of Tidegate.
quietly() {
    "$@" >"$root.quietly" 2>&1 || { cat "$root.quietly"; return 1; }
    ! grep tidegate "$root.quietly"
}

started_again() { [ "$(inside systemctl show --property NRestarts --value tidegate)" != 0 ] && serves tidegate; }

# Tidegate's own unit: readiness, reload, watchdog, sockets of systemd.
step_unit() {
    install ./tidegate.deb >/dev/null 2>&1
    inside systemctl stop nginx
    check "tidegate.service starts" inside systemctl start tidegate
    check "it serves when the command returns" serves tidegate
    check "it has a status" inside sh -c 'systemctl show --property StatusText --value tidegate | grep "serving generation 1"'
    check "reload under load" under_load inside systemctl reload tidegate
    check "the status follows" inside sh -c 'systemctl show --property StatusText --value tidegate | grep "serving generation 2"'
    local before
    before=$(inside systemctl show --property MainPID --value tidegate)
    check "an upgrade under load" under_load install --reinstall ./tidegate.deb
    check "another process is supervised" not [ "$(inside systemctl show --property MainPID --value tidegate)" = "$before" ]
    check "it is active" inside systemctl is-active tidegate
    echo 'nonsense;' >"$root/etc/nginx/modules-enabled/99-unusable.conf"
    check "a mistake is shown by the reload" not inside systemctl reload tidegate
    check "the server goes on" serves tidegate
    rm "$root/etc/nginx/modules-enabled/99-unusable.conf"
    mkdir -p "$root/etc/systemd/system/tidegate.service.d"
    printf '[Service]\nWatchdogSec=1\n' >"$root/etc/systemd/system/tidegate.service.d/watchdog.conf"
    inside systemctl daemon-reload
    inside systemctl restart tidegate
    before=$(inside systemctl show --property MainPID --value tidegate)
    # A worker whose event loops do not turn.
    inside sh -c "kill -STOP \$(pgrep -P $before)"
    check "a server that hangs is started again" eventually started_again
    check "it stops" inside systemctl stop tidegate
    cp packaging/systemd/tidegate.socket "$root/etc/systemd/system/"
    inside systemctl daemon-reload
    check "systemd's sockets start it" inside sh -c 'systemctl start tidegate.socket && curl -s http://127.0.0.1/ | grep -q ok'
    check "a restart under load" under_load inside systemctl restart tidegate
    inside systemctl stop tidegate.socket tidegate
    printf '[Socket]\nListenStream=0.0.0.0:81\n' >>"$root/etc/systemd/system/tidegate.socket"
    inside systemctl daemon-reload
    inside systemctl start tidegate.socket
    check "a surplus socket is refused by name" inside sh -c \
        '! systemctl start tidegate && journalctl -u tidegate | grep -q "is bound to 0.0.0.0:81, which no .listen. of the configuration has"'
}

all=(beside refused there pid_files upgrades hangs rotate back_refused back at_once remove unit)
make_base
boot
run_steps "$@"
