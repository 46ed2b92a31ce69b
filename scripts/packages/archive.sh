# A static program with everything below one directory, as an archive; read by scripts/packages.sh.

build_archive() {
    local triple=x86_64-unknown-linux-musl name=tidegate-$version-x86_64-linux root program
    if ! have musl-gcc && [ -z "${TIDEGATE_PROGRAM:-}" ]; then
        say "no archive: musl-gcc is not installed (Debian: apt install musl-tools)"
        return
    fi
    [ -n "${TIDEGATE_PROGRAM:-}" ] || rustup target add "$triple" >&2
    program=$(program prefix "$triple")
    rm -rf "$work/archive"
    root=$work/archive/$name
    install_program "$program" "$root/sbin/tidegate"
    ln -s tidegate "$root/sbin/nginx"
    fill_prefix "$root"
    mkdir -p "$root/systemd"
    # Logs, pid file and temporary files are below /usr, which the unit makes read only.
    sed -e 's|/usr/sbin/tidegate|/usr/local/nginx/sbin/tidegate|g' \
        -e 's|/etc/nginx/nginx.conf|/usr/local/nginx/conf/nginx.conf|g' \
        -e 's|^ProtectSystem=full$|&\nReadWritePaths=/usr/local/nginx|' \
        packaging/systemd/tidegate.service >"$root/systemd/tidegate.service"
    install -D -m 644 packaging/systemd/tidegate.socket "$root/systemd/tidegate.socket"
    install -D -m 644 docs/reference/tidegate.8 "$root/man/man8/tidegate.8"
    install -D -m 644 docs/reference/tidegate.conf.5 "$root/man/man5/tidegate.conf.5"
    install -D -m 644 -t "$root/grafana" packaging/grafana/*.json
    dependency_licences "$triple" >"$root/dependencies.txt"
    pack "$work/archive" "$name" | xz -9 -T1 >"$out/$name.tar.xz"
}

build_archive
