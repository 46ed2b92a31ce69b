#!/usr/bin/env python3
"""Runs h2spec (github.com/summerwind/h2spec) against Tidegate: files, plain and over TLS, and a gateway, which responds
only when the request has ended.

    h2spec.py --h2spec PROGRAM --binary tidegate

h2spec.tsv lists the cases that are not passed, each with the reason; a case is server/section/number.
"""

import argparse
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

from harness import Server, Table, certificate, free_ports


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--h2spec", required=True)
    parser.add_argument("--binary", required=True)
    options = parser.parse_args()
    plain, tls, gateway, origin = free_ports(4)
    http = f"""
    http2 on; ssl_certificate rsa.crt; ssl_certificate_key rsa.key;
    server {{
        listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl; listen 127.0.0.1:{origin};
        location / {{ error_page 405 =200 /index.html; }}
    }}
    server {{
        listen 127.0.0.1:{gateway};
        location / {{ proxy_pass http://127.0.0.1:{origin}; }}
    }}"""
    table = Table("h2spec.tsv")
    servers = {"plain": [plain], "tls": [tls, "-t", "-k"], "gateway": [gateway]}
    with Server(options.binary, http, [plain, tls, gateway, origin],
                [lambda to: certificate(to, "rsa"), page]) as server:
        reports = {name: server.directory / f"{name}.xml" for name in servers}
        # One second for each frame that does not arrive.
        runs = [subprocess.Popen([options.h2spec, "-h", "127.0.0.1", "-o", "1", "-j", reports[name], "-p", *map(str, more)],
                                 stdout=subprocess.DEVNULL) for name, more in servers.items()]
        for run in runs:
            run.wait(timeout=500)
        for name, report in reports.items():
            collect(table, name, report)
    return table.finish()


def page(directory):
    (directory / "html" / "index.html").write_text("0123456789abcdef" * 2048)


def collect(table, server_name, report):
    """Adds the cases of a report; h2spec numbers those of a section in their order."""
    for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
        for number, case in enumerate(suite.iter("testcase"), 1):
            name = f"{server_name}/{case.get('package')}/{number}"
            trouble = case.find("failure")
            if trouble is None:
                trouble = case.find("error")
            if trouble is not None:
                table.add(name, "fail", f"{case.get('classname')}: {' '.join((trouble.text or '').split())}")
            elif case.find("skipped") is not None:
                table.add(name, "skip", case.get("classname"))
            else:
                table.add(name, "pass")


if __name__ == "__main__":
    sys.exit(main())
