// The live page in a headless Chromium: every view in light, dark and narrow, with axe-core; see scripts/dashboard.sh.
//
// node dashboard.js BINARY CHROMIUM DIRECTORY: playwright-core and axe-core are found by NODE_PATH; screenshots, the
// server's files and its configuration are below DIRECTORY.
'use strict';
const { chromium } = require('playwright-core');
const { execFileSync, spawn } = require('child_process');
const fs = require('fs'), http = require('http'), net = require('net'), path = require('path');

const [binary, browser, directory] = process.argv.slice(2);
const views = ['overview', 'servers', 'locations', 'upstreams', 'caches', 'tiers', 'slow', 'limits', 'streams', 'threads', 'tls', 'resolvers', 'memory', 'cluster', 'events'];
const hostile = '<script>alert(1)</script>';
let findings = 0;
const found = (...words) => { findings++; console.log('FOUND', ...words); };

const freePort = () => new Promise(resolve => {
  const server = net.createServer().listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

const configuration = ([front, origin, dead, session, secure]) => `
daemon off; user root; worker_processes 2; loop_watchdog 50ms; pid ${directory}/pid; error_log ${directory}/error.log;
events { }
http {
    access_log off; resolver 127.0.0.1:1 status_zone=names;
    proxy_cache_tier shared s3://bucket/pages endpoint=http://127.0.0.1:${dead};
    proxy_cache_path ${directory}/cache keys_zone=pages:2m max_size=64m;
    proxy_cache_path ${directory}/tiered keys_zone=tiered:1m tier=shared;
    proxy_cache_path ${directory}/ring keys_zone=ring:1m;
    limit_req_zone $binary_remote_addr zone=address:1m rate=20r/s;
    zone_sync_store redis://127.0.0.1:${dead};
    limit_req_zone $http_x_name zone=shared:1m rate=1r/s sync;
    slow_log ${directory}/slow.log threshold=50ms;
    upstream shop { zone shop 64k; server 127.0.0.1:${origin}; server 127.0.0.1:${dead} max_fails=1; server 127.0.0.1:${origin} backup; }
    upstream ring { zone ring 64k; server 127.0.0.1:${front} down; server 127.0.0.1:${dead}; }
    server {
        listen 127.0.0.1:${origin};
        location / { return 200 "hello\\n"; }
        location /big { limit_rate 20k; root ${directory}; }
        location /think { auth_basic closed; auth_basic_user_file ${directory}/users; auth_delay 100ms; }
    }
    server { listen 127.0.0.1:${secure} ssl; ssl_certificate ${directory}/soon.pem; ssl_certificate_key ${directory}/soon.pem; }
    server { listen 127.0.0.1:${secure} ssl; server_name a; ssl_certificate ${directory}/later.pem; ssl_certificate_key ${directory}/later.pem; }
    server {
        listen 127.0.0.1:${front}; status_zone shop;
        location /api { api write=on show_keys=on; }
        location = /status { dashboard /api; }
        location /hostile { status_zone $arg_z zone=rest:20; return 200; }
        location /limited { status_zone limited; limit_req zone=address; proxy_pass http://127.0.0.1:${origin}/; }
        location /keyed { limit_req zone=shared burst=5 nodelay; proxy_pass http://127.0.0.1:${origin}/; }
        location /tiered { proxy_pass http://127.0.0.1:${origin}/; proxy_cache tiered; proxy_cache_valid 200 1s; }
        location /ring { proxy_pass http://127.0.0.1:${origin}/; proxy_cache ring; proxy_cache_peers ring self=127.0.0.1:${front}; proxy_cache_valid 200 1s; }
        location /broken { status_zone broken; return 502; }
        location / { status_zone pages; proxy_pass http://shop; proxy_cache pages; proxy_cache_valid 200 1s; }
    }
}
stream {
    upstream s { zone s 64k; server 127.0.0.1:${origin}; }
    server { listen 127.0.0.1:${session}; status_zone sessions; proxy_pass s; }
}
`;

const get = (port, target) => new Promise((resolve, reject) => {
  http.get({ port, host: '127.0.0.1', path: target, headers: { 'X-Name': hostile } }, response => {
    let text = '';
    response.on('data', piece => { text += piece; }).on('end', () => resolve(text));
  }).on('error', reject);
});

const main = async () => {
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(path.join(directory, 'logs'), { recursive: true });
  const ports = [await freePort(), await freePort(), await freePort(), await freePort(), await freePort()], [front] = ports;
  fs.writeFileSync(path.join(directory, 'big'), Buffer.alloc(4 << 20));
  fs.writeFileSync(path.join(directory, 'users'), '');
  for (const [name, days] of [['soon', 2], ['later', 300]]) {
    const file = path.join(directory, name + '.pem'), subject = `/CN=${name}.example.com`;
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', days, '-subj', subject, '-keyout', file + '.key', '-out', file], { stdio: 'ignore' });
    fs.appendFileSync(file, fs.readFileSync(file + '.key'));
  }
  fs.writeFileSync(path.join(directory, 'nginx.conf'), configuration(ports));
  const server = spawn(binary, ['-p', directory, '-c', path.join(directory, 'nginx.conf')], { stdio: 'inherit' });
  let ended = false;
  server.on('exit', () => { ended = true; });
  for (;;) {
    if (ended) throw new Error('the server does not start');
    if (await get(front, '/api/9/nginx').catch(() => null)) break;
  }
  let loading = true;
  const targets = ['/a', '/b', '/limited', '/broken', '/think', '/keyed', '/tiered', '/ring', '/hostile?z=' + encodeURIComponent('"><img src=x onerror=alert(1)>'), '/hostile?z=' + hostile];
  const load = (async () => {
    for (let at = 0; loading; at++) {
      await get(front, targets[at % targets.length]).catch(() => null);
      await new Promise(resolve => setTimeout(resolve, 5));
    }
  })();
  // A fetch for the cache that goes on, with followers.
  const followers = ['/big', '/big', '/big', '/big?' + encodeURIComponent(hostile)].map(target => http.get({ port: front, host: '127.0.0.1', path: target }, response => response.resume().on('error', () => {})).on('error', () => {}));
  const chrome = await chromium.launch({ executablePath: browser, args: ['--no-sandbox'] });
  const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  try {
    const kinds = { light: [1280, 900, 'light'], dark: [1280, 900, 'dark'], narrow: [320, 800, 'light'] };
    for (const [kind, [width, height, colorScheme]] of Object.entries(kinds)) {
      // axe-core is evaluated in the page, which the page's policy forbids: a second run is without it.
      for (const bypassCSP of [false, true]) {
        const context = await chrome.newContext({ viewport: { width, height }, colorScheme, bypassCSP });
        const page = await context.newPage();
        page.on('console', message => ['error', 'warning'].includes(message.type()) && found(kind, 'console:', message.text()));
        page.on('pageerror', error => found(kind, 'error:', error.message));
        page.on('dialog', dialog => { found(kind, 'a name was run:', dialog.message()); dialog.dismiss(); });
        page.on('request', request => new URL(request.url()).port === String(front) || found(kind, 'asks', request.url()));
        await page.goto(`http://127.0.0.1:${front}/status`);
        await page.waitForFunction(() => document.querySelector('#state').textContent === 'live');
        if (bypassCSP) await page.addScriptTag({ content: axe });
        for (const view of views) {
          await page.evaluate(name => { location.hash = name; }, view);
          await page.waitForSelector(`nav a[href="#${view}"][aria-current=page]`);
          await page.waitForFunction(() => ![...document.querySelectorAll('#main > section, #main > div, #main > dl')].every(element => element.hidden));
          if (bypassCSP) {
            const { violations } = await page.evaluate(() => window.axe.run(document));
            violations.forEach(one => found(kind, view, one.id, one.nodes[0].html.slice(0, 200)));
          } else {
            await page.screenshot({ path: path.join(directory, `${view}-${kind}.png`), fullPage: true });
            if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) found(kind, view, 'is wider than the window');
          }
        }
        await context.close();
      }
    }
    const page = await chrome.newPage();
    await page.goto(`http://127.0.0.1:${front}/status#locations`);
    await page.waitForFunction(name => [...document.querySelectorAll('tbody th')].some(cell => cell.textContent === name), hostile);
    await page.goto(`http://127.0.0.1:${front}/status#upstreams`);
    await page.selectOption(`select[aria-label="State of 127.0.0.1:${ports[1]}"]`, 'down');
    for (let state; state !== 'down';) state = JSON.parse(await get(front, '/api/9/http/upstreams/shop')).peers[0].state;
    // What has happened, what is being fetched, and what was slow.
    await page.goto(`http://127.0.0.1:${front}/status#events`);
    await page.waitForFunction(() => document.querySelector('#alarms').textContent.includes('soon.pem'));
    await page.waitForFunction(name => [...document.querySelectorAll('tbody th')].some(cell => cell.textContent.startsWith(name)), 'shop: server errors');
    await page.goto(`http://127.0.0.1:${front}/status#caches`);
    await page.waitForFunction(() => [...document.querySelectorAll('tbody tr')].some(row => row.cells[3] && row.cells[3].textContent === '3'));
    // A tier and a peer that do not respond: their failures are counted, and the reason is shown.
    await page.goto(`http://127.0.0.1:${front}/status#tiers`);
    const cell = (table, head) => page.waitForFunction(([table, head]) => {
      const shown = [...document.querySelectorAll('#main table')].find(one => one.caption.textContent === table);
      const at = shown ? [...shown.tHead.rows[0].cells].findIndex(one => one.textContent === head) : -1;
      return at >= 0 && [...shown.tBodies[0].rows].some(row => !['0', '–', ''].includes(row.cells[at].textContent));
    }, [table, head]);
    for (const head of ['Failures', 'Reason']) await cell('Second tiers', head);
    for (const head of ['Asked', 'Failures']) await cell('Rings', head);
    await page.goto(`http://127.0.0.1:${front}/status#slow`);
    await page.waitForFunction(() => [...document.querySelectorAll('tbody td')].some(cell => cell.textContent.startsWith('origin thinks ')));
    await page.goto(`http://127.0.0.1:${front}/status#limits`);
    await page.waitForFunction(name => [...document.querySelectorAll('tbody td')].some(cell => cell.textContent === name), hostile);
    await page.keyboard.press(']');
    await page.waitForSelector('nav a[href="#streams"][aria-current=page]');
    await page.keyboard.press('1');
    await page.waitForSelector('nav a[href="#overview"][aria-current=page]');
    // A page that was just opened has the past.
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll('.chart path[d*="L"]').length > 0);
  } finally {
    loading = false;
    await load;
    followers.forEach(request => request.destroy());
    await chrome.close();
    server.kill('SIGTERM');
  }
  console.log(`${views.length} views in light, dark and narrow: ${findings} findings; screenshots are in ${directory}`);
};
main().then(() => { process.exitCode = findings ? 1 : 0; }, error => { console.error(error); process.exit(1); });
