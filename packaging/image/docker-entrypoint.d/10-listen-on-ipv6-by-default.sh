#!/bin/sh
# Lets the default server listen on IPv6 too, unless the machine has none or its file was changed.
set -e

say() { [ -n "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "${0##*/}: $*"; }
file=/etc/nginx/conf.d/default.conf

if [ ! -f /proc/net/if_inet6 ]; then
    say "no IPv6 here"
elif [ ! -f "$file" ]; then
    say "$file does not exist"
elif ! touch "$file" 2>/dev/null; then
    say "$file cannot be changed"
elif ! sha256sum -c -s /usr/share/tidegate/default.conf.sha256; then
    say "$file is not the image's own"
else
    sed -i -E 's|^( *listen +)([0-9]+);|&\n\1[::]:\2;|' "$file"
    say "$file: also IPv6"
fi
