#!/bin/sh
# Prepares the configuration by the scripts of /docker-entrypoint.d, in the order of their names, where the server is to be
# started; then starts what was asked for. A script that fails ends the container.
set -e

say() { [ -n "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "$0: $*"; }

case ${1:-} in
    nginx | nginx-debug | tidegate)
        for script in /docker-entrypoint.d/*; do
            case $script in
                *.envsh)
                    if [ -x "$script" ]; then
                        say "sourcing $script"
                        . "$script"
                    else
                        say "ignoring $script, not executable"
                    fi
                    ;;
                *.sh)
                    if [ -x "$script" ]; then
                        say "launching $script"
                        "$script"
                    else
                        say "ignoring $script, not executable"
                    fi
                    ;;
                *) [ ! -e "$script" ] || say "ignoring $script" ;;
            esac
        done
        say "ready for start up"
        ;;
esac

exec "$@"
