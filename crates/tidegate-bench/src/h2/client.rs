//! One connection of a client: bytes to events, commands to bytes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidegate_h2::{Config, Connection, ErrorCode, Event, RequestLine, SendError, StreamId};

use crate::load::is_transient;
use crate::wire::{Received, Tls, Wire};

/// The name of the protocol in ALPN (RFC 9113 section 3.2).
pub(crate) const ALPN: &[u8] = b"h2";
/// The method of the origin that echoes a message of gRPC.
pub(crate) const ECHO: &str = "/bench.Echo/Unary";

/// A request and its correct response.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub target: String,
    pub status: u16,
    pub body_bytes: u64,
    /// The body of a unary call of gRPC; without it the method is GET.
    pub message: Option<Vec<u8>>,
}

impl Ask {
    /// GET, expecting status 200 and this number of body bytes.
    pub(crate) fn get(target: impl Into<String>, body_bytes: u64) -> Ask {
        Ask { target: target.into(), status: 200, body_bytes, message: None }
    }

    /// A unary call whose message of N bytes is echoed: 5 bytes are in front of it.
    pub(crate) fn echo(bytes: usize) -> Ask {
        let length = u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
        let message = [&[0], &length[..], &vec![b'm'; bytes]].concat();
        let body_bytes = message.len() as u64;
        Ask { target: ECHO.to_owned(), status: 200, body_bytes, message: Some(message) }
    }
}

/// A response as far as it has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    pub status: u16,
    pub body_bytes: u64,
    /// A trailer section with `grpc-status: 0` ended it.
    pub is_done_by_grpc: bool,
}

impl Response {
    /// Whether this is the correct response.
    pub(crate) fn suits(&self, ask: &Ask) -> bool {
        self.status == ask.status
            && self.body_bytes == ask.body_bytes
            && (ask.message.is_none() || self.is_done_by_grpc)
    }
}

/// Buffers that connections share.
pub(crate) struct Buffers {
    received: Vec<u8>,
    plain: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers { received: vec![0; READ_BYTES], plain: Vec::new() }
    }
}

/// A connection to a server.
pub(crate) struct Client {
    wire: Wire,
    h2: Connection<tidegate_h2::Client>,
    began: Instant,
    authority: String,
    scheme: &'static str,
}

/// The settings of a load: N streams at once, and windows that never close, as with `h2load -w 30 -W 30`.
pub(crate) fn wide(streams: u32) -> Arc<Config> {
    let config = Config {
        streams_max: streams,
        stream_window: WINDOW,
        connection_window: WINDOW,
        unread_bytes_max: WINDOW,
        encoder_table_bytes: 4096,
        huffman: true,
        resets_max: Some(u32::MAX),
        control_frames_max: u32::MAX,
        ..Config::default()
    };
    config.shared()
}

impl Client {
    /// Connects. Connecting and each wait of a handshake take at most `patience`.
    ///
    /// # Errors
    /// No connection, or a server that does not agree on `h2`.
    pub(crate) fn connect(
        address: SocketAddr,
        tls: Option<&Tls>,
        config: &Arc<Config>,
        patience: Duration,
    ) -> io::Result<Client> {
        Client::over(Wire::connect(&address, tls, patience)?, address, config)
    }

    /// The same over a connection that is made.
    ///
    /// # Errors
    /// The server did not agree on `h2`.
    pub(crate) fn over(
        wire: Wire,
        address: SocketAddr,
        config: &Arc<Config>,
    ) -> io::Result<Client> {
        let scheme = if wire.is_tls() { "https" } else { "http" };
        if wire.is_tls() && wire.protocol() != Some(ALPN) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "no \"h2\" by ALPN"));
        }
        let h2 = Connection::<tidegate_h2::Client>::new(config.clone());
        let authority = address.to_string();
        Ok(Client { wire, h2, began: Instant::now(), authority, scheme })
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) fn h2(&mut self) -> &mut Connection<tidegate_h2::Client> {
        &mut self.h2
    }

    /// Begins a request on a new stream; [`Client::flush`] sends it.
    ///
    /// # Errors
    /// The connection takes no stream now.
    pub(crate) fn ask(&mut self, ask: &Ask) -> Result<StreamId, SendError> {
        let is_call = ask.message.is_some();
        let line = RequestLine {
            method: if is_call { b"POST" } else { b"GET" },
            scheme: self.scheme.as_bytes(),
            authority: self.authority.as_bytes(),
            path: ask.target.as_bytes(),
            protocol: None,
        };
        let stream = self.h2.request(&line, !is_call, |fields| {
            fields.push(b"user-agent", b"tidegate-bench");
            if is_call {
                fields.push(b"content-type", b"application/grpc");
                fields.push(b"te", b"trailers");
            }
        })?;
        if let Some(message) = &ask.message {
            // Messages are smaller than any window at the begin of a stream.
            self.h2.send_data(stream, message, true)?;
        }
        Ok(stream)
    }

    /// Sends what waits. `false`: the socket takes no more now.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while !self.h2.output().is_empty() {
            match self.wire.send(self.h2.output()) {
                Ok(count) => self.h2.output_sent(count),
                Err(error) if is_transient(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.wire.flush()
    }

    /// Reads once, and reports what was received.
    ///
    /// # Errors
    /// Nothing to be read (`WouldBlock`), the end of the connection, invalid frames.
    pub(crate) fn receive(
        &mut self,
        buffers: &mut Buffers,
        mut report: impl FnMut(&mut Connection<tidegate_h2::Client>, Event<'_>),
    ) -> io::Result<()> {
        let mut input = match self.wire.receive(&mut buffers.received, &mut buffers.plain)? {
            Received::Nothing => return Ok(()),
            Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            Received::Bytes(bytes) => bytes,
        };
        let now = self.began.elapsed();
        while let Some(event) = self.h2.receive(&mut input, now).map_err(io::Error::other)? {
            report(&mut self.h2, event);
        }
        Ok(())
    }

    /// One request, and its whole response.
    ///
    /// # Errors
    /// The connection ends, the stream is reset, or the response is not complete after `patience`.
    pub(crate) fn fetch(
        &mut self,
        ask: &Ask,
        buffers: &mut Buffers,
        patience: Duration,
    ) -> io::Result<Response> {
        let end = Instant::now() + patience;
        let stream = self.ask(ask).map_err(io::Error::other)?;
        let (mut response, mut progress) = (Response::default(), None);
        while progress.is_none() {
            let is_flushed = self.flush()?;
            self.wait(is_flushed, end)?;
            let received = self.receive(buffers, |h2, event| {
                if stream_of(&event) == Some(stream) {
                    progress = progress.or(follow(h2, event, &mut response));
                }
            });
            match received {
                Err(error) if is_transient(&error) => {}
                other => other?,
            }
        }
        self.h2.close(stream, ErrorCode::CANCEL);
        self.flush()?;
        match progress {
            Some(Progress::Complete) => Ok(response),
            Some(Progress::Reset(code)) => Err(io::Error::other(format!("stream reset: {code}"))),
            _ => Err(io::Error::other("malformed response")),
        }
    }

    fn wait(&self, is_flushed: bool, end: Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let flags = if is_flushed { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(self.wire.socket(), flags)], Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Complete,
    Reset(ErrorCode),
    Malformed,
}

/// Returns the stream that an event belongs to.
pub(crate) fn stream_of(event: &Event<'_>) -> Option<StreamId> {
    match event {
        Event::Head { stream, .. }
        | Event::Data { stream, .. }
        | Event::Trailers { stream }
        | Event::Malformed { stream, .. }
        | Event::Reset { stream, .. } => Some(*stream),
        _ => None,
    }
}

/// Adds an event of a stream to its response. `None`: there is more.
pub(crate) fn follow(
    h2: &mut Connection<tidegate_h2::Client>,
    event: Event<'_>,
    response: &mut Response,
) -> Option<Progress> {
    match event {
        Event::Head { end, .. } => {
            response.status = h2.head().status;
            // A call without a message has its trailers in the head.
            response.is_done_by_grpc = end && has_status(h2);
            end.then_some(Progress::Complete)
        }
        Event::Data { stream, bytes, end } => {
            response.body_bytes += bytes.len() as u64;
            h2.consumed(stream, bytes.len() as u32);
            end.then_some(Progress::Complete)
        }
        Event::Trailers { .. } => {
            response.is_done_by_grpc = has_status(h2);
            Some(Progress::Complete)
        }
        Event::Malformed { .. } => Some(Progress::Malformed),
        Event::Reset { code, .. } => Some(Progress::Reset(code)),
        _ => None,
    }
}

/// Whether the section that was received last says that a call has succeeded.
fn has_status(h2: &mut Connection<tidegate_h2::Client>) -> bool {
    h2.head().headers.first_named(b"grpc-status") == Some(b"0")
}

/// What one read takes: more than a server writes at once.
const READ_BYTES: usize = 64 * 1024;
/// Of a connection and of each stream, bytes.
const WINDOW: u32 = (1 << 30) - 1;
