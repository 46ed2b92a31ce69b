#!/usr/bin/env python3
"""Sends what fail2ban looks for to a server on port 80 of this machine, from one address: 600 requests.

    attack.py [ADDRESS]         default 127.0.0.1

The server has the configuration of the step `fail2ban` in scripts/tool-tests.sh. Fails when a request has no answer.
"""
import base64
import socket
import sys

SCANNED = ["phpmyadmin/", "wp-login.php", "roundcube/", "cgi-bin/php", "admin/config.php", "w00tw00t.at", "a b/../mail/", "absent"]
MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00",
    b"GET / HTTP/9.9\r\nHost: attack.test\r\n\r\n",
    b"GET /  HTTP/1.1 x\r\n\r\n",
    b"SSH-2.0-client\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET http:/// HTTP/1.1\r\nHost: attack.test\r\n\r\n",
    b"get / HTTP/1.1\r\nHost: attack.test\r\n\r\n",
]


def send(address, data):
    with socket.create_connection(("127.0.0.1", 80), timeout=10, source_address=(address, 0)) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    if not answer:
        raise SystemExit(f"no answer to {data!r}")


def head(path, method="GET", *fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: attack.test", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode()


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    for number in range(100):
        # Known is the user "user" alone.
        for user in ["user", f"user{number}", 'qu"ote']:
            credentials = base64.b64encode(f"{user}:wrong{number}".encode()).decode()
            send(address, head("/private/", "GET", f"Authorization: Basic {credentials}"))
        send(address, head(f"/slow/{number}", "HEAD" if number % 3 == 0 else "GET", "Referer: http://attack.test/"))
        scanned = SCANNED[number % len(SCANNED)].replace(" ", "%20")
        send(address, head(f"/{scanned}?{number}", ["GET", "HEAD", "POST"][number % 3], "Content-Length: 0"))
        send(address, MALFORMED[number % len(MALFORMED)])


main()
