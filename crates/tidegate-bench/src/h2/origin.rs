//! An origin that takes HTTP/2 by prior knowledge, and counts connections and streams: one thread, epoll.
//!
//! - `/bytes?n=1024` responds at once.
//! - `/slow?ms=300&bytes=100&chunks=1` responds after this time.
//! - [`ECHO`] is a method of gRPC: it returns the message, and trailers with `grpc-status: 0`.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use tidegate_h2::{Config, Connection, ErrorCode, Event, SendError, Server, StreamId};

use super::client::ECHO;
use crate::load::is_transient;
use crate::origin::{ResponseKind, parse_target};

/// A running origin; its thread ends when this is dropped.
pub(crate) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The most that was there at once, and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub connections_max: u64,
    pub streams_max: u64,
    pub requests: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    connections_max: AtomicU64,
    streams_max: AtomicU64,
    requests: AtomicU64,
}

impl Origin {
    /// Starts on a free port of the loopback. The thread inherits the caller's processor.
    ///
    /// # Errors
    /// No port or no thread is available.
    pub(crate) fn start() -> io::Result<Origin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let mut serving = Serving::new(listener, shared.clone())?;
        let thread = std::thread::Builder::new().name("h2-origin".to_owned()).spawn(move || {
            if let Err(error) = serving.run() {
                eprintln!("origin of HTTP/2: {error}");
            }
        })?;
        Ok(Origin { address, shared, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was seen since the start.
    pub(crate) fn seen(&self) -> Seen {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Seen {
            connections_max: read(&self.shared.connections_max),
            streams_max: read(&self.shared.streams_max),
            requests: read(&self.shared.requests),
        }
    }

    /// Counts anew.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        let Shared { connections_max, streams_max, requests, .. } = &*self.shared;
        for figure in [connections_max, streams_max, requests] {
            figure.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All that the thread owns.
struct Serving {
    listener: TcpListener,
    epoll: OwnedFd,
    shared: Arc<Shared>,
    config: Arc<Config>,
    peers: HashMap<u64, Peer>,
    next_peer: u64,
    buffer: Vec<u8>,
}

/// A connection with its streams.
struct Peer {
    socket: TcpStream,
    h2: Connection<Server>,
    began: Instant,
    waits_to_write: bool,
    streams: Vec<Stream>,
}

struct Stream {
    id: StreamId,
    /// Where the response waits for its time.
    due: Option<Instant>,
    /// The response has this number of body bytes left to be sent.
    left: u64,
    /// The message of a call.
    message: Option<Vec<u8>>,
}

impl Serving {
    fn new(listener: TcpListener, shared: Arc<Shared>) -> io::Result<Serving> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        let config = Config { stream_window: WINDOW, ..Config::default() };
        Ok(Serving {
            listener,
            epoll,
            shared,
            config: config.shared(),
            peers: HashMap::new(),
            next_peer: LISTENER + 1,
            buffer: vec![0; READ_BYTES],
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        while !self.shared.stop.load(Ordering::Relaxed) {
            events.clear();
            let wait = self.patience(Instant::now()).subsec_nanos();
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.into() };
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    number => self.turn(number, true),
                }
            }
            self.respond_due();
        }
        Ok(())
    }

    fn patience(&self, now: Instant) -> Duration {
        let dues = self.peers.values().flat_map(|peer| &peer.streams);
        let next = dues.filter_map(|stream| stream.due).min();
        next.map_or(WAIT_MAX, |due| due.saturating_duration_since(now).min(WAIT_MAX))
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            let number = self.next_peer;
            self.next_peer += 1;
            let data = epoll::EventData::new_u64(number);
            epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
            let h2 = Connection::<Server>::new(self.config.clone());
            let (began, streams) = (Instant::now(), Vec::new());
            let peer = Peer { socket, h2, began, waits_to_write: false, streams };
            self.peers.insert(number, peer);
            let count = self.peers.len() as u64;
            self.shared.connections_max.fetch_max(count, Ordering::Relaxed);
            self.turn(number, false);
        }
        Ok(())
    }

    fn respond_due(&mut self) {
        let now = Instant::now();
        let is_due =
            |peer: &Peer| peer.streams.iter().any(|it| it.due.is_some_and(|due| due <= now));
        let due = self.peers.iter().filter(|(_, peer)| is_due(peer));
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        due.into_iter().for_each(|number| self.turn(number, false));
    }

    /// Reads, responds and writes. An error is the end of the connection.
    fn turn(&mut self, number: u64, reads: bool) {
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let read = match reads {
            true => peer.read(&mut self.buffer, &self.shared),
            false => Ok(()),
        };
        // Before responses end them.
        let streams: usize = self.peers.values().map(|peer| peer.streams.len()).sum();
        self.shared.streams_max.fetch_max(streams as u64, Ordering::Relaxed);
        let Some(peer) = self.peers.get_mut(&number) else { return };
        let done = read.and_then(|()| peer.write(Instant::now()));
        let waits = match done {
            Ok(is_flushed) => !is_flushed,
            Err(_) => return drop(self.peers.remove(&number)),
        };
        if waits != peer.waits_to_write {
            peer.waits_to_write = waits;
            let out = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(number);
            let flags = epoll::EventFlags::IN | out;
            if epoll::modify(&self.epoll, &peer.socket, data, flags).is_err() {
                self.peers.remove(&number);
            }
        }
    }
}

impl Peer {
    fn read(&mut self, buffer: &mut [u8], shared: &Shared) -> io::Result<()> {
        let count = match self.socket.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if is_transient(&error) => return Ok(()),
            other => other?,
        };
        let mut input = &buffer[..count];
        let now = self.began.elapsed();
        loop {
            let event = match self.h2.receive(&mut input, now) {
                Ok(None) => return Ok(()),
                Ok(Some(event)) => event,
                Err(error) => {
                    // Its GOAWAY, as far as the socket takes it.
                    let _ = self.socket.write(self.h2.output());
                    return Err(io::Error::other(error));
                }
            };
            self.take(event, shared).map_err(io::Error::other)?;
        }
    }

    fn take(&mut self, event: Event<'_>, shared: &Shared) -> Result<(), SendError> {
        match event {
            Event::Head { stream, end } => {
                shared.requests.fetch_add(1, Ordering::Relaxed);
                let head = self.h2.head();
                let target = head.text(head.target).to_vec();
                self.begin(stream, &target, end)
            }
            Event::Data { stream, bytes, end } => {
                self.h2.consumed(stream, bytes.len() as u32);
                let found = self.streams.iter_mut().find(|it| it.id == stream);
                if let Some(message) = found.and_then(|found| found.message.as_mut()) {
                    message.extend_from_slice(bytes);
                }
                if end { self.end_of_request(stream) } else { Ok(()) }
            }
            Event::Trailers { stream } => self.end_of_request(stream),
            Event::Malformed { stream, .. } | Event::Reset { stream, .. } => {
                self.forget(stream);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, id: StreamId, target: &[u8], end: bool) -> Result<(), SendError> {
        let mut stream = Stream { id, due: None, left: 0, message: None };
        if target == ECHO.as_bytes() {
            stream.message = Some(Vec::new());
            self.streams.push(stream);
            return if end { self.end_of_request(id) } else { Ok(()) };
        }
        match parse_target(target) {
            ResponseKind::Fixed { bytes, .. } => stream.left = bytes,
            ResponseKind::Slow { bytes, duration, .. } => {
                (stream.left, stream.due) = (bytes, Some(Instant::now() + duration));
            }
            ResponseKind::NotFound => {
                self.h2.respond(id, 404, true, |_| ())?;
                self.h2.close(id, ErrorCode::NO_ERROR);
                return Ok(());
            }
        }
        let is_due = stream.due.is_none();
        self.streams.push(stream);
        if is_due { self.head(id) } else { Ok(()) }
    }

    /// Sends the head of a response; the body follows as windows allow.
    fn head(&mut self, id: StreamId) -> Result<(), SendError> {
        let Some(stream) = self.streams.iter_mut().find(|it| it.id == id) else { return Ok(()) };
        stream.due = None;
        let length = stream.left.to_string();
        let end = stream.left == 0;
        self.h2.respond(id, 200, end, |fields| {
            fields.push(b"content-type", b"application/octet-stream");
            fields.push(b"content-length", length.as_bytes());
        })?;
        match end {
            true => self.forget(id),
            false => self.h2.want(id, true),
        }
        Ok(())
    }

    /// A call is complete: the same message goes back.
    fn end_of_request(&mut self, id: StreamId) -> Result<(), SendError> {
        let found = self.streams.iter_mut().find(|it| it.id == id);
        let Some(message) = found.and_then(|found| found.message.take()) else { return Ok(()) };
        self.h2
            .respond(id, 200, false, |fields| fields.push(b"content-type", b"application/grpc"))?;
        // Messages are smaller than any window at the begin of a stream.
        self.h2.send_data(id, &message, false)?;
        self.h2.send_trailers(id, |fields| fields.push(b"grpc-status", b"0"))?;
        self.forget(id);
        Ok(())
    }

    fn forget(&mut self, id: StreamId) {
        self.streams.retain(|stream| stream.id != id);
        self.h2.close(id, ErrorCode::CANCEL);
    }

    /// Sends what is due, and bodies as far as windows and the socket allow. `false`: the socket takes no more.
    fn write(&mut self, now: Instant) -> io::Result<bool> {
        let due = self.streams.iter().filter(|it| it.due.is_some_and(|due| due <= now));
        let due: Vec<StreamId> = due.map(|stream| stream.id).collect();
        for id in due {
            self.head(id).map_err(io::Error::other)?;
        }
        loop {
            while !self.h2.output_is_full()
                && let Some(id) = self.h2.next_to_send()
            {
                self.piece(id).map_err(io::Error::other)?;
            }
            if self.h2.output().is_empty() {
                return Ok(true);
            }
            match self.socket.write(self.h2.output()) {
                Ok(count) => self.h2.output_sent(count),
                Err(error) if is_transient(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn piece(&mut self, id: StreamId) -> Result<(), SendError> {
        let Some(stream) = self.streams.iter_mut().find(|it| it.id == id) else {
            self.h2.want(id, false);
            return Ok(());
        };
        let count = stream.left.min(u64::from(self.h2.sendable(id))).min(BODY.len() as u64);
        let end = count == stream.left;
        self.h2.send_data(id, &BODY[..count as usize], end)?;
        stream.left -= count;
        if end {
            self.forget(id);
        }
        Ok(())
    }
}

const LISTENER: u64 = 0;
const EVENTS_PER_WAIT: usize = 256;
const READ_BYTES: usize = 64 * 1024;
/// A body in one piece of a message of a call.
const WINDOW: u32 = 1 << 20;
/// How soon a dropped origin ends.
const WAIT_MAX: Duration = Duration::from_millis(100);
static BODY: [u8; 16 * 1024] = [b'x'; 16 * 1024];
