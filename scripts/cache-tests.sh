#!/usr/bin/env bash
# Runs the public test suite of HTTP caches (github.com/http-tests/cache-tests) and counts its results.
#
#   scripts/cache-tests.sh                                             the suite is cloned to target/cache-tests
#   scripts/cache-tests.sh cache-tests target/release/tidegate rfc9111
#   scripts/cache-tests.sh cache-tests /usr/sbin/nginx
#
# The suite stays outside of the repository. Needs Node.js with npm; takes about a minute and a half. Two ports
# from PORT on (18000) have to be free; everything listens on loopback.
set -euo pipefail

# Required tests that are not passed are held against tests/conformance/cache-tests.tsv, for Tidegate with nginx's rules
# (default) or with those of RFC 9111 (rfc9111); a result that is worse makes the script fail.
list=$(realpath "$(dirname "$0")/../tests/conformance/cache-tests.tsv")
suite=${1:-target/cache-tests}
if ! [ -d "$suite" ]; then
    git clone --quiet https://github.com/http-tests/cache-tests "$suite"
    git -C "$suite" checkout --quiet b55b8bda3dbb8c927c04e85bd8d496a8caa3e4ba
fi
suite=$(realpath "$suite")
[ -d "$suite/node_modules" ] || (cd "$suite" && npm install --silent)
binary=$(realpath "${2:-target/release/tidegate}")
mode=${3:-}
port=${PORT:-18000}
work=$(mktemp -d)
processes=()
finish() {
    for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
    # A server that has not ended yet still writes to its cache.
    wait
    rm -rf "$work"
}
trap finish EXIT
mkdir "$work/logs"
chmod 755 "$work"

rules=
if [ "$mode" = rfc9111 ]; then rules='proxy_cache_rfc9111 on; early_hints 1;'; fi
cat > "$work/nginx.conf" <<CONF
daemon off; error_log logs/error.log; pid nginx.pid;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    proxy_cache_path cache levels=1:2 keys_zone=cache:8m inactive=600m;
    server {
        listen 127.0.0.1:$((port + 1));
        location / {
            proxy_pass http://127.0.0.1:$port;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_cache cache;
            proxy_cache_lock on;
            proxy_cache_revalidate on;
            proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504;
            $rules
        }
    }
}
CONF

# The suite's server would listen on all addresses.
cat > "$work/loopback.mjs" <<'NODE'
import net from 'net'
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, Number(port), '127.0.0.1', ...rest.filter(item => typeof item === 'function'))
}
NODE
cat > "$work/count.mjs" <<'NODE'
import fs from 'fs'
const [suite, file, list, mode] = process.argv.slice(2)
const lines = fs.readFileSync(list, 'utf8').split('\n').filter(line => line.startsWith(`${mode}\t`))
const expected = new Map(lines.map(line => line.split('\t').slice(1, 3)))
let worse = 0
const { default: suites } = await import(`${suite}/tests/index.mjs`)
const { determineTestResult, resultTypes } = await import(`${suite}/test-engine/lib/results.mjs`)
const names = new Map(Object.entries(resultTypes).map(([name, type]) => [type, name]))
const results = JSON.parse(fs.readFileSync(file))
const counts = {}
for (const test of suites.flatMap(suite => suite.tests)) {
  if (results[test.id] === undefined) continue
  const kind = test.kind ?? 'required'
  const result = names.get(determineTestResult(suites, test.id, results))
  counts[kind] ??= {}
  counts[kind][result] = (counts[kind][result] ?? 0) + 1
  if (kind !== 'required') continue
  const known = expected.get(test.id)
  if (result === 'pass' && known) console.log('better than the list:', test.id)
  if (result === 'pass' || known === result) continue
  worse += 1
  console.log('WORSE than the list:', result, test.id, results[test.id][1] ?? '')
}
console.table(counts)
console.log(`expected differences: ${expected.size}, worse than these: ${worse}`)
process.exitCode = worse > 0 ? 1 : 0
NODE

cd "$suite"
npm_config_protocol=http npm_config_port=$port npm_config_pidfile="$work/origin.pid" \
    node --import "$work/loopback.mjs" test-engine/server/server.mjs > "$work/logs/origin.log" &
processes+=($!)
"$binary" -p "$work/" -c nginx.conf 2> "$work/logs/start.log" &
processes+=($!)
for one in "$port" $((port + 1)); do
    node -e 'const net = require("net"); const started = Date.now();
        const attempt = () => net.connect(process.argv[1], "127.0.0.1", () => process.exit(0))
            .on("error", () => Date.now() - started > 10000 ? process.exit(1) : setTimeout(attempt, 50));
        attempt()' "$one" || { cat "$work"/logs/*; exit 1; }
done
npm_package_config_id='' npm_config_id='' npm_config_base="http://127.0.0.1:$((port + 1))" \
    node --no-warnings test-engine/cli.mjs > "$work/results.json"
node "$work/count.mjs" "$suite" "$work/results.json" "$list" "${mode:-default}"
