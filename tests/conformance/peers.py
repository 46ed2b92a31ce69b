#!/usr/bin/env python3
"""Runs clients and origins of others against Tidegate: curl, Go, Node.js, Python (h2, hypercorn).

    peers.py --go PROGRAM --python PYTHON --binary tidegate [--only REGEX]

PROGRAM is peers/peer.go, built; PYTHON has h2 and hypercorn. Each client, plain and over TLS, does the cases below
through each origin by HTTP/1.1 and by HTTP/2. A case is client/transport/origin-version/name:

    get get-large post-large post-unsized echo-large range not-modified head trailers request-trailers hints
    fields (6 KB of cookies each way) streams (300) cancel (10 endless responses) goaway (by the origin)
    reload (three, a response in the middle) quit (a response in the middle; GOAWAY)

The paths of an origin: /small, /large (10 MB, ranges, ETag "v1"), /echo, /digest (SHA-256 of the body), /trailers,
/hints (103), /fields, /endless?KEY with /cancelled?KEY (how many clients left), /hold?KEY until /release?KEY, /goaway.
peers.tsv lists the cases that do not pass, each with the reason.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys

from harness import HERE, Server, Table, certificate, free_ports, listens, wait_for

# Seconds for all cases of a client through an origin.
SECONDS = 200
LARGE = bytes((i * 7 // 5) & 255 for i in range(10 << 20))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--go", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    programs = {
        "go": [options.go],
        "node": ["node", "--no-warnings", HERE / "peers" / "peer.mjs"],
        "python": [options.python, HERE / "peers" / "peer.py"],
    }
    table = Table("peers.tsv")
    ports = dict(zip(programs, free_ports(len(programs))))
    origins = [subprocess.Popen([*programs[name], "origin", f"127.0.0.1:{port}"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for name, port in ports.items()]
    try:
        for name, port in ports.items():
            wait_for(lambda: listens(port), f"the origin {name} listens")
        runs = [(client, transport, origin, version)
                for client in [*programs, "curl"] for transport in ("plain", "tls")
                for origin in ports for version in ("1.1", "2")
                if re.search(options.only, f"{client}/{transport}/{origin}-{version}")
                # Without TLS the origin of Node.js has HTTP/2 alone.
                and (origin, version) != ("node", "1.1")]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for rows in pool.map(lambda run: one(options.binary, programs, ports, *run), runs):
                for row in rows:
                    table.add(*row)
    finally:
        for process in origins:
            process.kill()
            process.wait()
    return table.finish()


def one(binary, programs, ports, client, transport, origin, version):
    """Starts a server for a client, which the client ends, and returns the rows of its cases."""
    plain, tls = free_ports(2)
    http = f"""
    large_client_header_buffers 4 32k; client_max_body_size 20m;
    upstream origin {{ server 127.0.0.1:{ports[origin]}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl; http2 on;
        ssl_certificate rsa.crt; ssl_certificate_key rsa.key;
        location / {{
            proxy_pass http://origin; proxy_http_version {version}; proxy_set_header Connection "";
            proxy_buffer_size 32k; proxy_buffers 8 32k;
            proxy_pass_trailers on; proxy_set_header TE trailers; early_hints 1;
        }}
        location = /echo {{
            proxy_pass http://origin; proxy_http_version {version}; proxy_set_header Connection "";
            proxy_request_buffering off; proxy_buffering off;
        }}
    }}"""
    prefix = f"{client}/{transport}/{origin}-{version}/"
    rows = []
    with Server(binary, http, [plain, tls], [lambda to: certificate(to, "rsa")]) as server:
        url = f"http://127.0.0.1:{plain}" if transport == "plain" else f"https://127.0.0.1:{tls}"
        if client == "curl":
            rows = curl(url, server)
        else:
            rows = program(programs[client], url, f"http://127.0.0.1:{ports[origin]}", server)
        log = server.log() + server.log("start.log")
        trouble = re.findall(r".*(?:panicked|\[alert\]|\[crit\]|\[emerg\]).*", log)
        rows.append(("server-log", "fail" if trouble else "pass", "; ".join(trouble[:3])))
        try:
            if client == "curl":
                server.signal(signal.SIGQUIT)
            status = server.process.wait(20)
            rows.append(("ends", "pass" if status == 0 else "fail", f"status {status}"))
        except subprocess.TimeoutExpired:
            rows.append(("ends", "fail", "still runs"))
        if any(row[1] == "fail" for row in rows) and os.environ.get("OUTPUT"):
            pathlib.Path(os.environ["OUTPUT"], prefix.replace("/", "_")).write_text(log)
    return [(prefix + name, result, detail) for name, result, detail in rows]


def program(command, url, origin_url, server):
    try:
        done = subprocess.run([*command, "client", url, origin_url, str(server.process.pid)], capture_output=True,
                              text=True, timeout=SECONDS)
        output, error = done.stdout, done.stderr
        if done.returncode == 0:
            error = ""
    except subprocess.TimeoutExpired as late:
        output, error = (late.stdout or b"").decode(), f"no end within {SECONDS} s"
    rows = [tuple(line.split("\t")) for line in output.splitlines() if line.count("\t") == 2]
    rows.append(("client", "fail" if error else "pass", " ".join(error.split())[-300:]))
    return rows


def curl(url, server):
    """The cases that curl can do, one process each; and h2load for many streams on many connections."""
    http2 = ["--http2"] if url.startswith("https") else ["--http2-prior-knowledge"]
    upload = server.directory / "upload"
    upload.write_bytes(LARGE)
    digest = hashlib.sha256(LARGE).hexdigest().encode()

    def call(*arguments):
        done = subprocess.run(["curl", "-sSk", *http2, *map(str, arguments)], capture_output=True, timeout=100)
        return done.stdout, done.stderr.decode()

    rows = []

    def case(name, got, wanted, error=""):
        good = got == wanted if not callable(wanted) else wanted(got)
        rows.append((name, "pass" if good else "fail", "" if good else f"{got[-200:]!r} {error}".replace("\t", " ")))

    case("get", *reversed((b"small\n2", call("-w", "%{http_version}", f"{url}/small")[0])))
    case("get-large", call(f"{url}/large")[0], LARGE)
    case("post-large", call("--data-binary", f"@{upload}", f"{url}/digest")[0], digest)
    case("post-unsized", call("-T", "-", "-X", "POST", f"{url}/digest")[0], hashlib.sha256().hexdigest().encode())
    case("put-large", call("-T", upload, f"{url}/echo")[0], LARGE)
    case("range", call("-r", "1000-1999", f"{url}/large")[0], LARGE[1000:2000])
    case("not-modified", call("-w", "%{http_code}", "-H", 'If-None-Match: "v1"', f"{url}/small")[0], b"304")
    head = call("-I", f"{url}/large")[0]
    case("head", head, lambda got: b"content-length: 10485760" in got.lower())
    case("hints", call("-v", f"{url}/hints")[1], lambda got: "HTTP/2 103" in got and "HTTP/2 200" in got)
    case("trailers", call("-v", f"{url}/trailers")[1], lambda got: "x-sum: 42" in got.lower())
    cookies = "; ".join(f"c{i}={'x' * 100}" for i in range(60))
    case("fields", call("-H", f"Cookie: {cookies}", f"{url}/fields")[0], cookies.encode())
    text = call("-Z", "--parallel-max", "100", f"{url}/small?[1-100]")[0]
    case("streams", text, b"small\n" * 100)
    load = subprocess.run(["h2load", "-n", "1000", "-c", "4", "-m", "50", f"{url}/small"], capture_output=True,
                          text=True, timeout=100)
    case("h2load", load.stdout, lambda got: "1000 succeeded, 0 failed" in got)
    load = subprocess.run(["h2load", "-n", "40", "-c", "2", "-m", "10", "-d", upload, f"{url}/digest"],
                          capture_output=True, text=True, timeout=100)
    case("h2load-upload", load.stdout, lambda got: "40 succeeded, 0 failed" in got)
    return rows


if __name__ == "__main__":
    sys.exit(main())
