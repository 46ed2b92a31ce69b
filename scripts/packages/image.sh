# Images with the contract of nginx's official one, as OCI directories; read by scripts/packages.sh.
#
#   tidegate-image                with BusyBox: entrypoint scripts and templates
#   tidegate-image-unprivileged   the same as user 101, port 8080, writing below /tmp only
#   tidegate-image-static         the program and its configuration alone, no shell
#
# Written without an engine: a layer is a tar archive, the rest is JSON. `skopeo copy oci:DIRECTORY …` or
# `buildah pull oci:DIRECTORY` read them.

build_images() {
    local triple=x86_64-unknown-linux-musl program
    if ! have musl-gcc && [ -z "${TIDEGATE_PROGRAM:-}" ]; then
        say "no image: musl-gcc is not installed (Debian: apt install musl-tools)"
        return
    fi
    local busybox=${BUSYBOX:-/bin/busybox}
    if ! [ -x "$busybox" ] || ldd "$busybox" >/dev/null 2>&1; then
        say "no image: a static BusyBox is not installed (Debian: apt install busybox-static)"
        return
    fi
    [ -n "${TIDEGATE_PROGRAM:-}" ] || rustup target add "$triple" >&2
    program=$(program nginx.org "$triple")
    rm -rf "$work/image"
    fill_image "$work/image/static" "$program" "$triple"
    cp -a "$work/image/static" "$work/image/shell"
    add_shell "$work/image/shell" "$busybox"
    cp -a "$work/image/shell" "$work/image/unprivileged"
    make_unprivileged "$work/image/unprivileged"
    write_image tidegate-image "$work/image/shell" '"/docker-entrypoint.sh"' 80 ''
    write_image tidegate-image-unprivileged "$work/image/unprivileged" '"/docker-entrypoint.sh"' 8080 101
    write_image tidegate-image-static "$work/image/static" '' 80 ''
}

fill_image() {
    local root=$1 program=$2 triple=$3
    install_program "$program" "$root/usr/sbin/tidegate"
    ln -s tidegate "$root/usr/sbin/nginx"
    fill_nginx_org "$root"
    ln -s /dev/stdout "$root/var/log/nginx/access.log"
    ln -s /dev/stderr "$root/var/log/nginx/error.log"
    mkdir -p "$root"/{etc,run,proc,sys,dev} "$root/etc/ssl/certs"
    mkdir -m 1777 "$root/tmp"
    printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'nginx:x:101:101:nginx:/nonexistent:/bin/false' \
        'nobody:x:65534:65534:nobody:/nonexistent:/bin/false' >"$root/etc/passwd"
    printf '%s\n' 'root:x:0:' 'nginx:x:101:' 'nogroup:x:65534:' >"$root/etc/group"
    ln -s ../run "$root/var/run"
    # For `proxy_ssl_trusted_certificate`, as in Debian.
    if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    fi
    install -D -m 644 LICENSE "$root/usr/share/doc/tidegate/LICENSE"
    dependency_licences "$triple" | gzip -9 -n >"$root/usr/share/doc/tidegate/dependencies.gz"
}

add_shell() {
    local root=$1 busybox=$2 name
    install -D -m 755 "$busybox" "$root/bin/busybox"
    # One name for each command; those of this image's own stay.
    mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin}
    while read -r name; do
        [ -e "$root/$name" ] || ln -s /bin/busybox "$root/$name"
    done < <("$busybox" --list-full | sed 's|^/||' | grep -v '^bin/busybox$')
    install -m 755 packaging/image/docker-entrypoint.sh "$root/docker-entrypoint.sh"
    install -D -m 755 -t "$root/docker-entrypoint.d" packaging/image/docker-entrypoint.d/*
    mkdir -p "$root/usr/share/tidegate"
    (cd "$root" && sha256sum etc/nginx/conf.d/default.conf | sed 's|  |  /|') >"$root/usr/share/tidegate/default.conf.sha256"
    if [ -e /usr/share/doc/busybox-static/copyright ]; then
        install -D -m 644 /usr/share/doc/busybox-static/copyright "$root/usr/share/doc/busybox/copyright"
    fi
}

# The user of the image writes below /tmp; its configuration stays its own.
make_unprivileged() {
    local root=$1 kind name
    sed -i -E 's|^( *listen +)80;|\18080;|' "$root/etc/nginx/conf.d/default.conf"
    sed -i -E -e '/^user /d' -e 's|^(pid +).*|\1/tmp/nginx.pid;|' "$root/etc/nginx/nginx.conf"
    for kind in client proxy fastcgi uwsgi scgi; do
        case $kind in client) name=client_body_temp_path ;; *) name=${kind}_temp_path ;; esac
        sed -i "s|^http {|&\n    $name /tmp/${kind}_temp;|" "$root/etc/nginx/nginx.conf"
    done
    (cd "$root" && sha256sum etc/nginx/conf.d/default.conf | sed 's|  |  /|') >"$root/usr/share/tidegate/default.conf.sha256"
    # Marked for `write_image`: the entrypoint changes these files.
    touch "$root.owned"
}

# Adds a blob; prints its digest and size.
blob() {
    local sum
    sum=$(sha256sum "$1" | cut -c 1-64)
    mv "$1" "$2/blobs/sha256/$sum"
    echo "$sum $(stat -c %s "$2/blobs/sha256/$sum")"
}

write_image() {
    local name=$1 root=$2 entrypoint=$3 port=$4 user=$5
    local directory=$out/$name layer=$work/image/layer.tar plain compressed config manifest date command
    date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    rm -rf "$directory"
    mkdir -p "$directory/blobs/sha256"
    set_times "$root"
    if [ -e "$root.owned" ]; then
        # Two archives as one: what the user owns, and the rest.
        pack "$root" --exclude ./etc/nginx --exclude ./var/cache/nginx . >"$layer"
        tar --append --format=gnu --sort=name --owner=101 --group=101 --numeric-owner \
            --mtime="@$SOURCE_DATE_EPOCH" --directory "$root" --file "$layer" ./etc/nginx ./var/cache/nginx
    else
        pack "$root" . >"$layer"
    fi
    plain=$(sha256sum "$layer" | cut -c 1-64)
    gzip -9 -n "$layer"
    compressed=$(blob "$layer.gz" "$directory")
    command='["nginx","-g","daemon off;"]'
    [ -n "$entrypoint" ] || command='["/usr/sbin/nginx","-g","daemon off;"]'
    printf '{"architecture":"amd64","os":"linux","created":"%s","config":{"User":"%s","ExposedPorts":{"%s/tcp":{}},"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","NGINX_VERSION=%s","TIDEGATE_VERSION=%s"],"Entrypoint":[%s],"Cmd":%s,"StopSignal":"SIGQUIT"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"%s","created_by":"scripts/packages.sh image"}]}' \
        "$date" "$user" "$port" "$nginx" "$version" "$entrypoint" "$command" "$plain" "$date" >"$work/image/config"
    config=$(blob "$work/image/config" "$directory")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
        ${config% *} ${config#* } ${compressed% *} ${compressed#* } >"$work/image/manifest"
    manifest=$(blob "$work/image/manifest" "$directory")
    printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}' \
        ${manifest% *} ${manifest#* } "$version" >"$directory/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$directory/oci-layout"
    say "$name: $((${compressed#* } / 1024)) KiB compressed"
    pack "$directory" . | gzip -1 -n >"$out/$name-$version.oci.tar.gz"
    rm -rf "$directory"
}

build_images
