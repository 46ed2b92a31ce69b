#!/usr/bin/env python3
"""Runs HTTP/3 clients of others against Tidegate: aioquic, ngtcp2's gtlsclient, quic-go, Chromium.

    h3-clients.py --python PYTHON --go PROGRAM --binary tidegate [--server nginx] [--only REGEX] [--browser CHROMIUM]

PYTHON has aioquic and hypercorn, PROGRAM is peers/h3, built. With `--server nginx` BINARY is an nginx with HTTP/3, and
its list is h3-clients-nginx.tsv. A case is client/name. Each client does these, as far as it can:

    get get-large head range missing upload (5 MB) upload-unsized echo (5 MB both ways) fields (6 KB of cookies, twice)
    streams (300) mixed (three downloads and three uploads at once) cancel (20 downloads after their first bytes)
    abandon (300 at once, before the server has their heads)
    key-update migration (another socket and connection number) rebinding (another socket alone, as by a NAT)
    resumption early-data retry (`quic_retry on`) version (an unknown one first) chacha20 loss (2 % each way)

A client prints its transcript: a line `METHOD PATH STATUS LENGTH DIGEST` for each response, and a line for each other
fact. A case passes if the transcript is the expected one, the access log has the same requests by HTTP/3.0, and the
client has ended well. Chromium loads the page of browsers.py.
"""

import argparse
import base64
import collections
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

import browsers
from harness import HERE, Server, Table, certificate, free_ports, listens, wait_for

SECONDS = 90
SMALL = b"small\n"
LARGE = bytes((i * 7 // 5) & 255 for i in range(10 << 20))
UPLOAD = LARGE[:5 << 20]


def line(method, path, status, body):
    return f"{method} {path} {status} {len(body)} {hashlib.sha256(body).hexdigest()[:16]}"


GET = line("GET", "/small", 200, SMALL)
GET_LARGE = line("GET", "/large", 200, LARGE)
DIGEST = line("POST", "/digest", 200, hashlib.sha256(UPLOAD).hexdigest().encode())
# The transcript of each case.
EXPECTED = {
    "get": [GET],
    "get-large": [GET_LARGE],
    "head": [line("HEAD", "/large", 200, b""), f"content-length {len(LARGE)}"],
    "range": [line("GET", "/large", 206, LARGE[1000:2000])],
    "missing": [line("GET", "/none", 404, b"none\n")],
    "upload": [DIGEST],
    "upload-unsized": [DIGEST],
    "echo": [line("POST", "/echo", 200, UPLOAD)],
    "fields": [GET] * 2,
    "streams": [GET] * 300,
    "mixed": [GET_LARGE] * 3 + [DIGEST] * 3,
    "cancel": [GET],
    "abandon": [GET],
    "key-update": [GET_LARGE] * 3,
    "migration": [GET_LARGE, GET],
    "rebinding": [GET_LARGE, GET],
    "resumption": [GET, GET, "resumed true"],
    "early-data": [GET, GET, "resumed true", "early data true"],
    "retry": [GET],
    "version": [GET],
    "chacha20": [GET_LARGE],
    "loss": [GET_LARGE],
}
# Requests in the access log that are in no transcript.
CANCELLED = {"cancel": ["/large"] * 20}
# Those that may be in it.
ABANDONED = {"abandon": "/large"}
# ngtcp2's client: options, requests, further facts of the transcript with the pattern in its output.
NGTCP2 = {
    "get": ([], ["/small"], {}),
    "get-large": ([], ["/large"], {}),
    "missing": ([], ["/none"], {}),
    "upload": (["-m", "POST", "-d", "UPLOAD"], ["/digest"], {}),
    "echo": (["-m", "POST", "-d", "UPLOAD"], ["/echo"], {}),
    "streams": ([], ["/small"] * 300, {}),
    "key-update": (["--key-update=10ms"], ["/large"] * 3, {"server's new keys": r"pkt rx .*type=1RTT k=1"}),
    "migration": (["--change-local-addr=10ms"], ["/large", "/small"],
                  {"path validated": r"Path validation against path .* succeeded"}),
    "retry": ([], ["/small"], {"retry": r"type=Retry"}),
    "chacha20": (["--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305"], ["/large"], {}),
    "loss": (["-t", "0.02", "-r", "0.02"], ["/large"], {}),
    "resumption": (["--disable-early-data"], ["/small"], {}),
    "early-data": ([], ["/small"], {}),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--go", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--server", choices=["tidegate", "nginx"], default="tidegate")
    parser.add_argument("--browser")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    table = Table("h3-clients.tsv" if options.server == "tidegate" else "h3-clients-nginx.tsv")
    (origin_port,) = free_ports(1)
    origin = subprocess.Popen([options.python, HERE / "peers" / "peer.py", "origin", f"127.0.0.1:{origin_port}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(origin_port), "the origin listens")
        for name, result, detail in clients(options, origin_port):
            table.add(name, result, detail)
        if options.browser and re.search(options.only, "chromium"):
            for name, result, detail in visit(options, origin_port):
                table.add(f"chromium/{name}", result, detail)
    finally:
        origin.kill()
        origin.wait()
    return table.finish()


def start(options, http, ports, files):
    # Without `quic_bpf` the packets of a client that migrates reach any of nginx's workers.
    workers = 1 if options.server == "nginx" else 2
    return Server(options.binary, http, ports, [lambda to: certificate(to, "rsa"), *files], workers=workers)


def documents(directory):
    (directory / "html" / "small").write_bytes(SMALL)
    (directory / "html" / "large").write_bytes(LARGE)


def clients(options, origin_port):
    """Runs all cases of the programs on one server; yields their rows."""
    port, retry = free_ports(2)
    common = f"""
        ssl_certificate rsa.crt; ssl_certificate_key rsa.key; ssl_early_data on;
        large_client_header_buffers 4 32k; client_max_body_size 20m; access_log logs/visits.log visits;
        location = /none {{ return 404 "none\\n"; }}
        location ~ ^/(echo|digest)$ {{
            proxy_pass http://127.0.0.1:{origin_port}; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_request_buffering off; proxy_buffering off;
        }}"""
    http = f"""
    log_format visits '$request_uri $server_protocol $status';
    server {{ listen 127.0.0.1:{port} quic reuseport; listen 127.0.0.1:{port} ssl; {common} }}
    server {{ listen 127.0.0.1:{retry} quic reuseport; listen 127.0.0.1:{retry} ssl; quic_retry on; {common} }}"""
    python = [options.python, HERE / "peers" / "h3.py"]
    names = {"aioquic": names_of(python), "quic-go": names_of([options.go]), "ngtcp2": list(NGTCP2)}
    with start(options, http, [port, retry], [documents]) as server:
        for client, cases in names.items():
            for case in [*cases, *(["retry"] if client != "ngtcp2" else [])]:
                if not re.search(options.only, f"{client}/{case}"):
                    continue
                to, inner = (retry, "get") if case == "retry" else (port, case)
                before = len(server.log("visits.log"))
                if client == "ngtcp2":
                    for attempt in range(ATTEMPTS):
                        inner = f"{case}-{attempt}"
                        result = ngtcp2(to, case, f"ngtcp2-{inner}")
                        if result != BOTH_UPDATE:
                            break
                else:
                    result = program({"aioquic": python, "quic-go": [options.go]}[client], to, inner)
                yield f"{client}/{case}", *judge(server, case, f"?{client}-{inner}", before, *result)
        log = server.log() + server.log("start.log")
        trouble = re.findall(r".*(?:panicked|\[alert\]|\[crit\]|\[emerg\]).*", log)
        yield "server-log", "fail" if trouble else "pass", "; ".join(trouble[:3])
        if os.environ.get("OUTPUT"):
            pathlib.Path(os.environ["OUTPUT"]).write_text(log)


def names_of(command):
    return subprocess.run([*command, "cases"], capture_output=True, text=True, check=True).stdout.split()


def program(command, port, case):
    """Returns a client's transcript, and its error."""
    try:
        done = subprocess.run([*map(str, command), str(port), case], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [], f"no end within {SECONDS} s"
    # Python and Go have different words for truth.
    transcript = done.stdout.replace("True", "true").replace("False", "false").splitlines()
    return transcript, "" if done.returncode == 0 else " ".join(done.stderr.split())[-200:] or "failed"


# The server has begun to use new keys a moment before the client wanted to, and the client gives up (RFC 9001 section 6.1
# has it wait). A server does so at random, once in the first thousand packets.
BOTH_UPDATE = [], "both sides update their keys"
ATTEMPTS = 10


def ngtcp2(port, case, mark):
    """Returns the transcript of ngtcp2's client, from its output and from the files that it has written."""
    arguments, paths, facts = NGTCP2[case]
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "upload").write_bytes(UPLOAD)
        arguments = [str(directory / "upload") if each == "UPLOAD" else each for each in arguments]
        session = case in ("resumption", "early-data")
        if session:
            arguments += [f"--session-file={directory}/session", f"--tp-file={directory}/parameters"]
        transcript = []
        for visit in range(2 if session else 1):
            # Each response is a file of its own.
            names = [f"{path[1:]}?{mark}&{visit}-{index}" for index, path in enumerate(paths)]
            command = ["gtlsclient", "--exit-on-all-streams-close", "--no-quic-dump", "--no-http-dump",
                       f"--download={directory}", *arguments, "127.0.0.1", str(port),
                       *(f"https://localhost/{name}" for name in names)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return [], f"no end within {SECONDS} s"
            output = done.stdout + done.stderr
            if "ngtcp2_conn_initiate_key_update: ERR_INVALID_STATE" in output:
                return BOTH_UPDATE
            statuses = dict(re.findall(r"http: stream 0x([0-9a-f]+) \[:status: ([2-5]\d\d)\]", output))
            method = "POST" if "POST" in arguments else "GET"
            for index, (path, name) in enumerate(zip(paths, names)):
                file = directory / name
                body = file.read_bytes() if file.exists() else b""
                transcript.append(line(method, path, statuses.get(f"{4 * index:x}", "none"), body))
            if done.returncode != 0:
                return transcript, output[-200:].replace("\n", " ")
        transcript += [fact for fact, pattern in facts.items() if re.search(pattern, output)]
        if session:
            # A server's certificate is sent only in a full handshake.
            transcript.append("resumed true" if not re.search(r"[Cc]ertificate", handshake(output)) else "resumed false")
        if case == "early-data":
            early = "type=0RTT" in output and "Early data was rejected" not in output
            transcript.append("early data true" if early else "early data false")
        return transcript, ""


def handshake(output):
    """The client's report about the session, as far as it has one."""
    return "\n".join(re.findall(r".*(?:[Cc]ertificate|resum).*", output))


def judge(server, case, mark, before, transcript, error):
    """Returns the result of a case: its transcript, and the server's."""
    expected = sorted(EXPECTED[case] + ([*NGTCP2[case][2]] if mark.startswith("?ngtcp2") else []))
    if mark.startswith("?ngtcp2-migration"):
        expected = sorted([GET_LARGE, GET, *NGTCP2[case][2]])
    if error or sorted(transcript) != expected:
        return "fail", f"{error} {difference(transcript, expected)}".strip()
    requests = [each.split(" ") for each in transcript if each.split(" ")[0] in ("GET", "POST", "HEAD")]
    wanted = sorted([(path, status) for _, path, status, *_ in requests]
                    + [(path, "any") for path in CANCELLED.get(case, [])])

    def logged():
        visits = [each.split(" ") for each in server.log("visits.log")[before:].splitlines()]
        visits = [(path, protocol, status) for path, protocol, status in visits
                  if mark in path and path.split("?")[0] != ABANDONED.get(case)]
        if any(protocol != "HTTP/3.0" for _, protocol, _ in visits):
            return visits
        paths = [(path.split("?")[0], status) for path, _, status in visits]
        any_of = CANCELLED.get(case, [])
        return sorted((path, "any" if path in any_of else status) for path, status in paths)

    try:
        wait_for(lambda: logged() == wanted, "the access log")
    except TimeoutError:
        return "fail", f"access log: {difference(map(str, logged()), map(str, wanted))}"
    return "pass", ""


def difference(got, wanted):
    got, wanted = collections.Counter(got), collections.Counter(wanted)
    return f"more: {dict(got - wanted)}, missing: {dict(wanted - got)}"


def visit(options, origin_port):
    """Has Chromium load the page of browsers.py by HTTP/3; returns the rows of its report and of the server's log."""
    (port,) = free_ports(1)
    http = f"""
    types {{ text/html html; image/svg+xml svg; }}
    log_format visits '$server_protocol $status $connection $request_uri';
    server {{
        listen 127.0.0.1:{port} quic reuseport; listen 127.0.0.1:{port} ssl; access_log logs/visits.log visits;
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
    with start(options, http, [port], [browsers.files]) as server, tempfile.TemporaryDirectory() as profile:
        flags = [f"--origin-to-force-quic-on=127.0.0.1:{port}",
                 f"--ignore-certificate-errors-spki-list={key_digest(server.directory / 'rsa.crt')}"]
        process = browsers.chromium(options.browser, f"https://127.0.0.1:{port}/", pathlib.Path(profile), flags)
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
        report = json.loads(urllib.parse.unquote(found.group(1)))
        # The WebSocket is over TCP: Chromium has none over HTTP/3 (RFC 9220).
        wanted = {**browsers.WANTED, "protocols": "h3"}
        rows = [(name, "pass" if report.get(name) == value else "fail", f"{report.get(name)}")
                for name, value in wanted.items()]
        visits = [each.split(" ", 3) for each in server.log("visits.log").splitlines()]
        others = [each for each in visits if each[0] != "HTTP/3.0" and each[3] != "/socket"]
        rows.append(("all-by-h3", "fail" if others else "pass", f"{others[:3]}"))
        log = server.log() + server.log("start.log")
        trouble = re.findall(r".*(?:panicked|\[alert\]|\[crit\]|\[emerg\]).*", log)
        rows.append(("server-log", "fail" if trouble else "pass", "; ".join(trouble[:3])))
        rows.append(("server-ends", "pass" if ended else "fail", ""))
        return rows


def key_digest(certificate_file):
    """The digest of a certificate's key, as Chromium lists those that it takes without an authority."""
    key = subprocess.run(["openssl", "x509", "-in", certificate_file, "-noout", "-pubkey"], capture_output=True,
                         check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, capture_output=True,
                         check=True).stdout
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


if __name__ == "__main__":
    sys.exit(main())
