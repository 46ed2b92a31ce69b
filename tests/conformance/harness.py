"""Runs an installed Tidegate for the suites of others, and holds their results against a list of expected differences.

    with Server(binary, "http { server { listen 127.0.0.1:{port}; } }") as server: ...
    table = Table("h2spec.tsv"); table.add("http2/4.2/2", "fail", "detail"); sys.exit(table.finish())

A list has a line per case that does not pass: case, result, reason, separated by tabs. A case may have `*`; with the
result `some` a part of the cases that match it passes.
Needs Python 3.9+ (standard library only) and openssl.
"""

import fnmatch
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# Seconds for a start, a reload or an end. Nothing is measured by it.
DEADLINE = 20


def free_ports(number):
    """Returns ports of loopback that nothing listens on; all are bound at once, so they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for(condition, subject):
    """Calls `condition` until it returns a true value, which is returned."""
    end = time.monotonic() + DEADLINE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"not within {DEADLINE} s: {subject}")
        time.sleep(0.02)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def openssl(*arguments, **options):
    """Runs openssl for a key or a certificate, and fails with its words."""
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def certificate(directory, name, algorithm=("-newkey", "rsa:2048"), extra=()):
    """Makes `name.crt`, signed by its own key `name.key`, for localhost and 127.0.0.1."""
    openssl("req", "-x509", *algorithm, "-nodes", "-days", "30", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.crt", *extra)


class Server:
    """A server in a directory of its own: the master has our rights, the worker those of nobody when we are root."""

    def __init__(self, binary, http, ports, files=(), main="", workers=2):
        self.binary = str(pathlib.Path(binary).resolve())
        self.ports = ports
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="interop-"))
        self.directory.chmod(0o755)
        (self.directory / "logs").mkdir()
        (self.directory / "html").mkdir()
        for make in files:
            make(self.directory)
        user = "user nobody nogroup;" if os.getuid() == 0 else ""
        self.configure(f"""{user} daemon off; worker_processes {workers}; pid nginx.pid; error_log logs/error.log info; {main}
events {{ worker_connections 1024; }}
http {{
    access_log logs/access.log; root html; default_type text/plain;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{http}
}}
""")
        self.process = None

    def configure(self, text):
        (self.directory / "nginx.conf").write_text(text)

    def __enter__(self):
        with open(self.directory / "logs" / "start.log", "w") as log:
            self.process = subprocess.Popen(
                [self.binary, "-p", f"{self.directory}/", "-c", "nginx.conf"], stdout=log, stderr=log)
        try:
            wait_for(lambda: self.ended() or all(map(listens, self.ports)), f"{self.binary} listens")
        except TimeoutError:
            self.__exit__()
            raise
        if self.ended():
            raise RuntimeError(f"{self.binary} has ended:\n{self.log('start.log')}")
        return self

    def ended(self):
        return self.process.poll() is not None

    def log(self, name="error.log"):
        file = self.directory / "logs" / name
        return file.read_text(errors="replace") if file.exists() else ""

    def signal(self, number):
        self.process.send_signal(number)

    def __exit__(self, *_):
        if not self.ended():
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.directory, ignore_errors=True)


class Table:
    """The results of a suite, and the list of those that are expected not to pass."""

    def __init__(self, list_name, world=""):
        self.known = {}
        self.counts = {}
        self.worse = 0
        self.better = 0
        self.world = world
        lines = (HERE / list_name).read_text().splitlines() if (HERE / list_name).exists() else []
        for line in lines:
            if line and not line.startswith("#"):
                case, result, _reason = line.split("\t")
                self.known[case] = result

    def expected(self, case):
        if case in self.known:
            return self.known[case]
        patterns = [key for key in self.known if "*" in key and fnmatch.fnmatchcase(case, key)]
        return self.known[max(patterns, key=len)] if patterns else "pass"

    def add(self, case, result, detail=""):
        """Counts a result (`pass`, `fail`, `skip`), and prints the case unless it passed as expected."""
        expected = self.expected(case)
        self.counts[result] = self.counts.get(result, 0) + 1
        if result == expected or expected == "some":
            if result != "pass" and os.environ.get("VERBOSE"):
                print(f"as listed   {result:5} {case}")
            return
        note = "BETTER" if result == "pass" else "WORSE"
        self.better += note == "BETTER"
        self.worse += note == "WORSE"
        print(f"{note:6} than the list: {result:5} {case}  {detail}", flush=True)

    def finish(self):
        """Prints the counts, and returns the status for the script's end."""
        for result in sorted(self.counts):
            print(f"{result:5} {self.counts[result]:5}")
        print(f"listed: {len(self.known)}, worse than the list: {self.worse}, better: {self.better}")
        return 1 if self.worse else 0
