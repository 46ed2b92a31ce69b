#!/usr/bin/env python3
"""Records the answers of a web application, so that those through two servers can be compared.

    crawl.py list URL COUNT     prints COUNT requests, one a line: pages that URL leads to and their files, and requests of
                                other kinds (HEAD, ranges, conditions, forms) for some of them
    crawl.py record FILE        sends the requests of a file; prints each one's status, fields and hash of the body

What differs from one answer to the next in any server is left out: dates, the server's name, cookies, nonces; so is the
compression. All requests go to 127.0.0.1, whatever the name.
"""
import gzip
import hashlib
import http.client
import json
import re
import sys
import urllib.parse

# How a body is framed depends on what is known when its head is sent; that it is whole is checked by its hash.
VOLATILE = {"date", "server", "transfer-encoding", "content-length"}
# Nonces and secrets of WordPress, and the server's name in pages of its own.
SCRUBBED = [
    re.compile(rb'("?_?(?:wp|ajax|rest)?_?nonce"?(?:%22)?\s*[=:"/]+\s*(?:value=)?["\']?)[0-9a-f]{10}'),
    re.compile(rb'(secret=\\?["\']?)\w{10}'),
    re.compile(rb"(<hr><center>)(?:nginx|tidegate)/[0-9.]+"),
]
LINK = re.compile(rb"""(?:href|src)=["']([^"'#]+)""")
KINDS = [
    ("HEAD", {}),
    ("GET", {"Range": "bytes=0-99"}),
    ("GET", {"Range": "bytes=-50"}),
    ("GET", {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}),
    ("GET", {"If-None-Match": '"absent"'}),
    ("GET", {"Accept-Encoding": "gzip"}),
    ("POST", {"Content-Type": "application/x-www-form-urlencoded"}),
    ("OPTIONS", {}),
]


def send(method, url, fields):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=60)
    target = parts.path + ("?" + parts.query if parts.query else "")
    body = b"s=hello&empty=" if method == "POST" else None
    connection.putrequest(method, target or "/", skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", parts.netloc)
    for name, value in fields.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response.reason, response.getheaders(), content


def find(start, count):
    """Pages and files in the order in which they are found, then requests of other kinds for them."""
    host = urllib.parse.urlsplit(start).netloc
    found, wanted = [start], count * 3 // 4
    for url in found:
        if len(found) >= wanted:
            break
        _, _, fields, content = send("GET", url, {})
        if not any(name.lower() == "content-type" and "html" in value for name, value in fields):
            continue
        for link in LINK.findall(content):
            link = urllib.parse.urljoin(url, link.decode("latin-1").replace("&#038;", "&").replace("&amp;", "&"))
            if urllib.parse.urlsplit(link).netloc == host and link not in found and len(found) < wanted:
                found.append(link)
    requests = [("GET", url, {}) for url in found]
    files = [url for url in found if re.search(r"\.(?:js|css|svg|png|jpg|woff2?)(?:\?|$)", url)]
    for number in range(count - len(found)):
        method, fields = KINDS[number % len(KINDS)]
        subjects = files if files and number // len(KINDS) % 2 else found
        requests.append((method, subjects[number * 3 % len(subjects)], fields))
    return requests


def record(method, url, fields):
    status, reason, answered, content = send(method, url, fields)
    kept = []
    for name, value in answered:
        if name.lower() == "set-cookie":
            value = re.sub("=[^;]*", "=", value, count=1)
        if name.lower() not in VOLATILE:
            kept.append(f"{name}: {value}")
    if "Content-Encoding: gzip" in kept:
        content = gzip.decompress(content)
    for pattern in SCRUBBED:
        content = pattern.sub(rb"\1", content)
    digest = hashlib.sha256(content).hexdigest()[:16]
    return {"request": [method, url, fields], "status": f"{status} {reason}", "fields": sorted(kept), "body": [len(content), digest]}


def main():
    if sys.argv[1] == "list":
        for request in find(sys.argv[2], int(sys.argv[3])):
            print(json.dumps(request))
        return
    with open(sys.argv[2], encoding="utf-8") as requests:
        for line in requests:
            print(json.dumps(record(*json.loads(line))))


main()
