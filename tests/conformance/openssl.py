#!/usr/bin/env python3
"""Runs `openssl s_client`, and raw bytes, against Tidegate: sessions, key updates, renegotiation, stapling, alerts, and
the lines of the error log, which are OpenSSL's words as nginx writes them.

    openssl.py --binary tidegate

openssl.tsv lists the cases that do not pass, each with the reason.
"""

import argparse
import re
import socket
import ssl
import subprocess
import sys
import time

from harness import Server, Table, certificate, free_ports, openssl, wait_for

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    tickets, ids, stapling, clients = ports = free_ports(4)
    http = "".join(f"""
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost; ssl_certificate leaf.crt; ssl_certificate_key leaf.key;
        {more}
    }}""" for port, more in [
        (tickets, "ssl_session_cache none;"),
        (ids, "ssl_session_cache shared:ids:1m; ssl_session_tickets off; http2 on;"),
        (stapling, "ssl_stapling on; ssl_stapling_file leaf.ocsp;"),
        (clients, "ssl_verify_client on; ssl_client_certificate ca.crt;")])
    table = Table("openssl.tsv")
    with Server(options.binary, http, ports, [files]) as server:
        for name, test in {**sessions(server, tickets, ids), **handshakes(server, tickets, ids, stapling, clients),
                           **bytes_of_peers(server, tickets)}.items():
            try:
                table.add(name, *test())
            except (OSError, TimeoutError, subprocess.SubprocessError) as error:
                table.add(name, "fail", f"{error}")
    return table.finish()


def files(directory):
    """Makes an authority, a leaf, and an OCSP response for it."""
    certificate(directory, "ca")
    name = ["-subj", "/CN=localhost"]
    openssl("req", "-newkey", "rsa:2048", "-nodes", *name, "-keyout", directory / "leaf.key", "-out", directory / "leaf.csr")
    (directory / "leaf.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", directory / "leaf.csr", "-CA", directory / "ca.crt", "-CAkey", directory / "ca.key",
            "-set_serial", "0x1234", "-days", "30", "-extfile", directory / "leaf.ext", "-out", directory / "leaf.crt")
    (directory / "index").write_text("V\t361231235959Z\t\t1234\tunknown\t/CN=localhost\n")
    openssl("ocsp", "-index", directory / "index", "-rsigner", directory / "ca.crt", "-rkey", directory / "ca.key",
            "-CA", directory / "ca.crt", "-issuer", directory / "ca.crt", "-cert", directory / "leaf.crt", "-ndays", "20",
            "-respout", directory / "leaf.ocsp")
    (directory / "html" / "index.html").write_text("ok\n")


class Client:
    """s_client with pipes; what it prints is read as far as a pattern."""

    def __init__(self, port, *arguments):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "localhost", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = b""

    def until(self, pattern, seconds=20):
        """Returns whether the pattern was printed before the end."""
        import selectors
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not re.search(pattern, self.output):
                if not selector.select(max(0, end - time.monotonic())):
                    return False
                data = self.process.stdout.read1(65536)
                if not data:
                    return False
                self.output += data
        return True

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self):
        """Closes its input, and returns all that it printed."""
        try:
            rest, _ = self.process.communicate(timeout=20)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            rest = b""
        self.output += rest or b""
        return self.output.decode(errors="replace")


def outcome(good, detail):
    return ("pass", "") if good else ("fail", " ".join(str(detail).split())[-300:])


def sessions(server, tickets, ids):
    """Sessions: a new one is stored, and resumed by the next connection."""
    def resumed(port, version, *more):
        def test():
            file = server.directory / "session"
            first = Client(port, version, "-sess_out", file, *more)
            first.until(rb"Verify return code")
            first.send(LAST)
            first.until(rb"ok\n")
            new = first.end()
            again = Client(port, version, "-sess_in", file, *more)
            again.until(rb"Verify return code")
            again.send(LAST)
            served = again.until(rb"ok\n")
            reused = again.end()
            return outcome("\nNew, TLSv1" in new and "\nReused, TLSv1" in reused and served, new[-200:] + reused[-300:])
        return test

    def counted():
        client = Client(tickets, "-tls1_3")
        client.until(rb"Verify return code")
        client.send(LAST)
        client.until(rb"ok\n")
        count = client.end().count("New Session Ticket arrived")
        return outcome(count == 2, count)

    def reconnected(port, *more):
        def test():
            client = Client(port, "-tls1_2", "-reconnect", *more)
            client.until(rb"(?s)(\nReused.*){5}")
            text = client.end()
            return outcome(text.count("\nReused, ") == 5, text[-300:])
        return test

    return {
        "ticket-1.3": resumed(tickets, "-tls1_3"),
        "ticket-1.2": resumed(tickets, "-tls1_2"),
        "id-1.3": resumed(ids, "-tls1_3"),
        "id-1.2": resumed(ids, "-tls1_2", "-no_ticket"),
        "tickets-counted": counted,
        "reconnect-ticket": reconnected(tickets),
        "reconnect-id": reconnected(ids, "-no_ticket"),
    }


def handshakes(server, tickets, ids, stapling, clients):
    """Commands of s_client, and handshakes that fail."""
    def key_update():
        client = Client(tickets, "-tls1_3", "-msg")
        client.until(rb"Verify return code")
        # With an answer of the server (K), and without (k).
        for command, answer in ((b"K\n", rb"<<<[^\n]*KeyUpdate"), (b"k\n", rb"KEYUPDATE")):
            client.output = b""
            client.send(command)
            client.until(rb"KEYUPDATE")
            client.send(REQUEST)
            if not client.until(answer) or not client.until(rb"\nok\n"):
                return outcome(False, client.end())
        return outcome(True, client.end())

    def renegotiation():
        client = Client(tickets, "-tls1_2")
        client.until(rb"Verify return code")
        began = time.monotonic()
        client.send(b"R\n")
        refused = client.until(rb"no renegotiation", 10)
        return outcome(refused and time.monotonic() - began < 5, client.end())

    def printed(port, pattern, *arguments):
        def test():
            client = Client(port, *arguments)
            client.until(rb"Verify return code|OCSP Response Data|error|alert")
            return outcome(re.search(pattern, client.end()), client.output.decode(errors="replace"))
        return test

    def refused(port, alert, line, *arguments):
        def test():
            before = len(server.log())
            client = Client(port, *arguments)
            client.until(rb"alert number|Verify return code|error:")
            text = client.end()
            wait_for(lambda: len(server.log()) > before, "a line in the log")
            added = server.log()[before:]
            return outcome(re.search(alert, text) and line in added, text[-200:] + added)
        return test

    def early():
        file, data = server.directory / "early.session", server.directory / "early"
        data.write_bytes(LAST)
        first = Client(tickets, "-tls1_3", "-sess_out", file)
        first.until(rb"Verify return code")
        first.send(LAST)
        first.until(rb"ok\n")
        first.end()
        return printed(tickets, r"Early data was (not sent|rejected)", "-tls1_3", "-sess_in", file, "-early_data", data)()

    authority = ("-CAfile", server.directory / "ca.crt")
    own = ("-cert", server.directory / "leaf.crt", "-key", server.directory / "leaf.key")
    tests = {
        "key-update": key_update,
        "renegotiation": renegotiation,
        "status": printed(stapling, r"OCSP Response Status: successful", "-status"),
        "status-none": printed(tickets, r"OCSP response: no response sent", "-status"),
        "early-data-refused": early,
        "alpn": printed(ids, r"ALPN protocol: h2", "-alpn", "h2,http/1.1"),
        "client-certificate-requested": printed(clients, r"Acceptable client certificate CA names", "-tls1_2"),
        "client-certificate": printed(clients, r"Verify return code: 0", *authority, *own),
        "alpn-other": refused(tickets, "alert number 120", "no application protocol", "-alpn", "other"),
        "version": refused(tickets, "alert number 70", "unsupported protocol", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
        "suite": refused(tickets, "alert number 40", "no shared cipher", "-tls1_2", "-cipher", "AES128-SHA"),
        "alert-of-client": refused(tickets, "verify failed", "tlsv1 alert unknown ca", "-verify_return_error"),
    }
    for group in ("X25519", "P-256", "P-384"):
        shown = {"X25519": "X25519", "P-256": "prime256v1|P-256", "P-384": "secp384r1|P-384"}[group]
        for version in ("-tls1_2", "-tls1_3"):
            tests[f"group-{group}{version}"] = printed(
                tickets, rf"Server Temp Key: \w+, ({shown})|Server Temp Key: ({shown})", version, "-groups", group)
    if "X25519MLKEM768" in subprocess.run(["openssl", "list", "-kem-algorithms"], capture_output=True, text=True).stdout:
        tests["group-X25519MLKEM768"] = printed(tickets, "X25519MLKEM768", "-groups", "X25519MLKEM768")
    return tests


def bytes_of_peers(server, port):
    """First bytes of many kinds: the alert, and the line in the log."""
    hello = client_hello()
    reason = "SSL_do_handshake() failed (SSL: error:"
    table = {
        # Cut into single bytes, and into records of one byte each.
        "cut-hello": ([hello[i:i + 1] for i in range(len(hello))], rb"^\x16\x03\x03", "peer closed connection"),
        "tiny-records": ([b"".join(hello[:3] + b"\0\1" + hello[i:i + 1] for i in range(5, len(hello)))],
                         rb"^\x16\x03\x03", "peer closed connection"),
        "half-hello": ([hello[:50]], rb"^$", "peer closed connection in SSL handshake"),
        "plain-http": ([LAST], rb"^HTTP/1.1 400", "client sent plain HTTP request to HTTPS port"),
        "other-message": ([b"\x16\x03\x01\x00\x05\xf5\x00\x00\x01\x00"], rb"^\x15\x03.\x00\x02\x02\x0a$",
                          f"{reason}0A0000F4:SSL routines::unexpected message)"),
        "other-record": ([hello[:5], b"\x01", b"\x15\x03\x01\x00\x02\x02\x28"], rb"^\x15?", "SSL"),
        "long-record": ([b"\x16\x03\x01\xff\xff" + bytes(100)], rb"^\x15\x03.\x00\x02\x02[\x16\x32]$",
                        f"{reason}0A0000C6:SSL routines::packet length too long)"),
        "long-message": ([b"\x16\x03\x01\x00\x10\x01" + b"\xff" * 15], rb"^\x15\x03.\x00\x02\x02\x2f$",
                         f"{reason}0A000098:SSL routines::excessive message size)"),
        "other-version": ([b"\x16\x09\x09\x00\x05" + bytes(5)], rb"^\x15\x03.\x00\x02\x02[\x46\x32]$",
                          f"{reason}0A00010B:SSL routines::wrong version number)"),
        "interleaved": ([b"\x16\x03\x01\x00\x06\x01\x00\x00\x09\x03\x03" + b"\x14\x03\x03\x00\x01\x01"],
                        rb"^\x15\x03.\x00\x02\x02\x0a$", "SSL_do_handshake() failed"),
    }

    def case(parts, received, line):
        def test():
            before = len(server.log())
            with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for part in parts:
                    peer.sendall(part)
                peer.shutdown(socket.SHUT_WR)
                got = b""
                try:
                    while data := peer.recv(65536):
                        got += data
                except ConnectionResetError:
                    pass
            wait_for(lambda: line in server.log()[before:] or None, f"{line!r} in the log; received {got[:40]}")
            return outcome(re.search(received, got, re.S), f"{got[:40]}")
        return test

    return {f"bytes-{name}": case(*row) for name, row in table.items()}


def client_hello():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


if __name__ == "__main__":
    sys.exit(main())
