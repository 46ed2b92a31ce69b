#!/usr/bin/env python3
"""Runs the scripts of tlsfuzzer (github.com/tlsfuzzer/tlsfuzzer) for servers with TLS 1.2 and 1.3 against Tidegate.

    tlsfuzzer.py --suite DIR --python PYTHON --binary tidegate [--only REGEX] [--jobs 3] [--probes 40]

PYTHON has tlslite-ng installed. A case is script/probe; tlsfuzzer.tsv lists those that do not pass, each with the
reason, and the scripts that are left out because Tidegate has nothing of what they test (`skip`).
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from harness import Server, Table, certificate, free_ports

# Scripts with other arguments than `-d` (ECDHE instead of the RSA key exchange), or another server.
CLIENT = ["-k", "tests/clientX509Key.pem", "-c", "tests/clientX509Cert.pem"]
ARGUMENTS = {
    "downgrade-protection": ["--server-max-protocol=TLSv1.3"],
    "extended-master-secret-extension-with-client-cert": CLIENT,
    "fallback-scsv": ["-d", "--tls-1.3"],
    "signature-algorithms": ["--ecdsa"],
    "ssl-death-alert": ["-d", "--alerts", "0", "--alert-level", "warning", "--alert-description", "close_notify"],
    "tls13-count-tickets": ["-t", "2"],
}
# By the script's name: which of the servers it needs. The others have a certificate of RSA.
ECDSA = re.compile(r"^(signature-algorithms|tls13-ecdsa-support)$")
CLIENT_CERTIFICATES = re.compile(
    r"certificate-verify|certificate-request|with-client-cert|sigs-on-certificate|certificate-malformed"
    r"|client-certificate-compression")
# For scripts of TLS 1.2 that can use another suite than their own (RSA key exchange, CBC).
SUITE = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
SUITE_ECDSA = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
# Probes of a script, drawn at random, beside its first and last.
PROBES = 40
SECONDS = 150


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--probes", type=int, default=PROBES, help="of a script, 0 for all")
    options = parser.parse_args()
    rsa, ecdsa, client = ports = free_ports(3)
    http = "".join(f"""
    server {{
        listen 127.0.0.1:{port} ssl; ssl_certificate {name}.crt; ssl_certificate_key {name}.key;
        ssl_session_cache shared:{name}:1m; {more}
    }}""" for port, name, more in [(rsa, "rsa", ""), (ecdsa, "ecdsa", ""),
                                   (client, "rsa", "ssl_verify_client optional_no_ca;")])
    table = Table("tlsfuzzer.tsv")
    with Server(options.binary, http, ports, [files]) as server:
        def run(name):
            port = ecdsa if ECDSA.search(name) else client if CLIENT_CERTIFICATES.search(name) else rsa
            return name, script(options, name, port)

        names = sorted(file.stem[5:] for file in pathlib.Path(options.suite, "scripts").glob("test-*.py"))
        names = [name for name in names if re.search(options.only, name)]
        left_out = [name for name in names if table.expected(name) == "skip"]
        for name in left_out:
            table.add(name, "skip")
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for name, (results, output) in pool.map(run, [name for name in names if name not in left_out]):
                for probe, result in results.items():
                    table.add(f"{name}/{probe}", result, detail(output, probe))
        crashes = re.findall(r".*(?:panicked|\[alert\]|\[emerg\]).*", server.log() + server.log("start.log"))
        table.add("server-log", "fail" if crashes else "pass", "; ".join(crashes[:3]))
    return table.finish()


def files(directory):
    certificate(directory, "rsa")
    certificate(directory, "ecdsa", ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"))
    (directory / "html" / "index.html").write_text("ok\n")


def script(options, name, port):
    """Runs a script; returns the results of its probes, and its output."""
    suite = pathlib.Path(options.suite)
    file = suite / "scripts" / f"test-{name}.py"
    text = file.read_text() + (suite / "tlsfuzzer" / "_apps" / f"{file.stem.replace('-', '_')}.py").read_text() \
        if (suite / "tlsfuzzer" / "_apps" / f"{file.stem.replace('-', '_')}.py").exists() else file.read_text()
    arguments = ARGUMENTS.get(name)
    if arguments is None:
        arguments = CLIENT[:] if CLIENT_CERTIFICATES.search(name) and '"-k"' in text.replace("'", '"') else []
        if not name.startswith("tls13") and re.search(r"""opt == ['"]-C['"]""", text):
            arguments += ["-C", SUITE_ECDSA if ECDSA.search(name) else SUITE]
        arguments += ["-d"] if re.search(r"""opt == ['"]-d['"]""", text) else []
    if re.search(r"""opt == ['"]-n['"]""", text):
        arguments = arguments + ["-n", str(options.probes)]
    environment = dict(os.environ, PYTHONPATH=".", PYTHONUNBUFFERED="1")
    try:
        done = subprocess.run(
            [options.python, file.relative_to(suite), "-h", "127.0.0.1", "-p", str(port), *arguments], cwd=suite,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=SECONDS)
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return {"*time*": "fail"}, output
    if os.environ.get("OUTPUT"):
        pathlib.Path(os.environ["OUTPUT"], name).write_text(output)
    total = re.search(r"^TOTAL: (\d+)", output, re.M)
    if not total and done.returncode != 0:
        return {"*start*": "fail"}, output
    # A probe begins with its name and ` ...`; those that failed are listed at the end.
    results = {probe: "pass" for probe in re.findall(r"^(.+) \.\.\.$", output, re.M)}
    if no_suite(output):
        return {"*suite*": "fail"}, output
    for kind in ("FAILED", "XPASSED"):
        block = re.search(rf"^{kind}:\n((?:\t.*\n?)+)", output, re.M)
        for probe in re.findall(r"^\t(.*)$", block.group(1) if block else "", re.M):
            results[re.sub(r"^(['\"])(.*)\1.*$", r"\2", probe)] = "fail"
    if not results:
        results = {"*": "pass" if done.returncode == 0 else "fail"}
    return results, output


def no_suite(output):
    """Whether even the script's plain handshake has no cipher suite, group or version that is available here."""
    first = output.partition("sanity ...\n")[2].partition(" ...\n")[0]
    return re.search(r"Unexpected message from peer: Alert\(fatal, (handshake_failure|protocol_version)\)", first)


def detail(output, probe):
    """Returns the last line of the error behind a probe's name."""
    behind = output.partition(f"{probe} ...")[2].partition(" ...\n")[0]
    errors = [line for line in behind.splitlines() if re.match(r"\w*(Error|Exception|Timeout)", line)]
    return errors[-1] if errors else ""


if __name__ == "__main__":
    sys.exit(main())
