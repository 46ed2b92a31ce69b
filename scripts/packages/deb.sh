# Debian's packages `tidegate` and `nginx-tidegate`; read by scripts/packages.sh with `architecture`.
#
# Built with dpkg-deb alone: scripts and control files are in packaging/debian.

build_debs() {
    local triple strip=strip depends program package root
    case $architecture in
        amd64) triple=x86_64-unknown-linux-gnu ;;
        arm64) triple=aarch64-unknown-linux-gnu strip=aarch64-linux-gnu-strip ;;
    esac
    if ! have dpkg-deb || ! have dpkg-shlibdeps; then
        say "no deb for $architecture: dpkg-dev is not installed"
        return
    fi
    if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
        if ! have aarch64-linux-gnu-gcc || [ -n "${TIDEGATE_PROGRAM:-}" ]; then
            say "no deb for $architecture: crossbuild-essential-arm64 is not installed"
            return
        fi
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        rustup target add "$triple" >&2
    fi
    program=$(program debian "$triple")
    root=$work/deb/tidegate
    rm -rf "$work/deb"
    install_program "$program" "$root/usr/sbin/tidegate" "$strip"
    depends=$(libraries "$root/usr/sbin/tidegate")
    fill_tidegate "$root" "$triple"
    make_deb tidegate "$root" "$architecture" "$depends"
    # The same for every architecture.
    [ "$architecture" = amd64 ] || return 0
    root=$work/deb/nginx-tidegate
    mkdir -p "$root/usr/sbin" "$root/usr/share/man/man8"
    ln -s tidegate "$root/usr/sbin/nginx"
    ln -s tidegate.8.gz "$root/usr/share/man/man8/nginx.8.gz"
    make_deb nginx-tidegate "$root" all ''
}

# The packages of the libraries that a program needs.
libraries() {
    local found directory=()
    # Those of the compiler for another architecture, whose packages have names of their own.
    if [ "$architecture" != "$(dpkg --print-architecture)" ]; then directory=(-l/usr/aarch64-linux-gnu/lib); fi
    # Debian's tool reads a source package's control file.
    mkdir -p "$work/deb/source/debian"
    printf 'Source: tidegate\n\nPackage: tidegate\nArchitecture: %s\n' "$architecture" >"$work/deb/source/debian/control"
    if ! found=$(cd "$work/deb/source" && dpkg-shlibdeps ${directory[@]+"${directory[@]}"} -O "$1" 2>"$work/deb/messages"); then
        cat "$work/deb/messages" >&2
        say "no deb for $architecture: dpkg-shlibdeps fails"
        return 1
    fi
    found=$(sed -n '/^shlibs:Depends=/ { s///; s/:arm64\|-arm64-cross//g; p }' <<<"$found")
    # A static program needs none.
    if [ -z "$found" ] && readelf --dynamic "$1" | grep '(NEEDED)' >&2; then
        cat "$work/deb/messages" >&2
        say "no deb for $architecture: dpkg-shlibdeps names no package of the program's libraries"
        return 1
    fi
    echo "$found"
}

# The files of `tidegate` beside the program.
fill_tidegate() {
    local root=$1 documents=$1/usr/share/doc/tidegate
    install -D -m 644 packaging/systemd/tidegate.service "$root/lib/systemd/system/tidegate.service"
    install -D -m 644 packaging/debian/apt.conf "$root/etc/apt/apt.conf.d/20tidegate"
    install -D -m 755 packaging/debian/apt-switch "$root/usr/lib/tidegate/apt-switch"
    install -D -m 755 packaging/debian/take-over "$root/usr/lib/tidegate/take-over"
    install -D -m 644 packaging/completion/tidegate.bash "$root/usr/share/bash-completion/completions/tidegate"
    install -D -m 644 packaging/completion/_tidegate "$root/usr/share/zsh/vendor-completions/_tidegate"
    install -D -m 644 -t "$root/usr/share/tidegate/grafana" packaging/grafana/*.json
    compress docs/reference/tidegate.8 "$root/usr/share/man/man8/tidegate.8.gz"
    compress docs/reference/tidegate.conf.5 "$root/usr/share/man/man5/tidegate.conf.5.gz"
    install -D -m 644 packaging/systemd/tidegate.socket "$documents/examples/tidegate.socket"
    install -D -m 644 packaging/logrotate/tidegate "$documents/examples/logrotate"
    compress CHANGELOG.md "$documents/CHANGELOG.md.gz"
    install -D -m 644 docs/differences.md "$documents/differences.md"
    install -D -m 644 docs/book/moving-from-nginx.md "$documents/moving-from-nginx.md"
    dependency_licences "$2" >"$work/deb/dependencies"
    compress "$work/deb/dependencies" "$documents/dependencies.gz"
    mkdir -p "$root/DEBIAN"
    echo /etc/apt/apt.conf.d/20tidegate >"$root/DEBIAN/conffiles"
}

make_deb() {
    local package=$1 root=$2 architecture=$3 depends=$4 script size
    local documents=$root/usr/share/doc/$package
    install -D -m 644 packaging/debian/copyright "$documents/copyright"
    fill packaging/debian/changelog "$work/deb/changelog" "PACKAGE=$package" "VERSION=$version" \
        "DATE=$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
    compress "$work/deb/changelog" "$documents/changelog.gz"
    if [ -e "packaging/debian/$package.lintian" ]; then
        install -D -m 644 "packaging/debian/$package.lintian" "$root/usr/share/lintian/overrides/$package"
    fi
    mkdir -p "$root/DEBIAN"
    for script in postinst prerm postrm triggers; do
        [ -e "packaging/debian/$package.$script" ] || continue
        install -m 755 "packaging/debian/$package.$script" "$root/DEBIAN/$script"
    done
    if [ -e "$root/DEBIAN/triggers" ]; then chmod 644 "$root/DEBIAN/triggers"; fi
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs md5sum) >"$root/DEBIAN/md5sums"
    # In KiB, as policy has it: files by their own sizes, so that it does not depend on the file system.
    size=$(cd "$root" && find . -path ./DEBIAN -prune -o -printf '%y %s\n' |
        awk '{ total += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print total }')
    fill "packaging/debian/$package.control" "$root/DEBIAN/control" "VERSION=$version" "ARCHITECTURE=$architecture" \
        "DEPENDS=$depends" "SIZE=$size" "NGINX=$nginx"
    set_times "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${package}_${version}_$architecture.deb" >&2
}

build_debs
