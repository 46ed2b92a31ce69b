//! From a client to streams: requests that it writes as HTTP/1, and the operations of scripts on the connection.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use quinn_proto::{ConnectionError, Dir, StreamId, VarInt};
use tidegate_codec::Known;
use tidegate_h3::frame::write;
use tidegate_h3::qpack::Indexing;

use super::REQUEST_CANCELLED;
use super::control::{DATA, number};
use super::session::{Session, State};
use super::words::{Closing, Count, QuicOp};
use crate::bell::{Failure, locked};
use crate::wire::{Framing, Message, Stream, Wire};
use crate::words::shown;

impl Session {
    /// Adds a client, whose requests arrive at `socket`.
    pub(super) fn add_client(self: &Arc<Self>, socket: UnixStream) -> Result<u64, Failure> {
        let twin = socket.try_clone().map_err(|error| Failure::new(error.to_string()))?;
        let mut state = locked(&self.state);
        let client = state.clients.len() as u64;
        if state.is_over() {
            let _ = twin.shutdown(Shutdown::Write);
        }
        state.clients.insert(client, twin);
        drop(state);
        let session = self.clone();
        std::thread::spawn(move || session.requests(client, socket));
        Ok(client)
    }

    /// Passes the requests of a client on, until it closes.
    fn requests(self: Arc<Self>, client: u64, socket: UnixStream) {
        let Ok(into) = socket.try_clone() else { return };
        let mut wire = Wire::new(Stream::Unix(socket), self.deadline);
        while let Ok(Some(message)) = wire.take_head() {
            if self.request(client, message, &mut wire).is_err() {
                break;
            }
        }
        let mut state = locked(&self.state);
        if let Some(stream) = state.newest.get(&client).copied()
            && state.open.contains(&stream)
        {
            state.reset(stream, REQUEST_CANCELLED);
            state.stop(stream, REQUEST_CANCELLED);
            self.flush(&mut state);
        }
        drop(state);
        let _ = into.shutdown(Shutdown::Both);
    }

    fn request(
        self: &Arc<Self>,
        client: u64,
        mut message: Message,
        wire: &mut Wire,
    ) -> Result<(), Failure> {
        message.frame(false)?;
        if message.values("Protocol").next().is_some() {
            // SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220).
            self.wait_for("extended CONNECT", |state| {
                let settings = state.control.settings.as_ref()?;
                settings.get(&0x8).copied().filter(|enabled| *enabled == 1)
            })?;
        }
        let stream = self.open(Dir::Bi)?;
        let head = self.head(stream, &message);
        let mut ended = message.framing == Framing::Complete;
        let is_head_request = message.start.starts_with("HEAD ");
        self.respond(client, stream, is_head_request)?;
        self.write(stream, &head, ended)?;
        while !ended {
            let before = message.body.len();
            message.read_body(wire, before + 1)?;
            ended = message.framing == Framing::Complete;
            let piece = &message.body[before..];
            if !ended && piece.is_empty() {
                return Err(Failure::new("the client closed within a body"));
            }
            let mut bytes = Vec::new();
            if !piece.is_empty() {
                write::header(&mut bytes, DATA, piece.len() as u64);
                bytes.extend_from_slice(piece);
            }
            if ended && !message.trailers.is_empty() {
                bytes.extend(self.section(stream, &message.trailers));
            }
            self.write(stream, &bytes, ended)?;
        }
        Ok(())
    }

    /// The HEADERS frame of a request.
    fn head(&self, stream: StreamId, message: &Message) -> Vec<u8> {
        let mut words = message.start.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let protocol = message.values("Protocol").next();
        let host = message.values("Host").next().unwrap_or_default();
        let mut fields = vec![(":method".to_owned(), method.as_bytes().to_vec())];
        if method != "CONNECT" || protocol.is_some() {
            fields.push((":scheme".to_owned(), b"https".to_vec()));
            fields.push((":path".to_owned(), path.as_bytes().to_vec()));
        }
        fields.push((":authority".to_owned(), host.to_vec()));
        fields.extend(protocol.map(|protocol| (":protocol".to_owned(), protocol.to_vec())));
        let is_of_connection = |name: &str| {
            ["host", "protocol", "transfer-encoding"].iter().any(|n| name.eq_ignore_ascii_case(n))
        };
        fields.extend(message.fields.iter().filter(|field| !is_of_connection(&field.0)).cloned());
        self.section(stream, &fields)
    }

    /// Encodes a field section, whose insertions are sent before it.
    fn section(&self, stream: StreamId, fields: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut state = locked(&self.state);
        let encoder = &mut state.control.encoder;
        encoder.begin(number(stream));
        let mut lines = Vec::new();
        for (name, value) in fields {
            let name = name.to_ascii_lowercase().into_bytes();
            encoder.field(Known::of(&name), &name, value, Indexing::Incremental, &mut lines);
        }
        let (mut prefix, mut insertions) = (Vec::new(), Vec::new());
        encoder.finish(&mut prefix);
        encoder.take_output(&mut insertions);
        if let Some(stream) = state.control.encoder_stream {
            state.write_now(stream, &insertions);
        }
        let mut bytes = Vec::new();
        write::headers(&mut bytes, &prefix, &lines);
        bytes
    }

    /// Runs an operation of a client.
    pub(super) fn run(self: &Arc<Self>, client: u64, op: &QuicOp) -> Result<(), Failure> {
        match op {
            QuicOp::Open { name, is_uni, bytes, ends } => {
                let stream = self.open(if *is_uni { Dir::Uni } else { Dir::Bi })?;
                locked(&self.state).names.insert(name.clone(), stream);
                self.write(stream, bytes, *ends)
            }
            QuicOp::Request { bytes, ends } => {
                let stream = self.open(Dir::Bi)?;
                self.respond(client, stream, false)?;
                self.write(stream, bytes, *ends)
            }
            QuicOp::Send { name, bytes, ends } => {
                let stream = self.named(client, name)?;
                self.write(stream, bytes, *ends)
            }
            QuicOp::Reset { name, code } => {
                let stream = self.named(client, name)?;
                self.change(|state| state.reset(stream, *code));
                Ok(())
            }
            QuicOp::Stop { name, code } => {
                let stream = self.named(client, name)?;
                self.change(|state| state.stop(stream, *code));
                Ok(())
            }
            QuicOp::Burst { count, bytes, ends, reset, stop } => {
                for _ in 0..*count {
                    // The server may end the connection within it.
                    let Ok(stream) = self.open(Dir::Bi) else { return Ok(()) };
                    self.write(stream, bytes, *ends)?;
                    self.change(|state| {
                        reset.iter().for_each(|code| state.reset(stream, *code));
                        stop.iter().for_each(|code| state.stop(stream, *code));
                    });
                }
                Ok(())
            }
            QuicOp::Close { code, reason } => {
                self.close(*code, reason);
                Ok(())
            }
            QuicOp::Rebind(address) => self
                .change(|state| state.rebind(*address))
                .map_err(|error| Failure::new(format!("another port: {error}"))),
            QuicOp::UpdateKeys => {
                self.change(|state| {
                    state.quic.force_key_update();
                    state.quic.ping();
                });
                Ok(())
            }
            QuicOp::Ping => {
                self.change(|state| state.quic.ping());
                Ok(())
            }
            QuicOp::Abandon => {
                locked(&self.state).closed = Some(ConnectionError::LocallyClosed);
                self.flush(&mut locked(&self.state));
                Ok(())
            }
            event => self.wait_event(client, event),
        }
    }

    fn wait_event(&self, client: u64, op: &QuicOp) -> Result<(), Failure> {
        match op {
            QuicOp::WaitData { name, bytes } => {
                let stream = self.named(client, name)?;
                let taken = self.wait_for(&shown(bytes), |state| state.take(stream, bytes))?;
                taken.map_err(|got| Failure::new(format!("expected {}, got {got}", shown(bytes))))
            }
            QuicOp::WaitFin(name) => {
                let stream = self.named(client, name)?;
                self.wait_for("the end of a stream", |state| state.take_end(stream))?
                    .map_err(|got| Failure::new(format!("expected the end, got {got}")))
            }
            QuicOp::WaitReset { name, code } => {
                let stream = self.named(client, name)?;
                let found = self.wait_for("RESET_STREAM", |state| {
                    if !state.newest.values().any(|newest| *newest == stream) {
                        state.pull(stream);
                    }
                    state.resets.get(&stream).copied()
                })?;
                same_code(*code, found)
            }
            QuicOp::WaitStop { name, code } => {
                let stream = self.named(client, name)?;
                let stop = |state: &mut State| state.stops.get(&stream).copied();
                same_code(*code, self.wait_for("STOP_SENDING", stop)?)
            }
            QuicOp::WaitClose(expected) => self.wait_closed(*expected),
            QuicOp::WaitGoAway(expected) => {
                let mut newest = None;
                let found = self.wait_for("GOAWAY", |state| {
                    newest = state.control.goaway;
                    newest.filter(|found| expected.is_none_or(|expected| expected == *found))
                });
                found.map(drop).map_err(|failure| match newest {
                    Some(newest) => Failure::new(format!("{failure}; the newest has {newest}")),
                    None => failure,
                })
            }
            QuicOp::WaitSetting(id, comparison, number) => {
                let settings = self.wait_for("SETTINGS", |state| state.control.settings.clone())?;
                let found = settings.get(id).map_or(0, |value| *value as i64);
                match comparison.holds(found, *number) {
                    true => Ok(()),
                    false => Err(Failure::new(format!("the setting has {found}"))),
                }
            }
            QuicOp::WaitConnected => {
                self.wait_for("the handshake", |state| state.is_connected.then_some(()))
            }
            QuicOp::Count { name, comparison, number, waits } => {
                let mut found = 0;
                let held = self.wait_for("a number", |state| {
                    found = state.count(*name);
                    let holds = comparison.holds(found, *number);
                    (holds || !waits).then_some(holds)
                });
                match held {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Failure::new(format!("found {found}"))),
                    Err(failure) => Err(Failure::new(format!("{failure}; found {found}"))),
                }
            }
            _ => Ok(()),
        }
    }

    fn wait_closed(&self, expected: Closing) -> Result<(), Failure> {
        let mut state = locked(&self.state);
        while !state.is_over() {
            state = self.wait(state)?;
        }
        let is_so = match (&state.closed, expected) {
            (Some(ConnectionError::ApplicationClosed(close)), Closing::Application(code)) => {
                close.error_code.into_inner() == code
            }
            (Some(ConnectionError::ConnectionClosed(close)), Closing::Transport(code)) => {
                u64::from(close.error_code) == code
            }
            (Some(ConnectionError::TimedOut), Closing::Timeout)
            | (Some(ConnectionError::Reset), Closing::Reset) => true,
            _ => false,
        };
        match is_so {
            true => Ok(()),
            false => Err(Failure::new(state.ending().unwrap_or_default())),
        }
    }

    /// The stream of that name. The newest request of a client may not be begun yet.
    fn named(&self, client: u64, name: &str) -> Result<StreamId, Failure> {
        self.wait_for(&format!("the stream {name}"), |state| match name {
            "request" => state.newest.get(&client).copied(),
            _ => state.names.get(name).copied(),
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = locked(&self.state);
        let changed = change(&mut state);
        self.flush(&mut state);
        changed
    }
}

impl State {
    fn reset(&mut self, stream: StreamId, code: u64) {
        let _ = self.quic.send_stream(stream).reset(VarInt::from_u64(code).unwrap_or_default());
    }

    fn stop(&mut self, stream: StreamId, code: u64) {
        let _ = self.quic.recv_stream(stream).stop(VarInt::from_u64(code).unwrap_or_default());
    }

    /// Takes these bytes from a stream, or returns what else it has; `None` while more may arrive.
    fn take(&mut self, stream: StreamId, expected: &[u8]) -> Option<Result<(), String>> {
        self.pull(stream);
        let is_over = self.is_over() || self.resets.contains_key(&stream);
        let (received, ended) = self.received.entry(stream).or_default();
        if received.starts_with(expected) {
            received.drain(..expected.len());
            return Some(Ok(()));
        }
        let may_arrive = !*ended && !is_over && expected.starts_with(received);
        (!may_arrive).then(|| Err(shown(received)))
    }

    /// The same for the end of a stream.
    fn take_end(&mut self, stream: StreamId) -> Option<Result<(), String>> {
        self.pull(stream);
        let (received, ended) = self.received.entry(stream).or_default();
        match (received.is_empty(), *ended) {
            (true, true) => Some(Ok(())),
            (true, false) => None,
            (false, _) => Some(Err(shown(received))),
        }
    }

    fn count(&mut self, name: Count) -> i64 {
        let stats = self.quic.stats();
        match name {
            Count::Retries => self.retries,
            Count::Negotiations => self.negotiations,
            Count::Datagrams => self.datagrams,
            Count::Early => i64::from(self.quic.accepted_0rtt()),
            Count::Tickets => self.tickets.received() as i64,
            Count::Tokens => stats.frame_rx.new_token as i64,
            Count::Challenges => stats.frame_rx.path_challenge as i64,
            Count::Ids => stats.frame_rx.new_connection_id as i64,
            Count::Congestions => stats.path.congestion_events as i64,
        }
    }
}

fn same_code(expected: Option<u64>, found: u64) -> Result<(), Failure> {
    let found_name = tidegate_h3::ErrorCode(found);
    match expected.is_none_or(|expected| expected == found) {
        true => Ok(()),
        false => Err(Failure::new(format!("the code is {found_name} (0x{found:x})"))),
    }
}
