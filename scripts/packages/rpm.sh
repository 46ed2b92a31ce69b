# The package `nginx-tidegate` in the layout of nginx.org; read by scripts/packages.sh.

build_rpm() {
    local triple=x86_64-unknown-linux-gnu root=$work/rpm/root program documents
    if ! have rpmbuild; then
        say "no rpm: rpmbuild is not installed (Debian: apt install rpm)"
        return
    fi
    program=$(program nginx.org "$triple")
    rm -rf "$work/rpm"
    install_program "$program" "$root/usr/sbin/tidegate"
    ln -s tidegate "$root/usr/sbin/nginx"
    fill_nginx_org "$root"
    install -D -m 755 packaging/debian/take-over "$root/usr/libexec/tidegate/take-over"
    install -D -m 644 packaging/systemd/nginx.service "$root/usr/lib/systemd/system/nginx.service"
    install -D -m 644 packaging/logrotate/nginx "$root/etc/logrotate.d/nginx"
    install -D -m 644 packaging/completion/tidegate.bash "$root/usr/share/bash-completion/completions/tidegate"
    install -D -m 644 packaging/completion/_tidegate "$root/usr/share/zsh/site-functions/_tidegate"
    install -D -m 644 -t "$root/usr/share/tidegate/grafana" packaging/grafana/*.json
    compress docs/reference/tidegate.8 "$root/usr/share/man/man8/tidegate.8.gz"
    compress docs/reference/tidegate.conf.5 "$root/usr/share/man/man5/tidegate.conf.5.gz"
    ln -s tidegate.8.gz "$root/usr/share/man/man8/nginx.8.gz"
    documents=$root/usr/share/doc/nginx-tidegate
    install -D -m 644 LICENSE "$documents/LICENSE"
    install -D -m 644 CHANGELOG.md "$documents/CHANGELOG.md"
    install -D -m 644 docs/differences.md "$documents/differences.md"
    dependency_licences "$triple" >"$documents/dependencies"
    set_times "$root"
    rpmbuild -bb --quiet --target x86_64 --define "_topdir $work/rpm/top" --define "_tree $root" \
        --define "_version $version" --define "_nginx $nginx" --define "_buildhost localhost" \
        --define "_date $(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" \
        --define "_rpmdir $out" --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
        packaging/rpm/nginx-tidegate.spec >&2
}

build_rpm
