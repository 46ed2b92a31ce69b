#!/usr/bin/env bash
# Tests the tools that stand around a server, in a booted Debian: each does with Tidegate what it does with nginx.
#
#   scripts/tool-tests.sh [STEP…]       default: all steps, in their order
#   PEBBLE=DIRECTORY                    has Pebble (github.com/letsencrypt/pebble); default target/pebble, installed by Go
#
# Every step runs with nginx and then, with the same configuration, with Tidegate in nginx's place, and compares.
# scripts/packages/machine.sh has the requirements; jq and Go beside them.
set -euo pipefail
cd "$(dirname "$0")/.."
name=tool-tests
# shellcheck source=scripts/packages/machine.sh
. scripts/packages/machine.sh
# shellcheck source=scripts/pebble.sh
. scripts/pebble.sh
command -v jq >/dev/null || die "jq is missing"
pebble=$(realpath --canonicalize-missing "${PEBBLE:-target/pebble}")
# What a step notes about a server is in $results/PROGRAM, and is compared.
results=$root.results

# Puts a program into nginx's place.
use() {
    case $1 in
        nginx) install nginx ;;
        tidegate) install ./nginx-tidegate.deb ;;
    esac >"$root.use" 2>&1 || die "no change to $1: $root.use"
    serves "$1" || die "$1 does not serve"
    program=$1
}

# Runs a function with each program, nginx first.
with_each() {
    rm -rf "$results"
    mkdir -p "$results/nginx" "$results/tidegate"
    local each
    for each in nginx tidegate; do
        use "$each"
        noted=$results/$each
        "$@"
    done
}
same() { diff --recursive --unified=0 "$results/nginx" "$results/tidegate"; }
# At least so many lines.
lines_of() { [ "$(wc -l <"$1")" -ge "$2" ]; }

site() { cat >"$root/etc/nginx/sites-enabled/$1"; }
reload() { inside systemctl reload nginx && eventually "$@"; }
code() { inside curl -sk -o /dev/null -w '%{http_code}' "$@"; }
answers() {
    local expected=$1
    shift
    [ "$(code "$@")" = "$expected" ]
}
fresh_logs() { inside sh -c 'rm -f /var/log/nginx/*; nginx -s reopen 2>/dev/null' && eventually inside test -e /var/log/nginx/access.log; }

certbot() { inside env REQUESTS_CA_BUNDLE=/root/pebble.crt certbot --non-interactive --server https://localhost:14000/dir "$@"; }
obtain() { certbot --nginx --agree-tos --register-unsafely-without-email --redirect "$@"; }
# The serial number of the certificate that is served.
serial() {
    inside sh -c 'openssl s_client -connect 127.0.0.1:443 -servername "$1" </dev/null 2>/dev/null | openssl x509 -noout -serial' \
        sh "$1"
}
is_new() { [ "$(serial "$1")" != "$2" ]; }

start_pebble() {
    ensure_pebble "$pebble" pebble
    cp "$pebble/pebble" "$root/usr/local/bin/pebble"
    inside sh -c 'cd /root && openssl req -x509 -newkey rsa:2048 -nodes -keyout pebble.key -out pebble.crt -days 2 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null'
    cat >"$root/root/pebble.json" <<'CONFIGURATION'
{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "certificate": "/root/pebble.crt",
 "privateKey": "/root/pebble.key", "httpPort": 80, "tlsPort": 443, "externalAccountBindingRequired": false}}
CONFIGURATION
    echo '127.0.0.1 one.test two.test three.test four.test five.test' >>"$root/etc/hosts"
    inside systemd-run --quiet --unit pebble --setenv PEBBLE_VA_NOSLEEP=1 --setenv PEBBLE_WFE_NONCEREJECT=0 \
        pebble -config /root/pebble.json
    eventually inside curl -s -o /dev/null --cacert /root/pebble.crt https://localhost:14000/dir
    # It kills certbot in place of its reload number KILLED, when the configuration is written.
    cat >"$root/root/nginx-ctl" <<'CONTROL'
#!/bin/sh
case "$*" in
    *reload*)
        echo reload >>/root/reloads
        if [ "$(wc -l </root/reloads)" = "$(cat /root/killed)" ]; then
            kill -KILL $PPID
            exit 1
        fi
        ;;
esac
exec nginx "$@"
CONTROL
    chmod 755 "$root/root/nginx-ctl"
}

certbot_sites() {
    rm -rf "$root/etc/letsencrypt" "$root/var/lib/letsencrypt"
    site hosts <<'SITES'
server { listen 80; server_name one.test; root /var/www/html; location / { try_files $uri $uri/ =404; } }
server {
    listen 80;
    listen [::]:80;
    server_name two.test three.test; # two names
    root /var/www/html;
    location ~ /\.(?!well-known) { deny all; }
}
server {
    server_name four.test;
    if ($request_method = DELETE) { return 405; }
    rewrite ^/old/(.*)$ /$1 permanent;
    location / { root /var/www/html; }
}
server {
    listen 443 ssl;
    listen 80;
    server_name five.test;
    ssl_certificate /root/pebble.crt;
    ssl_certificate_key /root/pebble.key;
    root /var/www/html;
}
SITES
    reload answers 200 http://two.test/
}

certbot_with() {
    local before host
    certbot_sites
    cp -a "$root/etc/nginx/sites-enabled/hosts" "$root.hosts"
    for host in one.test two.test,three.test four.test five.test; do
        check "$program: certbot obtains and installs $host" obtain -d "$host"
    done
    for host in one two three four five; do
        check "$program: https://$host.test" answers 200 "https://$host.test/"
        check "$program: http://$host.test leads there" answers 301 "http://$host.test/"
    done
    cp "$root/etc/nginx/sites-enabled/hosts" "$noted/"
    before=$(serial one.test)
    check "$program: certbot renews" certbot renew --force-renewal --no-random-sleep-on-renew
    check "$program: the renewed certificate is served" eventually is_new one.test "$before"
    check "$program: certbot rolls back" certbot rollback --installer nginx --checkpoints 100
    check "$program: the configuration is the one before" diff "$root.hosts" "$root/etc/nginx/sites-enabled/hosts"
    check "$program: it can be used" inside systemctl reload nginx
    check "$program: http answers by itself again" eventually answers 200 http://one.test/
}

# Certbot is killed when the new configuration is written and not read yet: at the challenge, behind it, at installing.
certbot_killed() {
    local number before
    for number in 1 2 3; do
        certbot_sites
        before=$(master)
        inside sh -c ": >/root/reloads; echo $number >/root/killed"
        check "$program: certbot is killed at reload $number" not obtain --nginx-ctl /root/nginx-ctl -d one.test
        check "$program: at that one" [ "$(wc -l <"$root/root/reloads")" = "$number" ]
        check "$program: the old server goes on" [ "$(master)" = "$before" ]
        check "$program: as it was" answers 200 http://one.test/
        check "$program: what is written can be used" inside nginx -t
        check "$program: the next certbot succeeds" obtain -d one.test
        check "$program: https" answers 200 https://one.test/
        grep -v '/letsencrypt/live/' "$root/etc/nginx/sites-enabled/hosts" >"$noted/hosts.$number"
    done
}

step_certbot() {
    start_pebble
    with_each certbot_with
    check "certbot has written the same for both" same
    with_each certbot_killed
    check "certbot has written the same for both" same
    rm "$root/etc/nginx/sites-enabled/hosts"
    inside systemctl stop pebble
}

attack_site() {
    site attack <<'SITE'
limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
server {
    listen 80;
    server_name attack.test;
    root /var/www/html;
    location /private/ { auth_basic closed; auth_basic_user_file /etc/nginx/users; }
    location /slow/ { limit_req zone=slow; }
}
SITE
    echo 'user:{PLAIN}secret' >"$root/etc/nginx/users"
    cp tests/tools/attack.py "$root/root/attack.py"
}
is_attack_site() { answers 401 --header 'Host: attack.test' http://127.0.0.1/private/; }

# An attack, whose lines alone are in the logs.
attack() {
    attack_site
    reload is_attack_site
    fresh_logs
    check "$program: an attack is answered" inside python3 /root/attack.py
    # The last line is written when its answer is sent.
    eventually inside sh -c '[ $(wc -l </var/log/nginx/access.log) -ge 600 ]'
}

# The lines that fail2ban's filters match.
matches() {
    attack
    cp "$root"/var/log/nginx/{access,error}.log "$root/root/"
    local log filter
    for log in access error; do
        for filter in http-auth limit-req botsearch bad-request; do
            # "Lines: 600 lines, 0 ignored, 300 matched, 300 missed"
            inside fail2ban-regex "/root/$log.log" "nginx-$filter" | sed -n "s/^Lines: .*, \([0-9]* matched\).*/$log $filter \1/p"
        done
    done >"$noted/matches"
}

bans() {
    local address=$1
    inside fail2ban-client unban --all >/dev/null
    # The address that is banned is none of those that the checks use.
    local try
    from() { inside curl -s --max-time 2 --interface "$address" "$@"; }
    for try in 1 2 3 4; do from -o /dev/null -u "user:wrong$try" -H 'Host: attack.test' http://127.0.0.1/private/ || true; done
    check "$program: fail2ban bans a client" eventually not from http://127.0.0.1/
    check "$program: others are served" answers 200 http://127.0.0.1/
    check "$program: it is in nftables" eventually inside sh -c "nft list ruleset | grep -q $address"
    inside fail2ban-client unban --all >/dev/null
    check "$program: and is served again" eventually from http://127.0.0.1/
}

step_fail2ban() {
    with_each matches
    sed 's/^/    /' "$results/nginx/matches"
    local filter
    for filter in http-auth limit-req botsearch bad-request; do
        check "the filter nginx-$filter matches lines" grep -q "$filter [1-9]" "$results/nginx/matches"
    done
    check "fail2ban's filters match as many lines of both" same
    cat >"$root/etc/fail2ban/jail.d/tests.conf" <<'JAIL'
[DEFAULT]
banaction = nftables
ignoreself = false
ignoreip =
backend = polling

[nginx-http-auth]
enabled = true
maxretry = 3
JAIL
    # It reads what is there.
    fresh_logs
    inside systemctl restart fail2ban
    eventually inside fail2ban-client status nginx-http-auth >/dev/null 2>&1
    use tidegate
    bans 127.0.0.2
    use nginx
    bans 127.0.0.3
    inside systemctl stop fail2ban
    rm "$root/etc/nginx/sites-enabled/attack"
}

wordpress_site() {
    site wordpress <<'SITE'
server {
    server_name wordpress.test;
    root /usr/share/wordpress;
    index index.php;
    client_max_body_size 100m;
    location = /favicon.ico { log_not_found off; access_log off; }
    location = /robots.txt { allow all; log_not_found off; access_log off; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ ^/wp-content/(.*)$ { alias /var/lib/wordpress/wp-content/$1; }
    location ~ \.php$ {
        include snippets/fastcgi-php.conf;
        fastcgi_intercept_errors on;
        fastcgi_pass unix:/run/php/php-fpm.sock;
    }
    location ~* \.(js|css|png|jpg|jpeg|gif|ico)$ { expires max; log_not_found off; }
}
SITE
    echo '127.0.0.1 wordpress.test' >>"$root/etc/hosts"
    reload answers 302 http://wordpress.test/
}

# WordPress with eighty posts, pages and comments, installed by its own form.
wordpress_content() {
    inside mysql -e 'create database wordpress; create user wordpress@localhost identified by "secret";
        grant all on wordpress.* to wordpress@localhost'
    cat >"$root/etc/wordpress/config-default.php" <<'PHP'
<?php
define("DB_NAME", "wordpress"); define("DB_USER", "wordpress"); define("DB_PASSWORD", "secret"); define("DB_HOST", "localhost");
define("WP_CONTENT_DIR", "/var/lib/wordpress/wp-content"); define("DISABLE_WP_CRON", true);
define("WP_HTTP_BLOCK_EXTERNAL", true);
PHP
    chmod 644 "$root/etc/wordpress/config-default.php"
    wordpress_site
    check "WordPress is installed" inside curl -sf -o /dev/null 'http://wordpress.test/wp-admin/install.php?step=2' \
        -d 'weblog_title=Tests&user_name=admin&admin_password=pa55-word-of-tests&admin_password2=pa55-word-of-tests' \
        -d 'admin_email=admin@wordpress.test&blog_public=1&Submit=Install'
    cat >"$root/root/content.php" <<'PHP'
<?php
$_SERVER["HTTP_HOST"] = "wordpress.test";
require "/usr/share/wordpress/wp-load.php";
global $wp_rewrite;
update_option("permalink_structure", "/%year%/%monthnum%/%postname%/");
$wp_rewrite->set_permalink_structure("/%year%/%monthnum%/%postname%/");
$wp_rewrite->flush_rules(false);
for ($i = 1; $i <= 80; $i++) {
    $post = wp_insert_post(["post_title" => "Post number $i", "post_content" => str_repeat("<p>Line $i of a text.</p>\n", 10 * $i),
        "post_status" => "publish", "post_type" => $i % 4 ? "post" : "page", "post_author" => 1,
        "post_date" => sprintf("2026-%02d-%02d 10:00:00", 1 + $i % 9, 1 + $i % 28), "tags_input" => ["tag" . $i % 7]]);
    wp_insert_comment(["comment_post_ID" => $post, "comment_author" => "Someone",
        "comment_author_email" => "someone@wordpress.test", "comment_content" => "Comment $i", "comment_date" => "2026-10-01 10:00:00", "comment_approved" => 1]);
}
PHP
    check "WordPress has content" inside php /root/content.php
    cp tests/tools/crawl.py "$root/root/crawl.py"
    inside python3 /root/crawl.py list http://wordpress.test/ 300 >"$root.requests"
}

crawl() {
    reload answers 200 http://wordpress.test/
    cp "$root.requests" "$root/root/requests"
    check "$program: WordPress answers" inside sh -c 'python3 /root/crawl.py record /root/requests >/root/recorded'
    cp "$root/root/recorded" "$noted/answers"
}

# A form with a file of 64 MB: what is stored and sent back is what was sent.
upload() {
    cat >"$root/root/upload" <<'SCRIPT'
set -eu
cd /root
curl -s -o /dev/null -c jar -b 'wordpress_test_cookie=WP%20Cookie%20check' http://wordpress.test/wp-login.php \
    -d 'log=admin&pwd=pa55-word-of-tests&testcookie=1'
nonce=$(curl -s -b jar http://wordpress.test/wp-admin/media-new.php | grep -o '"_wpnonce":"[0-9a-f]*' | head -n 1 | cut -d '"' -f 4)
curl -s -o answer -b jar http://wordpress.test/wp-admin/async-upload.php -F name=large.pdf -F action=upload-attachment \
    -F "_wpnonce=$nonce" -F 'async-upload=@large.bin;filename=large.pdf;type=application/pdf'
cut -c 1-500 answer
curl -s "$(tr -d '\\' <answer | grep -o 'http:[^"]*/large[^"]*pdf' | head -n 1)" | cmp - large.bin
SCRIPT
    inside sh /root/upload
}

step_wordpress() {
    use nginx
    sed -i 's/^upload_max_filesize = .*/upload_max_filesize = 100M/; s/^post_max_size = .*/post_max_size = 100M/; s/^memory_limit = .*/memory_limit = 256M/' \
        "$root"/etc/php/*/fpm/php.ini
    inside systemctl restart 'php*-fpm.service'
    inside sh -c '(echo %PDF-1.4; head -c 64000000 /dev/zero) >/root/large.bin'
    wordpress_content
    check "there are 300 requests" lines_of "$root.requests" 300
    with_each crawl
    check "answers are recorded" lines_of "$results/nginx/answers" 300
    check "300 answers are the same" same
    say "    $(jq -r .status "$results/nginx/answers" | sort | uniq -c | sort -rn | sed 's/^ *//' | paste -s -d ,)"
    with_each upload_with
    rm "$root/etc/nginx/sites-enabled/wordpress"
}
upload_with() { check "$program: a file of 64 MB goes there and back" upload; }

# Reports of what read the access log: goaccess and awstats, without times and without bytes (an error page has the server's
# name in it).
reports() {
    inside sh -c 'cd /root && goaccess access.log --no-global-config --log-format=COMBINED --output=report.json >/dev/null 2>&1' || return
    jq --sort-keys 'del(.visit_time, .general.date_time, .general.generation_time, .general.start_date, .general.end_date, .general.log_size)
        | walk(if type == "object" then del(.bytes, .bandwidth) elif type == "array" then sort_by(tojson) else . end)' \
        "$root/root/report.json" >"$noted/goaccess"
    rm -rf "$root/root/awstats"
    mkdir "$root/root/awstats"
    inside /usr/lib/cgi-bin/awstats.pl -config=tests -update | grep -E '^(Parsed| *Found)' >"$noted/awstats"
}

# The figures of munin's plugins: names alone, as their values are those of the moment.
figures() {
    local plugin
    for plugin in nginx_request nginx_status; do
        inside munin-run "$plugin" config || return
        inside munin-run "$plugin" || return
    done | sed -E 's/^(.*\.value) [0-9]+$/\1 a number/' >"$noted/munin"
}

# Who may read a log behind its rotation, and which lines are where.
rotation() {
    inside sh -c 'rm -f /var/log/nginx/*.1 && logrotate --force /etc/logrotate.d/nginx' || return
    eventually inside sh -c 'curl -s -o /dev/null http://127.0.0.1/rotated && grep -q /rotated /var/log/nginx/access.log' || return
    inside sh -c 'cd /var/log/nginx && stat -c "%n %U %G %a" access.log error.log; grep -c /private/ access.log.1
        grep -c /private/ access.log' >"$noted/rotation" || true
}

logs_of() {
    attack
    cp "$root/var/log/nginx/access.log" "$root/root/access.log"
    check "$program: goaccess and awstats read the log" reports
    check "$program: munin has figures" figures
    check "$program: logrotate rotates" rotation
}

step_logs() {
    site status <<'SITE'
server { listen 127.0.0.1:8088; access_log off; location = /nginx_status { stub_status; } }
SITE
    printf '[nginx*]\nenv.url http://127.0.0.1:8088/nginx_status\n' >"$root/etc/munin/plugin-conf.d/tests"
    ln -sf /usr/share/munin/plugins/nginx_request /usr/share/munin/plugins/nginx_status "$root/etc/munin/plugins/"
    cat >"$root/etc/awstats/awstats.tests.conf" <<'CONFIGURATION'
LogFile="/root/access.log"
LogFormat=1
SiteDomain="attack.test"
HostAliases="localhost 127.0.0.1"
DNSLookup=0
DirData="/root/awstats"
CONFIGURATION
    with_each logs_of
    check "goaccess has counted" grep -q '"total_requests": 60[0-9]' "$results/nginx/goaccess"
    check "awstats has counted" grep -q 'Found [1-9][0-9]* new qualified records' "$results/nginx/awstats"
    check "munin has four numbers" [ "$(grep -c 'a number' "$results/nginx/munin")" -ge 4 ]
    check "all read the same from both" same
    rm "$root/etc/nginx/sites-enabled/status" "$root/etc/nginx/sites-enabled/attack"
}

all=(certbot fail2ban wordpress logs)
make_base
add_to_base tools certbot python3-certbot-nginx openssl fail2ban python3-systemd nftables wordpress wordpress-theme-twentytwentythree \
    php-fpm php-mysql mariadb-server goaccess awstats munin-node munin-plugins-core libwww-perl
# Of the ssh server, which is not there: fail2ban does not start with it.
rm -f "$base/etc/fail2ban/jail.d/defaults-debian.conf"
boot
check "tidegate is installed beside nginx" install ./tidegate.deb
run_steps "$@"
