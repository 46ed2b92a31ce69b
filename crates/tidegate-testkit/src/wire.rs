//! A connection and the HTTP/1 messages on it, read strictly; the end of
//! a connection by close and by reset are distinguished.

use crate::bell::{Deadline, Failure};
use crate::words::{Matcher, shown};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A head longer than this is a mistake of the server.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Taken by one read.
const CHUNK_BYTES: usize = 65536;

/// Either kind of stream socket.
#[derive(Debug)]
pub(crate) enum Stream {
    /// TCP over loopback.
    Tcp(TcpStream),
    /// A socket of the file system.
    Unix(UnixStream),
    /// Datagrams to and from one address, each read and written as one.
    Udp(UdpSocket),
}

impl Stream {
    /// A second handle, used to wake a reader by shutting the connection down.
    pub(crate) fn twin(&self) -> std::io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Udp(socket) => Self::Udp(socket.try_clone()?),
        })
    }

    /// Ends one or both directions.
    pub(crate) fn shutdown(&self, how: Shutdown) -> std::io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
            Self::Udp(_) => Ok(()),
        }
    }

    /// Most time for a read and for a write.
    pub(crate) fn limit(&self, span: Duration) -> std::io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(span))?;
                stream.set_write_timeout(Some(span))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(span))?;
                stream.set_write_timeout(Some(span))
            }
            Self::Udp(socket) => {
                socket.set_read_timeout(Some(span))?;
                socket.set_write_timeout(Some(span))
            }
        }
    }

    /// Reads and discards; 0 at the end.
    pub(crate) fn discard(&mut self) -> std::io::Result<usize> {
        self.read(&mut [0; CHUNK_BYTES])
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Udp(socket) => socket.recv(buffer),
        }
    }

    /// Writes all bytes.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Udp(socket) => socket.send(bytes).map(drop),
        }
    }
}

/// How the other side ended its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In order (FIN).
    Closed,
    /// By reset (RST).
    Reset,
}

/// A connection with the bytes that were read and not yet used.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// Bytes read, not yet taken.
    pub buffer: Vec<u8>,
    /// Set once the other side ended.
    pub ending: Option<Ending>,
    deadline: Deadline,
}

impl Wire {
    /// A wire over a connected stream.
    pub(crate) fn new(stream: Stream, deadline: Deadline) -> Self {
        if let Stream::Tcp(tcp) = &stream {
            let _ = tcp.set_nodelay(true);
        }
        Self { stream, buffer: Vec::new(), ending: None, deadline }
    }

    /// Reads once; false when the other side has ended.
    pub(crate) fn fill(&mut self) -> Result<bool, Failure> {
        self.fill_at_most(CHUNK_BYTES)
    }

    /// Reads at most N bytes (65536 at most): the rest stays in the socket.
    pub(crate) fn fill_at_most(&mut self, count: usize) -> Result<bool, Failure> {
        if self.ending.is_some() {
            return Ok(false);
        }
        let mut chunk = [0; CHUNK_BYTES];
        let chunk = &mut chunk[..count.min(CHUNK_BYTES)];
        loop {
            let left = self.deadline.remaining()?;
            self.stream.limit(left).map_err(|error| Failure::new(format!("socket: {error}")))?;
            match self.stream.read(chunk) {
                Ok(0) => self.ending = Some(Ending::Closed),
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        continue;
                    }
                    _ => self.ending = Some(Ending::Reset),
                },
            }
            return Ok(self.ending.is_none());
        }
    }

    /// Waits for this time: true once the other side has ended.
    pub(crate) fn ends_within(&mut self, pause: Duration) -> Result<bool, Failure> {
        let mut chunk = [0; 1024];
        let left = self.deadline.remaining()?.min(pause);
        self.stream.limit(left).map_err(|error| Failure::new(format!("socket: {error}")))?;
        match self.stream.read(&mut chunk) {
            Ok(0) => self.ending = Some(Ending::Closed),
            Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                _ => self.ending = Some(Ending::Reset),
            },
        }
        Ok(self.ending.is_some())
    }

    /// Writes all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let left = self.deadline.remaining()?;
        self.stream
            .limit(left)
            .and_then(|()| self.stream.write_all(bytes))
            .map_err(|error| Failure::new(format!("cannot send {}: {error}", shown(bytes))))
    }

    /// Ends the sending direction.
    pub(crate) fn half_close(&mut self) -> Result<(), Failure> {
        self.stream
            .shutdown(Shutdown::Write)
            .map_err(|error| Failure::new(format!("cannot half-close: {error}")))
    }

    /// Ends the connection with RST instead of FIN.
    pub(crate) fn reset(self) {
        if let Stream::Tcp(stream) = &self.stream {
            let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Time until the case's deadline.
    pub(crate) fn time_left(&self) -> Result<Duration, Failure> {
        self.deadline.remaining()
    }

    /// A second handle of the connection.
    pub(crate) fn twin(&self) -> std::io::Result<Stream> {
        self.stream.twin()
    }

    /// Waits for exactly these bytes and takes them.
    pub(crate) fn take_exactly(&mut self, expected: &[u8]) -> Result<(), Failure> {
        while self.buffer.len() < expected.len()
            && expected.starts_with(&self.buffer)
            && self.fill()?
        {}
        if !self.buffer.starts_with(expected) {
            let got = shown(&self.buffer);
            return Err(Failure::new(format!("expected {}, got {got}", shown(expected))));
        }
        self.buffer.drain(..expected.len());
        Ok(())
    }

    /// Discards received bytes, up to and including these bytes.
    pub(crate) fn take_past(&mut self, expected: &[u8]) -> Result<(), Failure> {
        let find = |buffer: &[u8]| buffer.windows(expected.len()).position(|part| part == expected);
        loop {
            if let Some(at) = find(&self.buffer) {
                self.buffer.drain(..at + expected.len());
                return Ok(());
            }
            if !self.fill()? {
                let got = shown(&self.buffer);
                return Err(Failure::new(format!("expected {}, got {got}", shown(expected))));
            }
        }
    }

    /// Waits for the other side's end; unread bytes before it are a failure.
    pub(crate) fn wait_ending(&mut self) -> Result<Ending, Failure> {
        while self.buffer.is_empty() && self.fill()? {}
        if self.buffer.is_empty() {
            return Ok(self.ending.unwrap_or(Ending::Closed));
        }
        Err(Failure::new(format!("expected the end, got {}", shown(&self.buffer))))
    }

    /// Reads a head up to its empty line; `None` when the other side ended before any byte.
    pub(crate) fn take_head(&mut self) -> Result<Option<Message>, Failure> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Message::parse(head).map(Some);
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(Failure::new("a head without end"));
            }
            if !self.fill()? {
                return match (self.buffer.is_empty(), self.ending) {
                    (true, Some(Ending::Closed)) => Ok(None),
                    (_, ending) => Err(Failure::new(format!(
                        "the connection ended ({ending:?}) within a head: {}",
                        shown(&self.buffer)
                    ))),
                };
            }
        }
    }
}

/// The framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// All of it has been read.
    Complete,
    /// N bytes are left.
    Length(usize),
    /// Chunked, at a chunk's size line.
    ChunkSize,
    /// Chunked, N bytes of this chunk are left.
    ChunkData(usize),
    /// Chunked, at the line end after a chunk's data.
    ChunkEnd,
    /// Chunked, in the trailer.
    Trailer,
    /// Until the connection is closed.
    UntilClose,
}

/// One request or response, its body growing as bytes arrive.
#[derive(Debug)]
pub(crate) struct Message {
    /// Request or status line.
    pub start: String,
    /// The head as received.
    pub head: Vec<u8>,
    /// Header fields in order.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Trailer fields.
    pub trailers: Vec<(String, Vec<u8>)>,
    /// Body so far, without framing.
    pub body: Vec<u8>,
    /// The remaining part of the body.
    pub framing: Framing,
}

impl Message {
    fn parse(head: Vec<u8>) -> Result<Self, Failure> {
        let bad = |what: &str| Failure::new(format!("{what} in head {}", shown(&head)));
        let text = &head[..head.len() - 4];
        let mut lines =
            text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let start = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let fields = lines.map(field).collect::<Option<Vec<_>>>();
        let fields = fields.ok_or_else(|| bad("a line without a field name"))?;
        let framing = Framing::Complete;
        Ok(Self { start, head, fields, trailers: Vec::new(), body: Vec::new(), framing })
    }

    /// Values of the header fields of that name.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let same = move |field: &&'a (String, Vec<u8>)| field.0.eq_ignore_ascii_case(name);
        self.fields.iter().filter(same).map(|(_, value)| value.as_slice())
    }

    /// Status code of a response.
    pub(crate) fn status(&self) -> Option<u16> {
        let rest = self.start.strip_prefix("HTTP/1.")?;
        rest.get(2..5)?.parse().ok()
    }

    /// Determines the framing; `until_close` is the meaning of absent framing.
    pub(crate) fn frame(&mut self, until_close: bool) -> Result<(), Failure> {
        let lengths: Vec<_> = self.values("Content-Length").map(<[u8]>::to_vec).collect();
        let codings: Vec<_> = self.values("Transfer-Encoding").map(<[u8]>::to_vec).collect();
        let ambiguous = lengths.len() > 1 || (!lengths.is_empty() && !codings.is_empty());
        if ambiguous || codings.len() > 1 {
            return Err(Failure::new(format!("ambiguous framing: {}", shown(&self.head))));
        }
        self.framing = match (lengths.first(), codings.first()) {
            (Some(length), _) => {
                match std::str::from_utf8(length).ok().and_then(|l| l.parse().ok()) {
                    Some(0) => Framing::Complete,
                    Some(length) => Framing::Length(length),
                    None => return Err(Failure::new(format!("bad length {}", shown(length)))),
                }
            }
            (_, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Framing::ChunkSize,
            (_, Some(coding)) => {
                return Err(Failure::new(format!("unknown coding {}", shown(coding))));
            }
            _ if until_close => Framing::UntilClose,
            _ => Framing::Complete,
        };
        Ok(())
    }

    /// Moves received bytes from `wire` into the body.
    pub(crate) fn absorb(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        loop {
            let buffer = &mut wire.buffer;
            self.framing = match self.framing {
                Framing::Complete => return Ok(()),
                Framing::UntilClose => {
                    self.body.append(buffer);
                    if wire.ending == Some(Ending::Closed) {
                        self.framing = Framing::Complete;
                    }
                    return Ok(());
                }
                Framing::Length(left) | Framing::ChunkData(left) => {
                    let count = left.min(buffer.len());
                    // Not byte by byte, which takes a second for a large body.
                    self.body.extend_from_slice(&buffer[..count]);
                    buffer.drain(..count);
                    match (self.framing, left - count) {
                        (Framing::Length(_), 0) => Framing::Complete,
                        (Framing::Length(_), left) => {
                            self.framing = Framing::Length(left);
                            return Ok(());
                        }
                        (_, 0) => Framing::ChunkEnd,
                        (_, left) => {
                            self.framing = Framing::ChunkData(left);
                            return Ok(());
                        }
                    }
                }
                Framing::ChunkSize | Framing::ChunkEnd | Framing::Trailer => {
                    let Some(end) = buffer.windows(2).position(|part| part == b"\r\n") else {
                        return Ok(());
                    };
                    let line: Vec<u8> = buffer.drain(..end + 2).take(end).collect();
                    self.chunk_line(&line)?
                }
            };
        }
    }

    fn chunk_line(&mut self, line: &[u8]) -> Result<Framing, Failure> {
        let bad = || Failure::new(format!("bad chunk line {}", shown(line)));
        match self.framing {
            Framing::ChunkSize => {
                let text = std::str::from_utf8(line).map_err(|_| bad())?;
                let digits = text.split(';').next().unwrap_or_default().trim_end();
                match usize::from_str_radix(digits, 16).map_err(|_| bad())? {
                    0 => Ok(Framing::Trailer),
                    size => Ok(Framing::ChunkData(size)),
                }
            }
            Framing::ChunkEnd if line.is_empty() => Ok(Framing::ChunkSize),
            Framing::Trailer if line.is_empty() => Ok(Framing::Complete),
            Framing::Trailer => {
                self.trailers.push(field(line).ok_or_else(bad)?);
                Ok(Framing::Trailer)
            }
            _ => Err(bad()),
        }
    }

    /// Reads until the body has at least `length` bytes, or its end.
    pub(crate) fn read_body(&mut self, wire: &mut Wire, length: usize) -> Result<(), Failure> {
        self.absorb(wire)?;
        while self.body.len() < length && self.framing != Framing::Complete {
            if !wire.fill()? {
                self.absorb(wire)?;
                return Ok(());
            }
            self.absorb(wire)?;
        }
        Ok(())
    }

    /// Checks that a header field matches (any one of several of that name).
    pub(crate) fn expect_field(&self, name: &str, matcher: &Matcher) -> Result<(), Failure> {
        if self.values(name).any(|value| matcher.matches(value)) {
            return Ok(());
        }
        let found: Vec<_> = self.values(name).map(shown).collect();
        let found = if found.is_empty() { "none".to_owned() } else { found.join(" and ") };
        Err(Failure::new(format!("header {name}: expected {matcher}, found {found}")))
    }

    /// Checks that there is no header field of that name.
    pub(crate) fn expect_no_field(&self, name: &str) -> Result<(), Failure> {
        match self.values(name).next() {
            None => Ok(()),
            Some(value) => Err(Failure::new(format!("header {name} found: {}", shown(value)))),
        }
    }
}

fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|&byte| byte == b':').filter(|&at| at > 0)?;
    let name = String::from_utf8_lossy(&line[..colon]).into_owned();
    Some((name, line[colon + 1..].trim_ascii().to_vec()))
}
