#!/usr/bin/env bash
# Builds Tidegate for Windows and runs it under Wine.
#
#   scripts/windows.sh                   all: build, tests, cases
#   scripts/windows.sh check             the same with the cases of what the system has a part in: files, processes, sockets
#   scripts/windows.sh build             target/windows/x86_64-pc-windows-gnu/debug/tidegate.exe
#   scripts/windows.sh tests [FILTER]    tests for Windows alone: names of files, commands, threads
#   scripts/windows.sh names             only aliases of file names: each attack with its response, as a table
#   scripts/windows.sh cases [FILTER]    the end-to-end cases
#   scripts/windows.sh bench [OPTION…]   three ways to check names of files, at 1 to 120 directories: a table; options
#                                        are those of tidegate-bench, as --rounds 3 --json FILE
#   scripts/windows.sh run ARGUMENT…     the program
#
# The compiler is Debian's, which comes with the sources of the standard library: that is built too, so that
# nothing but package registries is needed. All builds and downloads stay below target/windows.
set -euo pipefail
cd "$(dirname "$0")/.."

triple=x86_64-pc-windows-gnu
directory=$PWD/target/windows
program=$directory/$triple/debug/tidegate.exe
wine=/usr/lib/wine/wine64
wineserver=/usr/lib/wine/wineserver64

export WINEPREFIX=$directory/wine WINEDEBUG=${WINEDEBUG:--all}
# No menus and browsers; one library of ours, see below.
export WINEDLLOVERRIDES='mscoree,mshtml=;winemenubuilder.exe=d;bcryptprimitives=n'

debian_cargo() {
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$wine \
        AWS_LC_SYS_PREBUILT_NASM=1 PCRE2_SYS_STATIC=1 \
        scripts/debian-cargo.sh "$directory" "$triple" std,panic_unwind "$@"
}

# With the tests, since libraries are built with other features without them, and would be built twice.
build() { debian_cargo test --quiet --no-run --package tidegate --test windows; }

# Wine's directory, with the one library that Rust's standard library imports and Wine 8 lacks.
prepare_wine() {
    local library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
    mkdir -p "$directory"
    if ! [ -e "$library" ]; then
        echo "windows: making Wine's directory" >&2
        "$wine" wineboot -i >"$directory/wineboot.log" 2>&1
        "$wineserver" -w
        printf '%s\n' '#include <windows.h>' \
            'BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);' \
            '__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {' \
            '    return SystemFunction036(buffer, (ULONG)length);' \
            '}' >"$directory/bcryptprimitives.c"
        x86_64-w64-mingw32-gcc -shared -o "$library" "$directory/bcryptprimitives.c" -ladvapi32
    fi
    # One Wine server until the end: otherwise each program would start and end its own.
    trap '"$wineserver" -k >/dev/null 2>&1 || true' EXIT
    "$wineserver" -p >/dev/null 2>&1
}

# Output is shown on failure, and the table of names always.
tests() {
    debian_cargo test --quiet --package tidegate --test windows -- --test-threads 1 --nocapture "$@"
}

# The only program with other ways to check names than the sound one.
bench() {
    debian_cargo build --quiet --release --package tidegate --features name-rules
    cargo build --quiet --release --package tidegate-bench
    WINE=$wine "${CARGO_TARGET_DIR:-target}/release/tidegate-bench" depth \
        --wine "$directory/$triple/release/tidegate.exe" "$@"
}

# All but HTTP/3: not every case of it runs under Wine 8, which has neither batches nor marks of datagrams.
cases() {
    local one directories=()
    for one in tests/cases/*/; do
        [ "$one" = tests/cases/http3/ ] || directories+=("$one")
    done
    cases_of "${1:-}" "${directories[@]}"
}

# The rules of protocols are the same code on every system.
check() { cases_of '' tests/cases/{access,acme,cache,config,logs,process,servers,static,stream}; }

# Under Wine everything takes longer, and the order of events depends more on the machine's load: once more, alone.
cases_of() {
    cargo build --quiet --package tidegate-testkit
    WINE=$wine "${CARGO_TARGET_DIR:-target}/debug/tidegate-cases" --world windows --tidegate "$program" \
        --quiet --again --jobs 4 --filter "$1" "${@:2}"
}

step=${1:-all}
[ $# -eq 0 ] || shift
scripts/setup.sh windows
case $step in
    all) build && prepare_wine && tests && cases ;;
    check) build && prepare_wine && tests && check ;;
    build) build ;;
    tests) build && prepare_wine && tests "$@" ;;
    names) build && prepare_wine && tests names:: ;;
    bench) prepare_wine && bench "$@" ;;
    cases) build && prepare_wine && cases "$@" ;;
    run) build && prepare_wine && "$wine" "$program" "$@" ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
