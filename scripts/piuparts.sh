#!/usr/bin/env bash
# Runs piuparts on Debian's packages: installing, upgrading and purging them leaves nothing behind and breaks nothing.
#
#   scripts/piuparts.sh
#   SUITE=trixie            Debian 13 in place of 12
#
# Its own Debian is made from Debian's packages in each run, inside the one of scripts/packages/machine.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
name=piuparts
# shellcheck source=scripts/packages/machine.sh
. scripts/packages/machine.sh
make_base
add_to_base piuparts piuparts
cp "$(deb tidegate)" "$(deb nginx-tidegate)" "$base/root/"
# A mount table and processes of its own, which end with it.
inside() { unshare --mount --pid --fork --kill-child chroot "$base" sh -c "mount -t proc proc /proc && cd /root && $1"; }
# The archive that the system itself was made from.
mirror=$(sed -n 's/^deb \(http[^ ]*\) .*/\1/p' "$base/etc/apt/sources.list" | head -n 1)
check "piuparts on tidegate and nginx-tidegate" inside \
    "piuparts --distribution $suite --mirror '$mirror main' tidegate_*.deb nginx-tidegate_*.deb"
rm -f "$base"/root/*.deb
[ "$failed" -eq 0 ]
