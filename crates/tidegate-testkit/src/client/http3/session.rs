//! A connection of QUIC over a socket: its thread, and what other threads do with it under its lock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};

use super::control::Control;
use super::tls::{Resumed, settings};
use super::{Memory, Target};
use crate::bell::{Deadline, Failure, locked};

/// The guess of a round trip before one is measured, which decides when first packets are sent again.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The connection's own time without packets, longer than a case.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Bytes of all streams that may be received before they are read.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65536;
/// Taken from a stream at once.
const CHUNK_BYTES: usize = 16 << 10;

/// A connection that its threads share.
pub(super) struct Session {
    pub(super) state: Mutex<State>,
    /// Notified after each event.
    pub(super) changed: Condvar,
    pub(super) deadline: Deadline,
}

/// The state of a connection.
pub(super) struct State {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) quic: Connection,
    socket: Arc<UdpSocket>,
    /// Sends empty datagrams to `socket`, which wake its thread.
    waker: UdpSocket,
    pub(super) tickets: Arc<Resumed>,
    pub(super) control: Control,
    /// Streams that the server reset, with their codes.
    pub(super) resets: BTreeMap<StreamId, u64>,
    /// Streams that the server stopped, with their codes.
    pub(super) stops: BTreeMap<StreamId, u64>,
    /// Streams that scripts opened by name.
    pub(super) names: BTreeMap<String, StreamId>,
    /// What streams of scripts have received and not used, and whether they have ended.
    pub(super) received: BTreeMap<StreamId, (Vec<u8>, bool)>,
    /// Requests whose response is not complete.
    pub(super) open: BTreeSet<StreamId>,
    /// The newest request of each client.
    pub(super) newest: BTreeMap<u64, StreamId>,
    /// The sockets of the clients.
    pub(super) clients: BTreeMap<u64, UnixStream>,
    /// The threads that write responses.
    pub(super) writers: Vec<JoinHandle<()>>,
    pub(super) is_connected: bool,
    /// Retry packets, packets of version negotiation, and datagrams that were received.
    pub(super) retries: i64,
    pub(super) negotiations: i64,
    pub(super) datagrams: i64,
    pub(super) closed: Option<ConnectionError>,
    /// A violation of the protocol by the server.
    pub(super) fault: Option<String>,
}

/// What a stream gives when it is read.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    End,
    /// It was reset, or never will give anything.
    Over,
    /// Nothing for now.
    None,
}

impl Session {
    /// Begins a connection.
    pub(super) fn begin(target: &Target<'_>, memory: &Memory) -> Result<Arc<Self>, Failure> {
        let options = target.options;
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format!("cannot connect: {error}"));
        let mut address = target.address;
        if options.is_ipv6 {
            address.set_ip(Ipv6Addr::LOCALHOST.into());
        }
        let socket = socket(loopback(address)).map_err(|error| failed(&error))?;
        let waker = self::socket(loopback(address)).map_err(|error| failed(&error))?;
        let tickets = Resumed::new(memory.tickets.clone(), options.resumes);
        let tls = settings(options, target.directory, &tickets, &memory.settings)?;
        let mut config = ClientConfig::new(tls);
        config.token_store(memory.tokens.clone());
        config.transport_config(transport(options.window));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let begun = endpoint.connect(Instant::now(), config, address, &options.name);
        let (handle, quic) = begun.map_err(|error| failed(&error))?;
        let state = State {
            endpoint,
            handle,
            quic,
            socket: Arc::new(socket),
            waker,
            tickets,
            control: Control::new(options),
            resets: BTreeMap::new(),
            stops: BTreeMap::new(),
            names: BTreeMap::new(),
            received: BTreeMap::new(),
            open: BTreeSet::new(),
            newest: BTreeMap::new(),
            clients: BTreeMap::new(),
            writers: Vec::new(),
            is_connected: false,
            retries: 0,
            negotiations: 0,
            datagrams: 0,
            closed: None,
            fault: None,
        };
        let deadline = target.deadline;
        let session =
            Arc::new(Session { state: Mutex::new(state), changed: Condvar::new(), deadline });
        if options.is_early {
            let mut state = locked(&session.state);
            if !state.quic.has_0rtt() {
                return Err(Failure::new("no ticket for early data"));
            }
            state.begin_streams();
        }
        let driver = session.clone();
        std::thread::spawn(move || driver.drive());
        Ok(session)
    }

    /// Receives and keeps the timers until the connection is over.
    fn drive(self: Arc<Self>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while let Ok(left) = self.deadline.remaining() {
            let mut state = locked(&self.state);
            state.turn();
            self.changed.notify_all();
            if state.is_over() {
                break;
            }
            let until = state.quic.poll_timeout();
            let (socket, waker) = (state.socket.clone(), state.waker.local_addr());
            drop(state);
            let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = wait.map_or(left, |wait| wait.min(left)).max(Duration::from_micros(100));
            let _ = socket.set_read_timeout(Some(wait));
            let Ok((count, from)) = socket.recv_from(&mut buffer) else { continue };
            if waker.is_ok_and(|waker| waker == from) {
                continue;
            }
            locked(&self.state).receive(from, &buffer[..count]);
        }
        self.end();
    }

    fn end(&self) {
        let mut state = locked(&self.state);
        if state.closed.is_none() {
            state.closed = Some(ConnectionError::LocallyClosed);
        }
        let writers = std::mem::take(&mut state.writers);
        drop(state);
        self.changed.notify_all();
        // Clients read what was sent to them before the end.
        writers.into_iter().for_each(|writer| drop(writer.join()));
        let state = locked(&self.state);
        for client in state.clients.values() {
            let _ = client.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Sends what is to be sent after a change, and wakes all threads.
    pub(super) fn flush(&self, state: &mut State) {
        state.turn();
        let _ = state.socket.local_addr().map(|address| state.waker.send_to(b"", address));
        self.changed.notify_all();
    }

    /// Waits for the next event.
    pub(super) fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, Failure> {
        let waited = self.changed.wait_timeout(state, self.deadline.remaining()?);
        Ok(waited.map_err(|_| Failure::new("a thread of the client panicked"))?.0)
    }

    /// Waits until `found` returns a value; with `None` at the connection's end that is a failure.
    pub(super) fn wait_for<T>(
        &self,
        what: &str,
        mut found: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut state = locked(&self.state);
        loop {
            if let Some(value) = found(&mut state) {
                return Ok(value);
            }
            if state.is_over() {
                let ending = state.ending().unwrap_or_default();
                return Err(Failure::new(format!("waiting for {what}: {ending}")));
            }
            state =
                self.wait(state).map_err(|failure| Failure::new(format!("{what}: {failure}")))?;
        }
    }

    /// Opens a stream as soon as the server allows one more.
    pub(super) fn open(&self, direction: Dir) -> Result<StreamId, Failure> {
        self.wait_for("a stream", |state| state.quic.streams().open(direction))
    }

    /// Sends bytes on a stream as windows allow. A stream that is stopped or over takes all.
    pub(super) fn write(&self, stream: StreamId, bytes: &[u8], ends: bool) -> Result<(), Failure> {
        let mut state = locked(&self.state);
        let mut rest = bytes;
        loop {
            match state.quic.send_stream(stream).write(rest) {
                _ if rest.is_empty() => {}
                Ok(count) => rest = &rest[count..],
                Err(WriteError::Blocked) if !state.is_over() => {
                    self.flush(&mut state);
                    state = self.wait(state)?;
                    continue;
                }
                Err(_) => rest = &[],
            }
            if rest.is_empty() {
                if ends {
                    let _ = state.quic.send_stream(stream).finish();
                }
                self.flush(&mut state);
                return Ok(());
            }
        }
    }

    /// Closes the connection.
    pub(super) fn close(&self, code: u64, reason: &[u8]) {
        let mut state = locked(&self.state);
        if state.is_over() {
            return;
        }
        let code = VarInt::from_u64(code).unwrap_or_default();
        state.quic.close(Instant::now(), code, bytes_of(reason));
        state.turn();
        state.closed = Some(ConnectionError::LocallyClosed);
        self.flush(&mut state);
    }

    /// Returns how the connection ended, if it has, or the newest request of a client.
    pub(super) fn ending(&self, client: u64) -> Option<String> {
        let state = locked(&self.state);
        let reset = state.newest.get(&client).and_then(|stream| state.resets.get(stream));
        let reset = reset.map(|code| {
            format!("the request was reset with {} (0x{code:x})", tidegate_h3::ErrorCode(*code))
        });
        state.ending().or(reset)
    }
}

impl State {
    /// Whether nothing will be received any more.
    pub(super) fn is_over(&self) -> bool {
        self.closed.is_some() || self.fault.is_some()
    }

    pub(super) fn ending(&self) -> Option<String> {
        match (&self.fault, &self.closed) {
            (Some(fault), _) => Some(format!("the server violated the protocol: {fault}")),
            (None, Some(error)) => Some(format!("the connection has ended: {}", described(error))),
            (None, None) => None,
        }
    }

    /// Takes a datagram.
    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        self.datagrams += 1;
        if let Some((first @ 0x80.., rest)) = datagram.split_first() {
            self.negotiations += i64::from(rest.starts_with(&[0; 4]));
            self.retries += i64::from(rest.starts_with(&[0, 0, 0, 1]) && first & 0x30 == 0x30);
        }
        let mut scratch = Vec::new();
        let bytes = datagram.into();
        let event = self.endpoint.handle(Instant::now(), from, None, None, bytes, &mut scratch);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
    }

    /// Handles timers and events, and sends.
    pub(super) fn turn(&mut self) {
        let now = Instant::now();
        if self.quic.poll_timeout().is_some_and(|at| at <= now) {
            self.quic.handle_timeout(now);
        }
        self.endpoint_events();
        while let Some(event) = self.quic.poll() {
            self.event(event);
        }
        self.send_confirmations();
        let mut datagram = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(now, 1, &mut datagram) {
            let _ = self.socket.send_to(&datagram[..transmit.size], transmit.destination);
            datagram.clear();
        }
        self.endpoint_events();
    }

    fn endpoint_events(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected => {
                self.is_connected = true;
                self.begin_streams();
            }
            Event::ConnectionLost { reason } => {
                self.closed.get_or_insert(reason);
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
                    self.control.opened(stream);
                    self.read_control(stream);
                }
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                self.fault = Some("a stream in both directions".to_owned());
            }
            Event::Stream(StreamEvent::Readable { id }) if self.control.has(id) => {
                self.read_control(id);
            }
            Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                self.stops.insert(id, error_code.into_inner());
            }
            _ => {}
        }
    }

    /// Reads a part of a stream.
    pub(super) fn read(&mut self, stream: StreamId) -> Piece {
        let mut receiving = self.quic.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return Piece::Over };
        let read = chunks.next(CHUNK_BYTES);
        let _ = chunks.finalize();
        match read {
            Ok(Some(chunk)) => Piece::Bytes(chunk.bytes.to_vec()),
            Ok(None) => Piece::End,
            Err(quinn_proto::ReadError::Reset(code)) => {
                self.resets.insert(stream, code.into_inner());
                Piece::Over
            }
            Err(quinn_proto::ReadError::Blocked) => Piece::None,
        }
    }

    /// Reads all that a stream of a script has received.
    pub(super) fn pull(&mut self, stream: StreamId) {
        loop {
            match self.read(stream) {
                Piece::Bytes(bytes) => self.received.entry(stream).or_default().0.extend(bytes),
                Piece::End => self.received.entry(stream).or_default().1 = true,
                Piece::Over | Piece::None => return,
            }
        }
    }

    /// Goes on from another port, or another address.
    pub(super) fn rebind(&mut self, address: Option<IpAddr>) -> std::io::Result<()> {
        let ip = address.unwrap_or(self.socket.local_addr()?.ip());
        let old = self.socket.local_addr()?;
        self.socket = Arc::new(socket(ip)?);
        self.quic.local_address_changed();
        // The thread waits at the old one.
        self.waker.send_to(b"", old).map(drop)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

fn described(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            let code = close.error_code.into_inner();
            let reason = String::from_utf8_lossy(&close.reason);
            format!("closed with {} (0x{code:x}) {reason:?}", tidegate_h3::ErrorCode(code))
        }
        ConnectionError::ConnectionClosed(close) => {
            let code = u64::from(close.error_code);
            let reason = String::from_utf8_lossy(&close.reason);
            format!("closed by QUIC with 0x{code:x} {reason:?}")
        }
        other => other.to_string(),
    }
}

fn transport(window: u32) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(window.into());
    config.receive_window(CONNECTION_WINDOW.into());
    config.initial_rtt(INITIAL_RTT);
    config.mtu_discovery_config(None);
    config.enable_segmentation_offload(false);
    config.max_idle_timeout(IDLE_MAX.try_into().ok());
    Arc::new(config)
}

/// The loopback address of the same family.
fn loopback(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

fn socket(ip: IpAddr) -> std::io::Result<UdpSocket> {
    UdpSocket::bind((ip, 0))
}

fn bytes_of(text: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(text)
}
