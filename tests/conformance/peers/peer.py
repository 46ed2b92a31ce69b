"""A client on h2 and an origin on hypercorn, for scripts/peers.sh. peers.py has the list of cases and of paths.

    peer.py origin 127.0.0.1:PORT
    peer.py client URL ORIGIN-URL MASTER-PID
"""

import asyncio
import hashlib
import os
import signal
import socket
import ssl
import sys
import time
import urllib.parse
import urllib.request

LARGE = bytes((i * 7 // 5) & 255 for i in range(10 << 20))


async def app(scope, receive, send):
    """The origin. Hypercorn has trailers and early hints as extensions of ASGI."""
    if scope["type"] == "websocket":
        return await echo(receive, send)
    if scope["type"] != "http":
        return
    key = scope["query_string"]
    fields = {}
    for name, value in scope["headers"]:
        fields.setdefault(name, []).append(value)

    async def body():
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def respond(status, content, more=(), trailers=False):
        await send({"type": "http.response.start", "status": status, "headers": list(more), "trailers": trailers})
        await send({"type": "http.response.body", "body": content, "more_body": False})

    path = scope["path"]
    if path in ("/small", "/large"):
        content = LARGE if path == "/large" else b"small\n"
        tag = (b"etag", b'"v1"')
        if fields.get(b"if-none-match") == [b'"v1"']:
            return await respond(304, b"", [tag])
        if b"range" in fields:
            first, last = map(int, fields[b"range"][0][6:].split(b"-"))
            place = b"bytes %d-%d/%d" % (first, last, len(content))
            piece = content[first:last + 1]
            return await respond(206, piece, [tag, (b"content-range", place),
                                              (b"content-length", b"%d" % len(piece))])
        length = (b"content-length", b"%d" % len(content))
        return await respond(200, b"" if scope["method"] == "HEAD" else content, [tag, length])
    if path == "/echo":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async for piece in body():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        return await send({"type": "http.response.body", "body": b"", "more_body": False})
    if path == "/digest":
        total = hashlib.sha256()
        async for piece in body():
            total.update(piece)
        return await respond(200, total.hexdigest().encode())
    if path == "/trailers":
        await respond(200, b"body", trailers=True)
        return await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"42")], "more_trailers": False})
    if path == "/hints":
        await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]})
        return await respond(200, b"hinted")
    if path == "/fields":
        cookies = [(b"set-cookie", b"c%d=%s" % (i, b"v" * 200)) for i in range(40)]
        return await respond(200, b"|".join(fields.get(b"cookie", [])), cookies)
    if path == "/endless":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        left = asyncio.ensure_future(disconnect(receive))
        while not left.done():
            await send({"type": "http.response.body", "body": bytes(1000), "more_body": True})
            await asyncio.sleep(0)
        LEFT[key] = LEFT.get(key, 0) + 1
        return
    if path == "/cancelled":
        return await respond(200, b"%d" % LEFT.get(key, 0))
    if path == "/hold":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await HELD.setdefault(key, asyncio.Event()).wait()
        return await send({"type": "http.response.body", "body": b"last", "more_body": False})
    if path == "/release":
        HELD.setdefault(key, asyncio.Event()).set()
        return await respond(200, b"")
    # Hypercorn ends connections only when it ends.
    await respond(200, b"bye" if path == "/goaway" else b"?")


LEFT = {}
HELD = {}


async def echo(receive, send):
    """Sends the messages of a WebSocket back."""
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")})


async def disconnect(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


def origin(address):
    import hypercorn.asyncio
    import hypercorn.config
    config = hypercorn.config.Config()
    config.bind = [address]
    config.h2_max_concurrent_streams = 100
    config.h2_max_header_list_size = 65536
    config.h11_max_incomplete_size = 65536
    asyncio.run(hypercorn.asyncio.serve(app, config))


class Connection:
    """A connection by h2, blocking: one thread, any number of streams."""

    def __init__(self, url):
        import h2.config
        import h2.connection
        # To h2 a connection is closed by GOAWAY, although its streams go on (RFC 9113 section 6.8).
        state, going = h2.connection.ConnectionState.CLIENT_OPEN, h2.connection.ConnectionInputs.RECV_GOAWAY
        h2.connection.H2ConnectionStateMachine._transitions[(state, going)] = (None, state)
        self.host = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((self.host.hostname, self.host.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.host.scheme == "https":
            context = ssl._create_unverified_context()
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
            assert self.socket.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.streams = {}
        self.went_away = False
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def begin(self, path, method="GET", fields=(), body=None, trailers=None):
        number = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", self.host.scheme),
                (":authority", self.host.netloc), *fields]
        self.streams[number] = {"status": 0, "fields": [], "interim": [], "trailers": {}, "body": bytearray(),
                                "ended": False, "left": body, "sends": trailers}
        self.h2.send_headers(number, head, end_stream=body is None)
        self.send_bodies()
        return number

    def send_bodies(self):
        for number, stream in self.streams.items():
            while stream["left"] is not None:
                room = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)
                if room <= 0:
                    break
                piece, stream["left"] = stream["left"][:room], stream["left"][room:] or None
                end = stream["left"] is None
                self.h2.send_data(number, piece, end_stream=end and not stream["sends"])
                if end and stream["sends"]:
                    self.h2.send_headers(number, stream["sends"], end_stream=True)
        self.flush()

    def read(self):
        import h2.events as events
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("closed by the server")
        for event in self.h2.receive_data(data):
            stream = self.streams.get(getattr(event, "stream_id", None))
            if isinstance(event, events.ConnectionTerminated):
                self.went_away = True
            elif stream is None:
                pass
            elif isinstance(event, events.InformationalResponseReceived):
                found = dict(event.headers)
                stream["interim"].append(f"{found[':status']} {found.get('link')}")
            elif isinstance(event, events.ResponseReceived):
                stream["fields"] = event.headers
                stream["status"] = int(dict(event.headers)[":status"])
            elif isinstance(event, events.TrailersReceived):
                stream["trailers"] = dict(event.headers)
            elif isinstance(event, events.DataReceived):
                stream["body"] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, events.StreamEnded):
                stream["ended"] = True
            elif isinstance(event, events.StreamReset):
                stream["reset"] = event.error_code
        self.send_bodies()

    def until(self, condition):
        while not condition():
            self.read()

    def finish(self, number):
        stream = self.streams[number]
        self.until(lambda: stream["ended"] or "reset" in stream)
        del self.streams[number]
        if not stream["ended"]:
            raise ConnectionError(f"reset with code {stream['reset']} after {len(stream['body'])} bytes")
        return stream

    def call(self, *arguments, **named):
        return self.finish(self.begin(*arguments, **named))


def client(url, origin_url, master):
    connection = Connection(url)
    master = int(master)

    def same(got, status, body):
        assert got["status"] == status and got["body"] == body, \
            f"{got['status']} with {len(got['body'])} bytes: {bytes(got['body'][:60])}"

    def case(function):
        try:
            function()
            print(f"{function.__name__.replace('_', '-')}\tpass\t", flush=True)
        except Exception as error:
            text = " ".join(f"{type(error).__name__} {error}".split())
            print(f"{function.__name__.replace('_', '-')}\tfail\t{text}", flush=True)

    call = connection.call

    @case
    def get():
        same(call("/small"), 200, b"small\n")

    @case
    def get_large():
        same(call("/large"), 200, LARGE)

    @case
    def post_large():
        got = call("/digest", "POST", [("content-length", str(len(LARGE)))], LARGE)
        same(got, 200, hashlib.sha256(LARGE).hexdigest().encode())

    @case
    def post_unsized():
        same(call("/digest", "POST", [], LARGE), 200, hashlib.sha256(LARGE).hexdigest().encode())

    @case
    def echo_large():
        same(call("/echo", "POST", [], LARGE), 200, LARGE)

    @case
    def range():
        same(call("/large", fields=[("range", "bytes=1000-1999")]), 206, LARGE[1000:2000])

    @case
    def not_modified():
        same(call("/small", fields=[("if-none-match", '"v1"')]), 304, b"")

    @case
    def head():
        got = call("/large", "HEAD")
        same(got, 200, b"")
        assert dict(got["fields"])["content-length"] == str(len(LARGE)), got["fields"]

    @case
    def trailers():
        got = call("/trailers")
        same(got, 200, b"body")
        assert got["trailers"] == {"x-sum": "42"}, got["trailers"]

    @case
    def request_trailers():
        same(call("/echo", "POST", [], b"abc", [("x-sum", "42")]), 200, b"abc")

    @case
    def hints():
        got = call("/hints")
        same(got, 200, b"hinted")
        assert got["interim"] == ["103 </style.css>; rel=preload"], got["interim"]

    @case
    def fields():
        cookies = [f"c{i}={'x' * 100}" for i in numbers(60)]
        got = call("/fields", fields=[("cookie", each) for each in cookies])
        same(got, 200, "; ".join(cookies).encode())
        count = len([name for name, _ in got["fields"] if name == "set-cookie"])
        assert count == 40, f"{count} cookies"

    @case
    def streams():
        for _ in numbers(3):
            for number in [connection.begin("/small") for _ in numbers(100)]:
                same(connection.finish(number), 200, b"small\n")

    @case
    def cancel():
        key = f"python{os.getpid()}"
        for _ in numbers(10):
            number = connection.begin(f"/endless?{key}")
            stream = connection.streams[number]
            connection.until(lambda: stream["body"] or "reset" in stream)
            connection.h2.reset_stream(number, 8)
            connection.flush()
            del connection.streams[number]
        end = time.monotonic() + 20
        while (got := call(f"/cancelled?{key}"))["body"] != b"10":
            assert time.monotonic() < end, f"the origin saw {got['body']} leave"

    @case
    def goaway():
        for _ in numbers(5):
            same(call("/goaway"), 200, b"bye")
        same(call("/small"), 200, b"small\n")

    def held(name, meanwhile):
        key = f"{name}{os.getpid()}"
        number = connection.begin(f"/hold?{key}")
        stream = connection.streams[number]
        connection.until(lambda: stream["body"] or "reset" in stream)
        meanwhile()
        direct = Connection(origin_url)
        direct.call(f"/release?{key}")
        same(connection.finish(number), 200, b"firstlast")

    @case
    def reload():
        def meanwhile():
            for _ in numbers(3):
                os.kill(master, signal.SIGHUP)
                for _ in numbers(20):
                    same(call("/small"), 200, b"small\n")
            assert not connection.went_away, "GOAWAY by a reload"
        held("reload", meanwhile)

    @case
    def quit():
        def meanwhile():
            os.kill(master, signal.SIGQUIT)
            connection.until(lambda: connection.went_away)
            end = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection((connection.host.hostname, connection.host.port)).close()
                except OSError:
                    return
                assert time.monotonic() < end, "still listens"
        held("quit", meanwhile)


# `range` is a case.
numbers = range

if __name__ == "__main__":
    {"origin": origin, "client": client}[sys.argv[1]](*sys.argv[2:])
