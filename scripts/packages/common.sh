# What the builders of packages share; read by scripts/packages.sh.

target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}")
out=$target/packages
work=$target/packages-work
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
nginx=$(sed -n 's/^pub(crate) const NGINX: &str = "\(.*\)";/\1/p' crates/tidegate/src/version.rs)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export LC_ALL=C TZ=UTC
umask 022

say() { printf 'packages: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# The program for a layout (crates/tidegate-os/src/layout.rs) and a target: prints its file.
program() {
    local layout=$1 triple=$2
    if [ -n "${TIDEGATE_PROGRAM:-}" ]; then
        echo "$TIDEGATE_PROGRAM"
        return
    fi
    # Paths of this machine are no part of the program.
    local flags="--remap-path-prefix=$PWD=tidegate --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    local directory=$target/packages-build/$layout
    say "building for $triple, layout $layout"
    TIDEGATE_LAYOUT=$layout RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_PROFILE_RELEASE_DEBUG=0 \
        cargo build --locked --release --target "$triple" --target-dir "$directory" --package tidegate >&2
    echo "$directory/$triple/release/tidegate"
}

# Copies a program without its symbols; the third argument is a strip of another architecture.
install_program() {
    install -D -m 755 "$1" "$2"
    "${3:-strip}" --strip-all --remove-section=.comment "$2"
}

# Makes a file of text: @NAME@ is replaced by the value of NAME=VALUE.
fill() {
    local from=$1 to=$2 one
    shift 2
    local rules=()
    # The delimiter is a byte that no value has: "|" is between alternatives in `Depends`.
    for one in "$@"; do rules+=(-e $'s\1'"@${one%%=*}@"$'\1'"${one#*=}"$'\1g'); done
    mkdir -p "$(dirname "$to")"
    sed "${rules[@]}" "$from" >"$to"
}

# A compressed file, without name and time.
compress() {
    mkdir -p "$(dirname "$2")"
    gzip -9 -n <"$1" >"$2"
}

# The licences of all libraries in the program: each text once, behind the names of those that have it.
dependency_licences() {
    local triple=$1 crate directory text sum
    local texts=$work/licences
    rm -rf "$texts"
    mkdir -p "$texts"
    cargo tree --locked --package tidegate --edges normal --target "$triple" --prefix none \
        --format '{p}|{l}' | sed 's/ (\*)$//' | grep -v '/tidegate-\|^tidegate' | sort -u >"$texts/list"
    printf 'Libraries in the program, with their licences:\n\n'
    sed 's/|/  /; s/ (proc-macro)//' "$texts/list"
    while IFS='|' read -r crate _; do
        set -- $crate
        for directory in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-${2#v}"; do
            for text in "$directory"/{LICEN[CS]E,COPYING,NOTICE,UNLICENSE}*; do
                [ -f "$text" ] || continue
                sum=$(sha256sum "$text" | cut -c 1-64)
                [ -e "$texts/$sum" ] || cp "$text" "$texts/$sum"
                echo "$1 ${2#v}" >>"$texts/$sum.of"
            done
        done
    done <"$texts/list"
    for text in "$texts"/*.of; do
        printf '\n%s\n' "------------------------------------------------------------------------"
        sort -u "$text" | paste -s -d ',' | sed 's/,/, /g' | fold -s -w 78
        printf '\n'
        cat "${text%.of}"
    done
}

# Sets all times of a tree to the one of the last commit.
set_times() { find "$1" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +; }

# A tar archive of a tree, the same for the same tree.
pack() {
    tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --directory "$1" "${@:2}"
}
