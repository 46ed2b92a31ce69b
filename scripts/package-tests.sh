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

# What configurations reach under nginx.service: sockets of other services in /tmp, files below /home, `transparent`.
step_places() {
    local own=$root/etc/nginx/conf.d/own.conf home=/home
    install ./tidegate.deb >/dev/null 2>&1
    inside systemctl stop nginx
    inside mkdir -p "$home/www"
    cat >"$root/root/origin.conf" <<'CONFIGURATION'
daemon off; pid /run/origin.pid; error_log /dev/null; events {}
http {
    access_log off;
    server { listen unix:/tmp/origin.sock; listen 127.0.0.1:8090; return 200 "from $remote_addr\n"; }
}
CONFIGURATION
    inside systemd-run --quiet --unit origin /usr/sbin/nginx -c /root/origin.conf
    cat >"$own" <<CONFIGURATION
proxy_cache_path $home/www/cache keys_zone=home:1m;
server {
    listen 127.0.0.1:8091;
    access_log $home/www/access.log;
    location /socket { proxy_pass http://unix:/tmp/origin.sock; proxy_cache home; proxy_cache_valid 1h; }
    location /foreign { proxy_pass http://127.0.0.1:8090; proxy_bind 127.0.0.9 transparent; }
}
CONFIGURATION
    check "tidegate.service starts" inside systemctl start tidegate
    check "a socket in /tmp" eventually inside sh -c 'curl -s http://127.0.0.1:8091/socket | grep -x "from unix:"'
    check "a cache below $home" eventually inside sh -c 'find "$1" -type f | grep .' sh "$home/www/cache"
    check "transparent" inside sh -c 'curl -s http://127.0.0.1:8091/foreign | grep -x "from 127.0.0.9"'
    check "a log below $home" eventually inside grep -q /foreign "$home/www/access.log"
    inside mv "$home/www/access.log" "$home/www/old"
    check "it is opened again" inside systemctl kill --kill-who=main --signal=USR1 tidegate
    check "lines go to the new file" eventually inside sh -c \
        'curl -s -o /dev/null http://127.0.0.1:8091/later; grep -q /later "$1"' sh "$home/www/access.log"
    rm "$own"
    inside systemctl stop tidegate origin
    inside systemctl start nginx
}

# What the administrator did to files of the packages stays.
step_conffiles() {
    local file=$root/etc/apt/apt.conf.d/20tidegate
    echo '// edited' >>"$file"
    echo '# edited' >>"$root/etc/nginx/nginx.conf"
    check "an upgrade with edited files" install --reinstall ./tidegate.deb ./nginx-tidegate.deb
    check "apt's file is as it was edited" grep -q -x '// edited' "$file"
    check "nginx.conf is as it was edited" grep -q -x '# edited' "$root/etc/nginx/nginx.conf"
    rm "$file"
    check "an upgrade with a file that was removed" install --reinstall ./tidegate.deb
    check "it is not brought back" not [ -e "$file" ]
    check "unless asked for" install --reinstall -o Dpkg::Options::=--force-confmiss ./tidegate.deb
    check "then it is" [ -e "$file" ]
    sed -i '/^# edited$/d' "$root/etc/nginx/nginx.conf"
}

# A command that succeeds with a message.
says() {
    local message=$1
    shift
    "$@" >"$root.says" 2>&1 || { cat "$root.says"; return 1; }
    grep -F -- "$message" "$root.says" || { cat "$root.says"; return 1; }
}

# An upgrade while the configuration cannot be used, by an edit that nobody has noticed.
step_upgrade_refused() {
    local before
    before=$(master)
    echo 'nonsense;' >"$root/etc/nginx/conf.d/own.conf"
    check "an upgrade with a configuration that cannot be used says what to do" \
        says 'correct the configuration, then: invoke-rc.d nginx upgrade' install --reinstall ./tidegate.deb
    check "the server goes on" [ "$(master)" = "$before" ]
    check "Tidegate serves" serves tidegate
    rm "$root/etc/nginx/conf.d/own.conf"
    check "and what it says helps" inside invoke-rc.d nginx upgrade
    check "another process serves" not [ "$(master)" = "$before" ]
    check "Tidegate serves again" serves tidegate
}

# Writes a file until there is no room for another byte.
fill() { inside sh -c 'dd if=/dev/zero of="$1" bs=1k; ! echo more >"$1.more"' sh "$1"; }

# Disks are full: where files are unpacked, where the pid file is written, where the logs are.
step_full_disks() {
    local before
    before=$(master)
    inside mount -t tmpfs -o size=8k tmpfs /usr/share/doc/tidegate
    check "an upgrade that has no room fails" not install --reinstall ./tidegate.deb
    inside umount /usr/share/doc/tidegate
    check "the server goes on" [ "$(master)" = "$before" ]
    check "Tidegate serves" serves tidegate
    check "apt repairs it" install --fix-broken
    check "and upgrades" install --reinstall ./tidegate.deb
    check "the packages are whole" inside dpkg --verify tidegate nginx-tidegate

    before=$(master)
    inside mount -o remount,size=4m /run
    check "/run is full" fill /run/filler
    check "an upgrade says that the old server goes on" says 'the running server goes on' install --reinstall ./tidegate.deb
    check "it does" inside kill -0 "$before"
    check "Tidegate serves" serves tidegate
    inside sh -c 'rm -f /run/filler*'
    inside mount -o remount,size=64m /run
    check "its pid file is there" [ "$(master)" = "$before" ]
    check "with room the next upgrade succeeds" install --reinstall ./tidegate.deb
    check "another process serves" not [ "$(master)" = "$before" ]

    inside mount -t tmpfs -o size=64k,mode=755 tmpfs /var/log/nginx
    inside sh -c 'chown www-data:adm /var/log/nginx; logrotate --force /etc/logrotate.d/nginx'
    check "the disk of the logs is full" fill /var/log/nginx/filler
    check "rotation" inside logrotate --force /etc/logrotate.d/nginx
    check "Tidegate serves" serves tidegate
    check "an upgrade" under_load install --reinstall ./tidegate.deb
    check "Tidegate serves" serves tidegate
    inside sh -c 'rm -f /var/log/nginx/filler*; curl -s -o /dev/null http://127.0.0.1/room'
    check "with room lines are written" eventually inside grep -q /room /var/log/nginx/access.log
    inside umount --lazy /var/log/nginx
    inside invoke-rc.d nginx rotate
}

# Something else has the place of a log when logs are opened again.
step_log_places() {
    local log=/var/log/nginx/access.log
    line() { inside sh -c 'curl -s -o /dev/null "http://127.0.0.1$1" && grep -q "$1" "$2"' sh "$1" "$2"; }
    reported() { inside grep -q "access.log\" failed ($1: " /var/log/nginx/error.log; }
    inside sh -c "rm -f $log.*; mv $log $log.old; mkdir $log"
    check "a directory: logs are opened again" inside invoke-rc.d nginx rotate
    check "the error log names it" eventually reported 21
    check "lines go to the old file" eventually line /directory "$log.old"
    inside sh -c "rmdir $log; mkfifo $log"
    check "a FIFO without a reader: logs are opened again" inside invoke-rc.d nginx rotate
    check "the error log names it" eventually reported 6
    check "lines go to the old file" eventually line /fifo "$log.old"
    inside systemctl reload nginx || true
    check "a reload does not wait for the reader either" eventually inside \
        grep -q 'access.log" failed (6: .* in /etc/nginx/nginx.conf:' /var/log/nginx/error.log
    check "Tidegate serves" serves tidegate
    inside rm "$log"
    check "a place that is free: logs are opened again" inside invoke-rc.d nginx rotate
    check "lines go to the new file" eventually line /free "$log"
}

# A user whom no file of the system names.
step_nameless_user() {
    inside sh -c 'mkdir -p /tmp/own && cat >/tmp/own/nginx.conf <<CONFIGURATION
pid /tmp/own/pid; error_log /tmp/own/error.log; events {}
http {
    access_log /tmp/own/access.log; client_body_temp_path /tmp/own/body; proxy_temp_path /tmp/own/proxy;
    fastcgi_temp_path /tmp/own/fastcgi; uwsgi_temp_path /tmp/own/uwsgi; scgi_temp_path /tmp/own/scgi;
    server { listen 127.0.0.1:8099; return 200 mine; }
}
CONFIGURATION
        chown -R 54321:54321 /tmp/own'
    own() { inside setpriv --reuid 54321 --regid 54321 --clear-groups nginx -e /tmp/own/error.log -c /tmp/own/nginx.conf "$@"; }
    check "a user without a name tests" own -t
    check "and starts" own
    check "and serves" eventually inside sh -c 'curl -s http://127.0.0.1:8099/ | grep -q mine'
    check "and reloads" own -s reload
    check "and stops" own -s stop
    check "all of it" eventually not inside pgrep -u 54321
}

# Purging what serves.
step_purge_running() {
    install ./tidegate.deb >/dev/null 2>&1
    inside systemctl stop nginx
    inside systemctl start tidegate
    check "purging tidegate stops its unit" inside apt-get purge -y tidegate
    check "nothing runs" not inside pidof tidegate
    check "its unit is gone" not inside systemctl cat tidegate.service
    inside systemctl start nginx
    check "nginx serves" serves nginx
}

all=(beside refused there pid_files conffiles upgrades upgrade_refused hangs rotate full_disks log_places
    nameless_user back_refused back at_once remove purge_running places unit)
make_base
boot
run_steps "$@"
