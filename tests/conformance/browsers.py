#!/usr/bin/env python3
"""Has headless browsers load a page from Tidegate over TLS: 200 images, 5 MB up and down, a WebSocket.

    browsers.py --python PYTHON --binary tidegate [--only chromium] BROWSER...

BROWSER is a program whose name has `chromium` or `firefox` in it; PYTHON has hypercorn, whose application echoes. The
page reports by a request, whose line in the access log is the result. A case is browser/name. With
http2_extended_connect the WebSocket has to be a stream of the page's connection, else a connection of its own.
browsers.tsv lists the cases that do not pass, each with the reason.
"""

import argparse
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

from harness import HERE, Server, Table, certificate, free_ports, listens, wait_for

IMAGES = 200
SECONDS = 90
PAGE = """<!doctype html><link rel="icon" href="data:,"><body><script>
const result = {}
const image = i => new Promise((resolve, reject) => {
  const element = new Image()
  element.onload = () => resolve(element.naturalWidth)
  element.onerror = () => reject(new Error(`image ${i}`))
  element.src = `/images/${i}.svg`
  document.body.append(element)
})
const step = async (name, work) => {
  try { result[name] = await work() } catch (error) { result[name] = String(error) }
}
const socket = () => new Promise((resolve, reject) => {
  const socket = new WebSocket(`wss://${location.host}/socket`)
  let received = 0
  socket.onopen = () => { for (let i = 0; i < 100; i++) socket.send('x'.repeat(1000) + i) }
  socket.onmessage = ({ data }) => {
    if (data !== 'x'.repeat(1000) + received) reject(new Error(data))
    received += 1
    if (received === 100) socket.close()
  }
  socket.onerror = () => reject(new Error('socket'))
  socket.onclose = event => resolve(`${received} ${event.wasClean}`)
})
;(async () => {
  await step('images', async () => (await Promise.all(Array.from({ length: IMAGES }, (_, i) => image(i)))).length)
  await step('protocols', async () => {
    const entries = performance.getEntriesByType('resource').filter(entry => /images/.test(entry.name))
    return [...new Set(entries.map(entry => entry.nextHopProtocol))].join()
  })
  const body = new Uint8Array(5 << 20).map((_, i) => i * 7 / 5)
  await step('echo', async () => {
    const echoed = new Uint8Array(await (await fetch('/echo', { method: 'POST', body })).arrayBuffer())
    return echoed.length === body.length && echoed.every((byte, i) => byte === body[i])
  })
  await step('cached', async () => (await fetch('/images/1.svg', { cache: 'no-cache' })).status)
  await step('aborted', async () => {
    const control = new AbortController()
    const response = await fetch('/large', { signal: control.signal })
    await response.body.getReader().read()
    control.abort()
    return (await fetch('/images/2.svg')).status
  })
  await step('socket', socket)
  await fetch('/report?' + encodeURIComponent(JSON.stringify(result)))
})()
</script>""".replace("IMAGES", str(IMAGES))
WANTED = {"images": IMAGES, "protocols": "h2", "echo": True, "cached": 200, "aborted": 200, "socket": "100 true"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("browsers", nargs="+")
    options = parser.parse_args()
    table = Table("browsers.tsv")
    (origin_port,) = free_ports(1)
    origin = subprocess.Popen([options.python, HERE / "peers" / "peer.py", "origin", f"127.0.0.1:{origin_port}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(origin_port), "the origin listens")
        for browser in options.browsers:
            for streams in ("off", "on"):
                name = f"{pathlib.Path(browser).name}/socket-by-{'h2' if streams == 'on' else 'h1'}"
                for case, result, detail in visit(options.binary, browser, origin_port, streams):
                    table.add(f"{name}/{case}", result, detail)
    finally:
        origin.kill()
        origin.wait()
    return table.finish()


def files(directory):
    certificate(directory, "rsa")
    html = directory / "html"
    (html / "index.html").write_text(PAGE)
    (html / "images").mkdir()
    for i in range(IMAGES):
        (html / "images" / f"{i}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>{"y" * 2000}{i}</title></svg>')


def visit(binary, browser, origin_port, streams):
    """Starts a server and a browser; returns the rows of the page's report and of the server's log."""
    (port,) = free_ports(1)
    extended = f"http2_extended_connect {streams};" if streams == "on" else ""
    http = f"""
    types {{ text/html html; image/svg+xml svg; }}
    log_format visits '$server_protocol $status $connection $ssl_curve $request_uri';
    server {{
        listen 127.0.0.1:{port} ssl; http2 on; {extended} access_log logs/visits.log visits;
        ssl_certificate rsa.crt; ssl_certificate_key rsa.key; client_max_body_size 20m;
        location = /report {{ return 204; }}
        location ~ ^/(echo|large)$ {{
            proxy_pass http://127.0.0.1:{origin_port}; proxy_request_buffering off; proxy_buffering off;
            proxy_http_version 1.1;
        }}
        location = /socket {{
            proxy_pass http://127.0.0.1:{origin_port}; proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
        }}
    }}"""
    with Server(binary, http, [port], [files]) as server, tempfile.TemporaryDirectory() as profile:
        url = f"https://127.0.0.1:{port}/"
        start = firefox if "firefox" in browser else chromium
        process = start(browser, url, pathlib.Path(profile))
        try:
            def reported():
                return re.search(r"/report\?(\S+)", server.log("visits.log"))

            end = time.monotonic() + SECONDS
            while not (found := reported()) and time.monotonic() < end and process.poll() is None:
                time.sleep(0.1)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not found:
            return [("report", "fail", f"none within {SECONDS} s; visits: {server.log('visits.log')[-500:]}")]
        server.signal(signal.SIGQUIT)
        ended = server.process.wait(20) == 0
        return judge(json.loads(urllib.parse.unquote(found.group(1))), server, streams, ended)


def judge(report, server, streams, ended):
    rows = [(name, "pass" if report.get(name) == wanted else "fail", f"{report.get(name)}")
            for name, wanted in WANTED.items()]
    visits = [line.split(" ", 4) for line in server.log("visits.log").splitlines()]
    connections = {line[2] for line in visits if line[4].startswith("/images/")}
    rows.append(("one-connection", "pass" if len(connections) == 1 else "fail", f"{len(connections)}"))
    groups = {line[3] for line in visits}
    rows.append(("group", "pass" if groups == {"X25519MLKEM768"} else "fail", f"{groups}"))
    sockets = [line[0] for line in visits if line[4] == "/socket"]
    wanted = ["HTTP/2.0" if streams == "on" else "HTTP/1.1"]
    rows.append(("socket-protocol", "pass" if sockets == wanted else "fail", f"{sockets}"))
    log = server.log() + server.log("start.log")
    trouble = re.findall(r".*(?:panicked|\[alert\]|\[crit\]|invalid HTTP/2|invalid request).*", log)
    rows.append(("server-log", "fail" if trouble else "pass", "; ".join(trouble[:3])))
    rows.append(("server-ends", "pass" if ended else "fail", ""))
    return rows


def chromium(browser, url, profile, more=()):
    arguments = ["--headless", "--disable-gpu", "--ignore-certificate-errors", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
                 f"--user-data-dir={profile}"]
    # The sandbox refuses to run as root.
    return subprocess.Popen([browser, *arguments, *more, "--no-sandbox", url],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def firefox(browser, url, profile):
    """Starts Firefox, and has it accept any certificate, by its own remote protocol (Marionette)."""
    (port,) = free_ports(1)
    (profile / "user.js").write_text(f"""
user_pref("marionette.port", {port});
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.enabled", false);
""")
    process = subprocess.Popen([browser, "--headless", "--no-remote", "--marionette", "--profile", str(profile)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            # The setting ends with the connection, which the process keeps.
            process.control = socket.create_connection(("127.0.0.1", port), timeout=60)
            message(process.control)
            send(process.control, 1, "WebDriver:NewSession",
                 {"acceptInsecureCerts": True, "pageLoadStrategy": "none"})
            send(process.control, 2, "WebDriver:Navigate", {"url": url})
            return process
        except OSError:
            time.sleep(0.2)
    return process


def send(control, number, name, arguments):
    text = json.dumps([0, number, name, arguments])
    control.sendall(f"{len(text)}:{text}".encode())
    message(control)


def message(control):
    """Reads a message: its length, a colon, the text."""
    length = b""
    while (byte := control.recv(1)) not in (b":", b""):
        length += byte
    text = b""
    while len(text) < int(length):
        text += control.recv(int(length) - len(text))
    return json.loads(text)


if __name__ == "__main__":
    sys.exit(main())
