#!/usr/bin/env bash
# Runs Debian's cargo for a target whose standard library rustup's compiler lacks: Debian's compiler comes with
# the library's sources, so that is built too, and nothing but package registries is needed.
#
#   scripts/debian-cargo.sh DIRECTORY TARGET CRATES COMMAND ARGUMENT…
#
# DIRECTORY is cargo's home and target directory, CRATES are the needed crates of the library. Further
# variables of the environment reach cargo; FIRST_IN_PATH precedes /usr/bin in PATH.
set -euo pipefail

directory=$1 target=$2 crates=$3 command=$4
shift 4
mkdir -p "$directory/cargo"
for settings in "${CARGO_HOME:-$HOME/.cargo}"/config{.toml,}; do
    if [ -e "$settings" ]; then cp "$settings" "$directory/cargo/"; fi
done
# rustup's cargo sets variables that would select its own compiler again.
exec env --unset=RUSTUP_TOOLCHAIN --unset=RUSTC_WRAPPER --unset=RUSTFLAGS \
    PATH="${FIRST_IN_PATH:+$FIRST_IN_PATH:}/usr/bin:/bin" RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
    CARGO_HOME="$directory/cargo" CARGO_TARGET_DIR="$directory" \
    /usr/bin/cargo "$command" "-Zbuild-std=$crates" --target "$target" "$@"
