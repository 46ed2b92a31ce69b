//! An entry point for fuzzers; a plain function, so that ordinary tests replay a corpus through it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use quinn_proto::coding::Codec;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamEvent, StreamId,
    VarInt,
};
use tidegate_rt::clock;
use tidegate_tls::quic::{QuicHandshakes, QuicHello, QuicServers};
use tidegate_tls::{
    Groups, KeyPair, ServerOptions, ServerProtocols, Stapled, TlsOptions, TlsSettings,
};

use crate::address::PeerAddress;
use crate::numbers::{self, Numbers};
use crate::settings::{ClientSettings, Keys, Limits, ServerSettings};

pub(crate) const NAME: &str = "fuzz.test";
/// Datagrams and deadlines of a run.
const STEPS_MAX: usize = 400;
/// What the client sends on a stream, which the server sends back, bytes.
const CONTENT_BYTES: usize = 40_000;
/// Bytes that a server sends for one of a client whose address is not validated (RFC 9000 section 8.1).
const AMPLIFICATION_MAX: usize = 3;

/// Settings of both sides.
pub(crate) struct World {
    pub(crate) keys: Keys,
    pub(crate) server: ServerSettings,
    pub(crate) client: ClientSettings,
}

static WORLD: LazyLock<Option<World>> = LazyLock::new(world);

/// A connection over a link that the data decides: each datagram is delivered, lost, repeated, damaged, cut, held back or
/// sent by another address; others are made up. Whatever the link does: no side panics, the server sends an unvalidated
/// client no more than three times what it has received, and bytes that arrive are those that were sent.
pub fn fuzz_packets(data: &[u8]) {
    let Some(world) = &*WORLD else { return };
    let mut link = Link::new(world, Input(data));
    for _ in 0..STEPS_MAX {
        if link.input.0.is_empty() || !link.step() {
            return;
        }
    }
}

pub(crate) fn world() -> Option<World> {
    let keys = Keys::derive(b"the secret of fuzzers");
    let limits = Limits { stream_bytes: 8 << 10, ..Limits::default() };
    let handshakes = QuicHandshakes::new(Arc::new(OneServer(server_tls()?)), 2).ok()?;
    let server = ServerSettings::new(Arc::new(handshakes), &keys, &limits);
    let suites = tidegate_tls::cipher_suites::tls12("DEFAULT");
    let options =
        TlsOptions { tls12: true, tls13: true, suites, server_name: true, ..TlsOptions::default() };
    let tls = TlsSettings::new(&options).ok()?;
    let client = ClientSettings::new(&tls, vec![b"fuzz".to_vec()], &limits).ok()?;
    Some(World { keys, server, client })
}

struct OneServer(Arc<tidegate_tls::ServerSettings>);

impl QuicServers for OneServer {
    fn choose(&self, hello: &QuicHello) -> Option<Arc<tidegate_tls::ServerSettings>> {
        (hello.server_name.as_deref() == Some(NAME)).then(|| self.0.clone())
    }
}

fn server_tls() -> Option<Arc<tidegate_tls::ServerSettings>> {
    let key = rcgen::KeyPair::generate().ok()?;
    let params = rcgen::CertificateParams::new(vec![NAME.to_owned()]).ok()?;
    let der = params.self_signed(&key).ok()?.der().to_vec();
    let key = tidegate_tls::pem::private_key(key.serialize_pem().as_bytes(), &[]).ok()?;
    let pair = KeyPair::new(vec![der], &key).ok()?;
    let suites = tidegate_tls::cipher_suites::tls12("DEFAULT");
    let options = ServerOptions {
        protocols: ServerProtocols::new(true, true, &suites, None, Groups::default()).ok()?,
        certificates: vec![Arc::new(Stapled::new(pair))],
        clients: None,
        alpn: Vec::new(),
        prefers_own_suites: false,
        record_bytes_max: 16 * 1024,
        session_timeout: Duration::from_secs(60),
        sessions: None,
        tickets: None,
        early_data: false,
        compresses_certificates: false,
        key_log: None,
    };
    let settings = tidegate_tls::ServerSettings::new(options);
    Some(Arc::new(settings.for_quic(vec![b"fuzz".to_vec()], false)))
}

/// One side, with its only connection.
struct Side {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    address: SocketAddr,
}

/// A datagram on its way.
struct Datagram {
    to_server: bool,
    from: SocketAddr,
    bytes: Vec<u8>,
}

struct Link<'d> {
    input: Input<'d>,
    client: Side,
    server: Side,
    flying: VecDeque<Datagram>,
    now: Instant,
    content: Vec<u8>,
    stream: Option<StreamId>,
    sent: usize,
    /// Bytes that the server has read and not yet sent back.
    echo: VecDeque<u8>,
    returned: usize,
    address: PeerAddress,
    /// Bytes that the server has received and sent while the client's first address is not validated.
    unvalidated: Option<(usize, usize)>,
    /// The client's Handshake packets: each shows that it receives at its address (RFC 9000 section 8.1).
    proofs: Vec<Vec<u8>>,
}

impl<'d> Link<'d> {
    fn new(world: &World, mut input: Input<'d>) -> Link<'d> {
        let now = clock::exact_now();
        let [here, there] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let side = |thread, address, server: Option<&ServerSettings>| {
            let numbers = Numbers::new(world.keys.0.numbers, thread, 2);
            let config = numbers::configuration(&numbers, world.keys.0.reset.clone());
            let server = server.map(|server| server.0.clone());
            let endpoint = Endpoint::new(Arc::new(config), server, true, None);
            Side { endpoint, connection: None, address }
        };
        let mut client = side(0, here, None);
        let name = if input.byte() == 0xff { "other.test" } else { NAME };
        let opened = client.endpoint.connect(now, world.client.0.clone(), there, name);
        client.connection = opened.ok();
        let content = (0..CONTENT_BYTES).map(|at| (at ^ (at >> 8)) as u8).collect();
        Link {
            input,
            client,
            server: side(1, there, Some(&world.server)),
            flying: VecDeque::new(),
            now,
            content,
            stream: None,
            sent: 0,
            echo: VecDeque::new(),
            returned: 0,
            address: PeerAddress::new(here),
            unvalidated: Some((0, 0)),
            proofs: Vec::new(),
        }
    }

    /// Takes one step; `false` where nothing can happen any more.
    fn step(&mut self) -> bool {
        self.run_sides();
        let choice = self.input.byte();
        match self.flying.pop_front() {
            Some(datagram) => self.carry(datagram, choice),
            None => return self.wait(),
        }
        true
    }

    /// What happens to a datagram.
    fn carry(&mut self, mut datagram: Datagram, choice: u8) {
        match choice {
            0..150 => self.deliver(datagram),
            150..170 => {}
            170..185 => {
                let twin = Datagram { bytes: datagram.bytes.clone(), ..datagram };
                self.deliver(twin);
                self.flying.push_back(datagram);
            }
            185..205 => {
                let (at, by) = (usize::from(self.input.byte()), self.input.byte());
                let at = at * datagram.bytes.len() / 256;
                if let Some(byte) = datagram.bytes.get_mut(at) {
                    *byte ^= by;
                }
                self.deliver(datagram);
            }
            205..215 => {
                let length = usize::from(self.input.byte()) * datagram.bytes.len() / 256;
                datagram.bytes.truncate(length);
                self.deliver(datagram);
            }
            215..230 => self.flying.push_back(datagram),
            230..240 => {
                self.flying.push_front(datagram);
                let made_up = Datagram {
                    to_server: self.input.byte() & 1 == 0,
                    from: self.client.address,
                    bytes: self.input.bytes().to_vec(),
                };
                self.deliver(made_up);
            }
            240..248 => {
                // The client has another address, or another sender repeats its packet.
                datagram.from.set_port(u16::from(self.input.byte()) + 1000);
                if choice & 1 == 0 && datagram.to_server {
                    self.client.address = datagram.from;
                }
                self.deliver(datagram);
            }
            248.. => {
                self.now += Duration::from_millis(u64::from(self.input.byte()) * 4);
                self.flying.push_front(datagram);
            }
        }
    }

    fn deliver(&mut self, datagram: Datagram) {
        let side = if datagram.to_server { &mut self.server } else { &mut self.client };
        if let (true, Some((received, _))) = (datagram.to_server, &mut self.unvalidated) {
            *received += datagram.bytes.len();
            let holds = |proof: &Vec<u8>| datagram.bytes.windows(proof.len()).any(|at| at == proof);
            if self.proofs.iter().any(holds) {
                self.unvalidated = None;
            }
        }
        let bytes = BytesMut::from(&datagram.bytes[..]);
        let mut reply = Vec::new();
        match side.endpoint.handle(self.now, datagram.from, None, None, bytes, &mut reply) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((own, connection)) = &mut side.connection
                    && *own == handle
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if side.connection.is_none() => {
                reply.clear();
                match side.endpoint.accept(incoming, self.now, &mut reply, None) {
                    Ok(accepted) => side.connection = Some(accepted),
                    Err(error) => {
                        let length = error.response.map_or(0, |response| response.size);
                        self.send(!datagram.to_server, &reply, length);
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                reply.clear();
                let refused = side.endpoint.refuse(incoming, &mut reply);
                self.send(!datagram.to_server, &reply, refused.size);
            }
            Some(DatagramEvent::Response(response)) => {
                self.send(!datagram.to_server, &reply, response.size);
            }
            None => {}
        }
    }

    fn send(&mut self, to_server: bool, bytes: &[u8], length: usize) {
        let from = if to_server { self.client.address } else { self.server.address };
        let bytes = bytes.get(..length).unwrap_or(bytes).to_vec();
        if to_server && self.unvalidated.is_some() {
            self.proofs.extend(handshake_packets(&bytes).map(<[u8]>::to_vec));
        }
        self.flying.push_back(Datagram { to_server, from, bytes });
    }

    /// Runs both connections: deadlines that have passed, events, streams, datagrams to be sent.
    fn run_sides(&mut self) {
        for is_server in [false, true] {
            let side = if is_server { &mut self.server } else { &mut self.client };
            let Some((handle, mut connection)) = side.connection.take() else { continue };
            while connection.poll_timeout().is_some_and(|at| at <= self.now) {
                connection.handle_timeout(self.now);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                let reply = side.endpoint.handle_event(handle, event);
                if let Some(reply) = reply {
                    connection.handle_event(reply);
                }
            }
            match is_server {
                true => self.serve(&mut connection),
                false => self.use_stream(&mut connection),
            }
            let mut buffer = Vec::new();
            while let Some(transmit) = connection.poll_transmit(self.now, 1, &mut buffer) {
                if is_server && let Some((received, sent)) = &mut self.unvalidated {
                    *sent += transmit.size;
                    // The datagram that exceeds the limit may be begun below it.
                    assert!(*sent <= *received * AMPLIFICATION_MAX + transmit.size, "amplified");
                }
                self.send(!is_server, &buffer, transmit.size);
                buffer.clear();
            }
            let side = if is_server { &mut self.server } else { &mut self.client };
            side.connection = Some((handle, connection));
        }
    }

    fn serve(&mut self, connection: &mut Connection) {
        self.address.observe(connection.remote_address(), self.now, connection.rtt());
        while let Some(event) = connection.poll() {
            if matches!(event, Event::Stream(StreamEvent::Opened { .. })) {
                self.stream = connection.streams().accept(Dir::Bi).or(self.stream);
            }
        }
        let Some(id) = self.stream else { return };
        if let Ok(mut chunks) = connection.recv_stream(id).read(true) {
            while let Ok(Some(chunk)) = chunks.next(4096) {
                self.echo.extend(chunk.bytes.iter());
            }
            let _ = chunks.finalize();
        }
        let bytes = self.echo.make_contiguous();
        if !bytes.is_empty()
            && let Ok(count) = connection.send_stream(id).write(bytes)
        {
            self.echo.drain(..count);
        }
    }

    fn use_stream(&mut self, connection: &mut Connection) {
        while connection.poll().is_some() {}
        let id = StreamId::from(VarInt::from_u32(0));
        if self.sent == 0 && connection.streams().open(Dir::Bi).is_none() {
            return;
        }
        if let Some(rest) = self.content.get(self.sent..).filter(|rest| !rest.is_empty())
            && let Ok(count) = connection.send_stream(id).write(rest)
        {
            self.sent += count;
        }
        if let Ok(mut chunks) = connection.recv_stream(id).read(true) {
            while let Ok(Some(chunk)) = chunks.next(4096) {
                let end = self.returned + chunk.bytes.len();
                assert_eq!(self.content.get(self.returned..end), Some(&chunk.bytes[..]));
                self.returned = end;
            }
            let _ = chunks.finalize();
        }
    }

    /// Nothing flies: waits for the next deadline.
    fn wait(&mut self) -> bool {
        let sides = [&mut self.client, &mut self.server];
        let connections = sides.into_iter().filter_map(|side| side.connection.as_mut());
        let next = connections.filter_map(|(_, connection)| connection.poll_timeout()).min();
        if let Some(next) = next {
            self.now = self.now.max(next);
        }
        next.is_some()
    }
}

struct Input<'d>(&'d [u8]);

impl<'d> Input<'d> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self) -> &'d [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

/// The Handshake packets of a datagram (RFC 9000 sections 12.2 and 17.2).
fn handshake_packets(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    let packets = std::iter::from_fn(move || {
        let (packet, kind) = long_packet(rest)?;
        rest = rest.get(packet.len()..)?;
        Some((packet, kind))
    });
    packets.filter(|(_, kind)| *kind == 2).map(|(packet, _)| packet)
}

/// The packet with a long header that begins a datagram, and its type.
fn long_packet(datagram: &[u8]) -> Option<(&[u8], u8)> {
    let mut rest = datagram;
    let first = rest.try_get_u8().ok().filter(|first| first & 0x80 != 0)?;
    let kind = first >> 4 & 3;
    rest.try_get_u32().ok()?;
    for _ in 0..2 {
        let length = rest.try_get_u8().ok()?;
        rest = rest.get(usize::from(length)..)?;
    }
    if kind == 0 {
        let length = VarInt::decode(&mut rest).ok()?.into_inner();
        rest = rest.get(usize::try_from(length).ok()?..)?;
    }
    let length = usize::try_from(VarInt::decode(&mut rest).ok()?.into_inner()).ok()?;
    Some((datagram.get(..datagram.len() - rest.len() + length)?, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_delivers_brings_all_bytes_back() {
        let world = WORLD.as_ref().expect("a world");
        let bytes = [0; STEPS_MAX];
        let mut link = Link::new(world, Input(&bytes));
        while link.returned < CONTENT_BYTES && !link.input.0.is_empty() && link.step() {}
        assert_eq!((link.returned, link.unvalidated), (CONTENT_BYTES, None));
    }
}
