//! The origin's thread: connections, prepared responses and the timing of slow ones.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memchr::memmem;
use rustix::event::{Timespec, epoll};

use super::{ResponseKind, Shared, Trace, locked, parse_target, response_head};
use crate::load::is_transient;

/// Everything the thread owns.
pub(super) struct Serving {
    listener: TcpListener,
    epoll: OwnedFd,
    shared: Arc<Shared>,
    connections: Vec<Option<Connection>>,
    prepared: HashMap<Vec<u8>, Prepared>,
    /// Connections with a slow response in progress.
    slow: Vec<usize>,
    buffer: Vec<u8>,
}

/// A target's response, prepared once.
#[derive(Clone)]
struct Prepared {
    count: Arc<AtomicU64>,
    kind: ResponseKind,
    head_bytes: usize,
    /// Head, then the body (for a slow response too).
    bytes: Arc<[u8]>,
}

struct Connection {
    stream: TcpStream,
    /// The received part of an incomplete request.
    request: Vec<u8>,
    sending: Option<Sending>,
    /// Whether epoll also reports that writing is possible.
    wants_write: bool,
}

/// A response that is not yet written to its end.
struct Sending {
    prepared: Prepared,
    written: usize,
    close: bool,
    started: Instant,
    /// Of a slow response.
    trace: Option<Arc<Mutex<Trace>>>,
}

/// What happens with a connection after an event.
#[derive(PartialEq, Eq)]
enum ConnectionAction {
    Keep,
    Close,
}

impl Serving {
    pub(super) fn new(listener: TcpListener, shared: Arc<Shared>) -> io::Result<Serving> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        Ok(Serving {
            listener,
            epoll,
            shared,
            connections: Vec::new(),
            prepared: HashMap::new(),
            slow: Vec::new(),
            buffer: vec![0; READ_BYTES],
        })
    }

    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        while !self.shared.stop.load(Ordering::Relaxed) {
            events.clear();
            let timeout = self.timeout(Instant::now());
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    index => self.ready(index as usize, event.flags),
                }
            }
            self.advance_slow();
        }
        Ok(())
    }

    /// Until the next part of a slow response, at most [`WAIT_MAX`].
    fn timeout(&self, now: Instant) -> Timespec {
        let sendings = self
            .slow
            .iter()
            .filter_map(|index| self.connections.get(*index)?.as_ref()?.sending.as_ref());
        let next = sendings.map(|sending| sending.next_part_at().saturating_duration_since(now));
        let wait = next.min().unwrap_or(WAIT_MAX).min(WAIT_MAX);
        Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) }
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // Out of descriptors, or the client has left: the next iteration tries again.
                Err(_) => return Ok(()),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let free = self.connections.iter().position(Option::is_none);
            let index = free.unwrap_or(self.connections.len());
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            let connection =
                Connection { stream, request: Vec::new(), sending: None, wants_write: false };
            match self.connections.get_mut(index) {
                Some(slot) => *slot = Some(connection),
                None => self.connections.push(Some(connection)),
            }
        }
        Ok(())
    }

    fn ready(&mut self, index: usize, flags: epoll::EventFlags) {
        let mut action = ConnectionAction::Keep;
        if flags.contains(epoll::EventFlags::OUT) {
            action = self.send(index);
        }
        if action == ConnectionAction::Keep && flags.intersects(READABLE) {
            action = self.read(index);
        }
        self.settle(index, action);
    }

    fn read(&mut self, index: usize) -> ConnectionAction {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return ConnectionAction::Keep;
        };
        let count = match connection.stream.read(&mut self.buffer) {
            Ok(0) => return ConnectionAction::Close,
            Ok(count) => count,
            Err(error) if is_transient(&error) => return ConnectionAction::Keep,
            Err(_) => return ConnectionAction::Close,
        };
        // A second request before the end of the first response, or an endless head: not supported.
        if connection.sending.is_some() || connection.request.len() + count > REQUEST_BYTES_MAX {
            return ConnectionAction::Close;
        }
        let request = if connection.request.is_empty() && is_whole(&self.buffer[..count]) {
            parse_request(&self.buffer[..count])
        } else {
            connection.request.extend_from_slice(&self.buffer[..count]);
            if !is_whole(&connection.request) {
                return ConnectionAction::Keep;
            }
            let request = parse_request(&connection.request);
            connection.request.clear();
            request
        };
        let Some((target, close)) = request else { return ConnectionAction::Close };
        self.respond(index, &target, close)
    }

    fn respond(&mut self, index: usize, target: &[u8], close: bool) -> ConnectionAction {
        let prepared = self.prepare(target);
        prepared.count.fetch_add(1, Ordering::Relaxed);
        let mut sending =
            Sending { prepared, written: 0, close, started: Instant::now(), trace: None };
        if matches!(sending.prepared.kind, ResponseKind::Slow { .. }) {
            let begun = sending.started;
            let trace = Trace { target: target.to_vec(), begun, sent: Vec::new() };
            let trace = Arc::new(Mutex::new(trace));
            locked(&self.shared.traces).push(Arc::clone(&trace));
            sending.trace = Some(trace);
            self.slow.push(index);
        }
        if let Some(Some(connection)) = self.connections.get_mut(index) {
            connection.sending = Some(sending);
        }
        self.send(index)
    }

    /// The response to a target; prepared again when more than [`PREPARED_MAX`] targets were requested.
    fn prepare(&mut self, target: &[u8]) -> Prepared {
        if let Some(prepared) = self.prepared.get(target) {
            return prepared.clone();
        }
        let kind = parse_target(target);
        let mut bytes = response_head(&kind);
        let head_bytes = bytes.len();
        if let ResponseKind::Fixed { bytes: body, .. } | ResponseKind::Slow { bytes: body, .. } =
            &kind
        {
            bytes.extend(crate::pattern::body(target, *body));
        }
        let count = Arc::new(AtomicU64::new(0));
        let prepared =
            Prepared { count: Arc::clone(&count), kind, head_bytes, bytes: bytes.into() };
        if self.prepared.len() < PREPARED_MAX {
            locked(&self.shared.counters).insert(target.to_vec(), count);
            self.prepared.insert(target.to_vec(), prepared.clone());
        }
        prepared
    }

    /// Writes the due part of the response in progress.
    fn send(&mut self, index: usize) -> ConnectionAction {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return ConnectionAction::Keep;
        };
        let Some(sending) = &mut connection.sending else { return ConnectionAction::Keep };
        let blocked = match sending.write_due(&mut connection.stream) {
            Ok(blocked) => blocked,
            Err(_) => return ConnectionAction::Close,
        };
        if sending.written == sending.prepared.bytes.len() {
            let close = sending.close;
            connection.sending = None;
            self.slow.retain(|slow| *slow != index);
            if close {
                return ConnectionAction::Close;
            }
        }
        self.watch(index, blocked)
    }

    /// Sets whether epoll reports that writing is possible.
    fn watch(&mut self, index: usize, write: bool) -> ConnectionAction {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return ConnectionAction::Keep;
        };
        if connection.wants_write == write {
            return ConnectionAction::Keep;
        }
        connection.wants_write = write;
        let flags = if write { READABLE | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        let data = epoll::EventData::new_u64(index as u64);
        match epoll::modify(&self.epoll, &connection.stream, data, flags) {
            Ok(()) => ConnectionAction::Keep,
            Err(_) => ConnectionAction::Close,
        }
    }

    fn advance_slow(&mut self) {
        for index in self.slow.clone() {
            let action = self.send(index);
            self.settle(index, action);
        }
    }

    fn settle(&mut self, index: usize, action: ConnectionAction) {
        if action == ConnectionAction::Close {
            self.slow.retain(|slow| *slow != index);
            if let Some(slot) = self.connections.get_mut(index) {
                *slot = None;
            }
        }
    }
}

impl Sending {
    /// Writes the due bytes; true when the socket accepted less.
    fn write_due(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let now = Instant::now();
        let due = self.due(now);
        if self.written >= due {
            return Ok(false);
        }
        // The trace stays locked during the write: no reader may get a byte before its trace.
        let mut trace = self.trace.as_deref().map(locked);
        match stream.write(&self.prepared.bytes[self.written..due]) {
            Ok(count) => self.written += count,
            Err(error) if is_transient(&error) => return Ok(true),
            Err(error) => return Err(error),
        }
        let body = self.written.saturating_sub(self.prepared.head_bytes) as u64;
        if let Some(trace) = &mut trace
            && body > 0
        {
            trace.sent.push((now, body));
        }
        Ok(self.written < due)
    }

    /// Returns the number of bytes (head included) that are due. The head is due at once.
    fn due(&self, now: Instant) -> usize {
        let ResponseKind::Slow { bytes, chunks, duration, eager, .. } = self.prepared.kind else {
            return self.prepared.bytes.len();
        };
        let parts = parts_due(now - self.started, duration, chunks) + u64::from(eager);
        let parts = parts.min(chunks);
        self.prepared.head_bytes + (bytes * parts / chunks) as usize
    }

    fn next_part_at(&self) -> Instant {
        let ResponseKind::Slow { chunks, duration, .. } = self.prepared.kind else {
            return self.started;
        };
        let parts = parts_due(self.started.elapsed(), duration, chunks) + 1;
        self.started + duration.mul_f64(parts.min(chunks) as f64 / chunks as f64)
    }
}

/// Returns the number of `chunks` parts, spread over `duration`, that are due after `elapsed`.
pub(crate) fn parts_due(elapsed: Duration, duration: Duration, chunks: u64) -> u64 {
    if duration.is_zero() {
        return chunks;
    }
    let parts = elapsed.as_nanos() * u128::from(chunks) / duration.as_nanos();
    u64::try_from(parts).unwrap_or(chunks).min(chunks)
}

fn is_whole(request: &[u8]) -> bool {
    request.ends_with(b"\r\n\r\n")
}

/// Target of a GET, and whether the connection ends with the response (RFC 9112 section 9.3;
/// HTTP/1.0 keepalive is not offered). `None`: not a request this origin serves.
pub(crate) fn parse_request(request: &[u8]) -> Option<(Vec<u8>, bool)> {
    let line_end = memmem::find(request, b"\r\n")?;
    let line = request[..line_end].strip_prefix(b"GET ")?;
    let (target, version) = line.split_at(memchr::memchr(b' ', line)?);
    let mut close = match version {
        b" HTTP/1.1" => false,
        b" HTTP/1.0" => true,
        _ => return None,
    };
    for field in request[line_end..].split(|byte| *byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', field) else { continue };
        if field[..colon].eq_ignore_ascii_case(b"connection") {
            close |= field[colon + 1..].trim_ascii().eq_ignore_ascii_case(b"close");
        }
    }
    Some((target.to_vec(), close))
}

/// The token of the listener; connections use their index.
const LISTENER: u64 = u64::MAX;
const READABLE: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);
const READ_BYTES: usize = 16 * 1024;
/// The compared servers send heads of a few hundred bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
const EVENTS_PER_WAIT: usize = 256;
/// New connections must not starve the old ones.
const ACCEPTS_PER_TURN: usize = 64;
/// Largest number of distinct targets that are kept and counted.
const PREPARED_MAX: usize = 10_000;
/// Interval at which the stop flag is checked without events.
const WAIT_MAX: Duration = Duration::from_millis(50);
