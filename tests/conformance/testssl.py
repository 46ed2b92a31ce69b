#!/usr/bin/env python3
"""Runs testssl.sh against a plain `listen 443 ssl` and against Mozilla's intermediate configuration.

    testssl.py --testssl PROGRAM --binary tidegate

A finding of severity LOW and above fails, and so does a simulated client without a connection. A case is
configuration/finding; testssl.tsv lists those that do not pass, each with the reason.
"""

import argparse
import csv
import subprocess
import sys

from harness import Server, Table, certificate, free_ports

INTERMEDIATE = """
        ssl_session_timeout 1d; ssl_session_cache shared:MozSSL:10m; ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ecdh_curve X25519:prime256v1:secp384r1; ssl_prefer_server_ciphers off;
        ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:\
DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305;
        add_header Strict-Transport-Security "max-age=63072000" always; http2 on;"""
SECONDS = 900
BAD = {"LOW", "MEDIUM", "HIGH", "CRITICAL", "WARN"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--testssl", required=True)
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    configurations = dict(zip(("default", "intermediate"), free_ports(2)))
    http = "".join(f"""
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost; ssl_certificate rsa.crt; ssl_certificate_key rsa.key;
        {INTERMEDIATE if name == 'intermediate' else ''}
    }}""" for name, port in configurations.items())
    table = Table("testssl.tsv")
    files = [lambda to: certificate(to, "rsa"), lambda to: (to / "html" / "index.html").write_text("ok\n")]
    with Server(options.binary, http, configurations.values(), files) as server:
        found = {name: server.directory / f"{name}.csv" for name in configurations}
        runs = [subprocess.Popen([options.testssl, "--quiet", "--color", "0", "--warnings", "batch", "--ip", "127.0.0.1",
                                  "-p", "-s", "-f", "-P", "-S", "-h", "-U", "-c", "--csvfile", found[name],
                                  f"localhost:{port}"], stdout=subprocess.DEVNULL)
                for name, port in configurations.items()]
        for run in runs:
            run.wait(SECONDS)
        for name, file in found.items():
            for row in csv.DictReader(file.open()):
                bad = row["severity"] in BAD or row["finding"] == "No connection"
                table.add(f"{name}/{row['id']}", "fail" if bad else "pass", row["finding"][:200])
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
