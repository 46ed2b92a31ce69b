#!/usr/bin/env bash
# Runs nginx's own test suite (github.com/nginx/nginx-tests) against Tidegate and compares the result with the list of
# expected differences, tests/conformance/nginx-tests.tsv. Fails when a file loses more than its entry says.
#
#   scripts/nginx-tests.sh [BINARY [arguments of tests/conformance/nginx-tests.py]]
#
# BINARY defaults to target/release/tidegate. The suite stays outside of the repository: it is taken from NGINX_TESTS,
# or cloned to target/nginx-tests at the commit that the list was made for. As root each file gets namespaces of its
# own. Takes about seven minutes. Packages that parts of the suite need: build-essential perl memcached uwsgi-core
# uwsgi-plugin-psgi uwsgi-plugin-python3 ffmpeg softhsm2 opensc libengine-pkcs11-openssl libio-socket-ssl-perl
# libnet-ssleay-perl libcryptx-perl libfcgi-perl libscgi-perl libcache-memcached-perl libcache-memcached-fast-perl
# libgd-perl libprotocol-websocket-perl; and the group wheel.
set -euo pipefail
cd "$(dirname "$0")/.."

commit=76bb761cdcaeb6cb024d605c2ef91bf8d8a602d7
binary=${1:-target/release/tidegate}
suite=${NGINX_TESTS:-target/nginx-tests}
if ! [ -d "$suite" ]; then
    git clone --quiet https://github.com/nginx/nginx-tests "$suite"
    git -C "$suite" checkout --quiet "$commit"
fi
exec python3 tests/conformance/nginx-tests.py --tests "$suite" --binary "$binary" --jobs 2 --below \
    --own-name tidegate --repeated-tickets --baseline tests/conformance/nginx-baseline.tsv \
    --expected tests/conformance/nginx-tests.tsv "${@:2}"
