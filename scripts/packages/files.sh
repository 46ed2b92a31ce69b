# The files beside the program, in two layouts; read by scripts/packages.sh.

# nginx.org's: for rpm and image.
fill_nginx_org() {
    local root=$1 file
    for file in nginx.conf conf.d/default.conf mime.types fastcgi.conf fastcgi_params scgi_params uwsgi_params; do
        install -D -m 644 "packaging/files/$file" "$root/etc/nginx/$file"
    done
    for file in index.html 50x.html; do
        install -D -m 644 "packaging/files/html/$file" "$root/usr/share/nginx/html/$file"
    done
    mkdir -p "$root/usr/lib/nginx/modules" "$root/var/cache/nginx" "$root/var/log/nginx"
    ln -s ../../usr/lib/nginx/modules "$root/etc/nginx/modules"
}

# A configuration whose paths are below the prefix, pages and texts; also for Windows.
fill_prefix() {
    local root=$1 file
    for file in mime.types fastcgi.conf fastcgi_params scgi_params uwsgi_params; do
        install -D -m 644 "packaging/files/$file" "$root/conf/$file"
    done
    install -D -m 644 packaging/files/prefix.conf "$root/conf/nginx.conf"
    for file in index.html 50x.html; do install -D -m 644 "packaging/files/html/$file" "$root/html/$file"; done
    mkdir -p "$root/logs"
    install -m 644 LICENSE README.md CHANGELOG.md "$root/"
    install -D -m 644 docs/differences.md "$root/docs/differences.md"
}
