"""The texts of `metrics`, parsed by the parsers of Prometheus' client library; see scripts/metrics-tests.sh.

python metrics.py BINARY DIRECTORY [PROMTOOL]: starts BINARY below DIRECTORY, sends requests, and reads all sets of names in
both formats. PROMTOOL looks at the text format as well.
"""

import http.client
import os
import socket
import subprocess
import sys
import time

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

OPEN = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def configuration(directory, front, origin, dead):
    return f"""
daemon off; user root; worker_processes 2; pid {directory}/pid; error_log {directory}/error.log; loop_watchdog 1s;
events {{ }}
http {{
    access_log off; server_timing on; resolver 127.0.0.1:{dead} status_zone=names;
    proxy_cache_path {directory}/cache keys_zone=pages:2m max_size=64m;
    limit_req_zone $binary_remote_addr zone=address:1m rate=20r/s; limit_conn_zone $binary_remote_addr zone=open:1m;
    otel_exporter {{ endpoint 127.0.0.1:{dead}; }}
    upstream shop {{ zone shop 64k; server 127.0.0.1:{origin}; server 127.0.0.1:{dead} max_fails=1; }}
    server {{ listen 127.0.0.1:{origin}; return 200 hello; }}
    server {{
        listen 127.0.0.1:{front}; status_zone 'a"b\\\\c';
        otel_trace on; otel_trace_context extract;
        location / {{ status_zone pages; limit_req zone=address burst=20 nodelay; limit_conn open 9;
            proxy_pass http://shop; proxy_cache pages; proxy_cache_valid 200 1s; }}
        location = /metrics {{ otel_trace off; metrics tidegate nginx nginxplus vts ingress; }}
        location = /own {{ otel_trace off; metrics tidegate; }}
    }}
}}
stream {{ upstream s {{ zone s 64k; server 127.0.0.1:{dead}; }} }}
"""


def get(port, target, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", target, headers=fields)
    response = connection.getresponse()
    return response.status, response.getheader("Content-Type"), response.read().decode()


def check(front, promtool):
    # A request is counted when it has ended, shortly after its response.
    deadline = time.monotonic() + 10
    while TRACE not in (text := get(front, "/own", Accept=OPEN)[2]):
        assert time.monotonic() < deadline, text
    status, kind, text = get(front, "/metrics", Accept=OPEN)
    assert (status, kind) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"), kind
    families = {family.name: family for family in open_metrics(text)}
    durations = families["tidegate_server_request_duration_seconds"]
    traces = [sample.exemplar.labels for sample in durations.samples if sample.exemplar]
    assert {"trace_id": TRACE} in traces, traces
    assert durations.unit == "seconds" and durations.samples[0].labels["zone"] == 'a"b\\c', durations
    assert families["tidegate_requests"].type == "counter"
    status, kind, text = get(front, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4"), kind
    others = {family.name for family in plain(text)}
    print(f"{len(families)} families of OpenMetrics, {len(others)} of the text format")
    if promtool:
        # Names of others are as they are; it has no finding about our own.
        _, _, own = get(front, "/own")
        told = subprocess.run([promtool, "check", "metrics"], input=own, text=True, capture_output=True)
        assert told.returncode == 0 and not told.stderr, told.stderr + told.stdout
        told = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True)
        assert "error while linting" not in told.stderr and told.returncode != 1, told.stderr
        print("promtool: no finding about our own names, no error in any")


def main():
    binary, directory, promtool = sys.argv[1], sys.argv[2], (sys.argv[3:] or [None])[0]
    os.makedirs(os.path.join(directory, "logs"), exist_ok=True)
    front, origin, dead = free_port(), free_port(), free_port()
    with open(os.path.join(directory, "nginx.conf"), "w") as file:
        file.write(configuration(directory, front, origin, dead))
    server = subprocess.Popen([binary, "-p", directory, "-c", os.path.join(directory, "nginx.conf")])
    try:
        while server.poll() is None:
            try:
                get(front, "/", traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
                break
            except OSError:
                continue
        assert server.poll() is None, open(os.path.join(directory, "error.log")).read()
        check(front, promtool)
    finally:
        server.terminate()
        server.wait(30)


main()
