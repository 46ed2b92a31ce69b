#!/usr/bin/env bash
# Builds packages from this tree; `make packages`.
#
#   scripts/packages.sh [KIND…]        default: all that the tools of this machine can build, with a line for each other
#
#   deb        tidegate and nginx-tidegate for Debian and Ubuntu (also KIND deb-arm64)
#   rpm        nginx-tidegate in the layout of nginx.org
#   archive    a static program (musl) with everything below one directory
#   windows    the program for Windows
#   image      two images as OCI directories: with a shell, and without
#
# The packages are in target/packages, with SHA256SUMS. The same tree gives the same bytes: all times are that of the last
# commit (SOURCE_DATE_EPOCH). TIDEGATE_PROGRAM=FILE packs an existing program instead of building one, for trials.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/packages/common.sh
. scripts/packages/common.sh
# shellcheck source=scripts/packages/files.sh
. scripts/packages/files.sh

kinds=("$@")
# A trial takes what is there.
[ -n "${TIDEGATE_PROGRAM:-}" ] || scripts/setup.sh packages
if [ ${#kinds[@]} -eq 0 ]; then kinds=(deb deb-arm64 rpm archive windows image); fi
mkdir -p "$out"
for kind in "${kinds[@]}"; do
    case $kind in
        deb) architecture=amd64 . scripts/packages/deb.sh ;;
        deb-arm64) architecture=arm64 . scripts/packages/deb.sh ;;
        rpm | archive | windows | image) . "scripts/packages/$kind.sh" ;;
        *) echo "packages: unknown kind $kind: deb, deb-arm64, rpm, archive, windows or image" >&2; exit 2 ;;
    esac
done
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -r sha256sum >SHA256SUMS)
say "in $out:"
cat "$out/SHA256SUMS"
