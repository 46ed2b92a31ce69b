#!/bin/sh
# Makes configuration files of templates: $NAME and ${NAME} become the values of environment variables that are set, and
# whose names match NGINX_ENVSUBST_FILTER. Everything else, nginx's own variables too, stays as it is.
set -e

say() { [ -n "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "${0##*/}: $*"; }

templates=${NGINX_ENVSUBST_TEMPLATE_DIR:-/etc/nginx/templates}

substitute() {
    awk '
    BEGIN { filter = "NGINX_ENVSUBST_FILTER" in ENVIRON ? ENVIRON["NGINX_ENVSUBST_FILTER"] : "" }
    {
        rest = $0
        made = ""
        while (match(rest, /\$(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Za-z_][A-Za-z0-9_]*)/)) {
            written = substr(rest, RSTART, RLENGTH)
            name = written
            gsub(/[${}]/, "", name)
            known = (name in ENVIRON) && (filter == "" || name ~ filter)
            made = made substr(rest, 1, RSTART - 1) (known ? ENVIRON[name] : written)
            rest = substr(rest, RSTART + RLENGTH)
        }
        print made rest
    }' "$1"
}

# Whether a file can be changed; it and its directory are made. BusyBox's -w does not see what is mounted read only.
can_write() { mkdir -p "${1%/*}" 2>/dev/null && (: >>"$1") 2>/dev/null; }

# Makes the files of one kind: the ending of templates, and the directory of the results.
make_all() {
    ending=$1 output=$2
    find "$templates" -follow -type f -name "*$ending" | sort | while read -r template; do
        relative=${template#"$templates/"}
        result=$output/${relative%"$ending"}
        if ! can_write "$result"; then
            say "$result cannot be written: $template is not used" >&2
            continue
        fi
        say "making $result of $template"
        substitute "$template" >"$result"
    done
}

[ -d "$templates" ] || exit 0
make_all "${NGINX_ENVSUBST_TEMPLATE_SUFFIX:-.template}" "${NGINX_ENVSUBST_OUTPUT_DIR:-/etc/nginx/conf.d}"

stream=${NGINX_ENVSUBST_STREAM_TEMPLATE_SUFFIX:-.stream-template}
if [ -n "$(find "$templates" -follow -type f -name "*$stream" | head -n 1)" ]; then
    output=${NGINX_ENVSUBST_STREAM_OUTPUT_DIR:-/etc/nginx/stream-conf.d}
    make_all "$stream" "$output"
    if grep -qE '^ *stream *\{' /etc/nginx/nginx.conf; then
        :
    elif ! can_write /etc/nginx/nginx.conf; then
        say "/etc/nginx/nginx.conf cannot be changed: it needs a block stream" >&2
    else
        say "adding the block stream to /etc/nginx/nginx.conf"
        printf '\nstream {\n    include %s/*.conf;\n}\n' "$output" >>/etc/nginx/nginx.conf
    fi
fi
