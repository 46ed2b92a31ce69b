"""A client on aioquic, for scripts/h3-clients.sh. h3-clients.py has the list of cases and the format of transcripts.

    h3.py PORT CASE
"""

import asyncio
import hashlib
import os
import socket
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

UPLOAD = bytes((i * 7 // 5) & 255 for i in range(5 << 20))
COOKIE = (b"cookie", "; ".join(f"c{i}={'x' * 100}" for i in range(60)).encode())
# Seconds for a case.
PATIENCE = 60


class Stream:
    """A request and its response as far as it has arrived."""

    def __init__(self):
        self.status = 0
        self.fields = {}
        self.length = 0
        self.digest = hashlib.sha256()
        self.begun = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http = H3Connection(self._quic)
        self.streams = {}

    def begin(self, method, path, body=None, more=()):
        """Sends a request; returns its stream's number."""
        number = self._quic.get_next_available_stream_id()
        self.streams[number] = Stream()
        fields = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost"),
                  (b":path", path.encode()), (b"user-agent", b"aioquic"), *more]
        self.http.send_headers(number, fields, end_stream=body is None)
        if body is not None:
            self.http.send_data(number, body, end_stream=True)
        self.transmit()
        return number

    async def request(self, method, path, body=None, more=()):
        """Sends a request, and prints the response."""
        stream = self.streams[self.begin(method, path, body, more)]
        await stream.ended
        report(method, path, stream)
        return stream

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for stream in self.streams.values():
                for future in (stream.begun, stream.ended):
                    if not future.done():
                        future.set_exception(ConnectionError(f"{event.error_code:#x} {event.reason_phrase}"))
        if isinstance(event, StreamReset) and event.stream_id in self.streams:
            stream = self.streams[event.stream_id]
            if not stream.ended.done():
                stream.ended.set_exception(ConnectionError(f"reset {event.error_code:#x}"))
        for http in self.http.handle_event(event):
            stream = self.streams.get(getattr(http, "stream_id", None))
            if stream is None:
                continue
            if isinstance(http, HeadersReceived):
                fields = dict(http.headers)
                stream.status = int(fields.get(b":status", stream.status))
                stream.fields.update(fields)
            if isinstance(http, DataReceived):
                stream.length += len(http.data)
                stream.digest.update(http.data)
                if http.data and not stream.begun.done():
                    stream.begun.set_result(None)
            if http.stream_ended and not stream.ended.done():
                stream.ended.set_result(None)


def report(method, path, stream):
    path = path.split("?")[0]
    print(f"{method} {path} {stream.status} {stream.length} {stream.digest.hexdigest()[:16]}")


def configuration(**options):
    return QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=0, server_name="localhost", **options)


def connection(port, config=None, **options):
    return connect("127.0.0.1", port, configuration=config or configuration(), create_protocol=Client, **options)


async def get(port, mark):
    async with connection(port) as client:
        await client.request("GET", f"/small{mark}")


async def get_large(port, mark):
    async with connection(port) as client:
        await client.request("GET", f"/large{mark}")


async def range_(port, mark):
    async with connection(port) as client:
        await client.request("GET", f"/large{mark}", more=[(b"range", b"bytes=1000-1999")])


async def missing(port, mark):
    async with connection(port) as client:
        await client.request("GET", f"/none{mark}")


async def upload(port, mark):
    async with connection(port) as client:
        await client.request("POST", f"/digest{mark}", UPLOAD)


async def echo(port, mark):
    async with connection(port) as client:
        await client.request("POST", f"/echo{mark}", UPLOAD)


async def fields(port, mark):
    async with connection(port) as client:
        # The second one by the table.
        for _ in range(2):
            await client.request("GET", f"/small{mark}", more=[COOKIE])


async def streams(port, mark):
    async with connection(port) as client:
        # The library holds back those that the server does not allow yet.
        await asyncio.gather(*(client.request("GET", f"/small{mark}") for _ in range(300)))


async def mixed(port, mark):
    async with connection(port) as client:
        await asyncio.gather(*(client.request("GET", f"/large{mark}") for _ in range(3)),
                             *(client.request("POST", f"/digest{mark}", UPLOAD) for _ in range(3)))


async def cancel(port, mark):
    async with connection(port) as client:
        for _ in range(20):
            number = client.begin("GET", f"/large{mark}")
            await client.streams[number].begun
            client._quic.stop_stream(number, ErrorCode.H3_REQUEST_CANCELLED)
            client.transmit()
            del client.streams[number]
        await client.request("GET", f"/small{mark}")


async def abandon(port, mark):
    """Gives up requests in the packet that begins them: the server's limit of streams moves on all the same."""
    async with connection(port) as client:
        for count in range(300):
            number = client._quic.get_next_available_stream_id()
            client.http.send_headers(number, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"),
                                              (b":path", f"/large{mark}".encode())])
            client._quic.reset_stream(number, ErrorCode.H3_REQUEST_CANCELLED)
            client._quic.stop_stream(number, ErrorCode.H3_REQUEST_CANCELLED)
            if count % 50 == 49:
                # A round trip.
                client.transmit()
                await client.ping()
        await client.request("GET", f"/small{mark}")


async def key_update(port, mark):
    async with connection(port) as client:
        for _ in range(3):
            await client.request("GET", f"/large{mark}")
            client.request_key_update()


async def rebind(client):
    """Gives the client another socket, as a NAT does that forgets."""
    fresh = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    fresh.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    fresh.bind(("::", 0))
    loop = asyncio.get_running_loop()
    old = client._transport

    class Forward(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            client.datagram_received(data, address)

    client._transport, _ = await loop.create_datagram_endpoint(Forward, sock=fresh)
    return old


async def migration(port, mark, changes_number=True):
    async with connection(port) as client:
        number = client.begin("GET", f"/large{mark}")
        await client.streams[number].begun
        old = await rebind(client)
        if changes_number:
            client.change_connection_id()
        # A server may send three times what it has received to an address that it has not validated: small packets alone
        # would not do for its own validation.
        await client.request("GET", f"/small{mark}", more=[COOKIE])
        await client.streams[number].ended
        report("GET", "/large", client.streams[number])
        old.close()


async def rebinding(port, mark):
    await migration(port, mark, changes_number=False)


async def resumption(port, mark, early=False):
    tickets = []
    config = configuration()
    async with connection(port, config, session_ticket_handler=tickets.append) as client:
        await client.request("GET", f"/small{mark}")
        # Tickets come in their own time.
        while not tickets:
            await client.ping()
    config = configuration(session_ticket=tickets[-1])
    async with connection(port, config, wait_connected=not early) as client:
        stream = client.begin("GET", f"/small{mark}")
        await client.streams[stream].ended
        report("GET", "/small", client.streams[stream])
        print("resumed", client._quic.tls.session_resumed)
        if early:
            print("early data", client._quic.tls.early_data_accepted)


async def early_data(port, mark):
    await resumption(port, mark, early=True)


async def chacha20(port, mark):
    config = configuration(cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256])
    async with connection(port, config) as client:
        await client.request("GET", f"/large{mark}")


async def version(port, mark):
    """Offers an unknown version first: the server names its own (RFC 9000 section 6)."""
    config = configuration(original_version=0x1A2A3A4A,
                           supported_versions=[0x1A2A3A4A, QuicProtocolVersion.VERSION_1])
    async with connection(port, config) as client:
        await client.request("GET", f"/small{mark}")


CASES = {name.rstrip("_").replace("_", "-"): case for name, case in list(globals().items())
         if asyncio.iscoroutinefunction(case) and name not in ("rebind",)}


async def main():
    port, case = int(sys.argv[1]), sys.argv[2]
    await asyncio.wait_for(CASES[case](port, f"?aioquic-{case}"), PATIENCE)


if __name__ == "__main__":
    if sys.argv[1:] == ["cases"]:
        print(*CASES)
    else:
        asyncio.run(main())
        # Its threads and sockets end with the process.
        sys.stdout.flush()
        os._exit(0)
