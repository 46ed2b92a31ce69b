# The program for Windows with its files, as a zip archive; read by scripts/packages.sh.

build_windows() {
    local name=tidegate-$version-x86_64-windows root program
    if ! have zip; then
        say "no archive for Windows: zip is not installed"
        return
    fi
    if ! have x86_64-w64-mingw32-gcc; then
        say "no archive for Windows: its linker is not installed (scripts/setup.sh windows)"
        return
    fi
    program=${TIDEGATE_PROGRAM_WINDOWS:-}
    if [ -z "$program" ]; then
        program=$target/windows-release/x86_64-pc-windows-gnu/release/tidegate.exe
        AWS_LC_SYS_PREBUILT_NASM=1 PCRE2_SYS_STATIC=1 CARGO_PROFILE_RELEASE_DEBUG=0 \
            scripts/debian-cargo.sh "$target/windows-release" x86_64-pc-windows-gnu std,panic_unwind \
            build --locked --release --package tidegate >&2
    fi
    rm -rf "$work/windows"
    root=$work/windows/$name
    install_program "$program" "$root/tidegate.exe" x86_64-w64-mingw32-strip
    cp "$root/tidegate.exe" "$root/nginx.exe"
    fill_prefix "$root"
    : >"$root/logs/.keep"
    dependency_licences x86_64-pc-windows-gnu >"$root/dependencies.txt"
    set_times "$work/windows"
    rm -f "$out/$name.zip"
    (cd "$work/windows" && find "$name" -type f | sort | zip -q -9 -X "$out/$name.zip" -@)
}

build_windows
