//! One request over a connection of its own, with limits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::load::Ask;
use crate::response::{Progress, ResponseReader};

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// `X-Cache: HIT`.
    pub hit: bool,
}

impl Answer {
    /// Whether this is the right answer.
    pub(crate) fn suits(&self, ask: &Ask) -> bool {
        let body = ask.body.as_ref().is_none_or(|body| body[..] == self.body[..]);
        self.status == ask.status && self.body.len() as u64 == ask.body_bytes && body
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection ended before the first byte.
    Unanswered,
    /// Anything else.
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error)
    }
}

/// Asks for a target and reads the answer to its end. Connecting and each read take at most
/// `patience`.
///
/// # Errors
/// No connection, no answer in time, or one that makes no sense or has more than
/// [`BODY_BYTES_MAX`].
pub(crate) fn ask(
    address: SocketAddr,
    target: &str,
    patience: Duration,
) -> Result<Answer, Failure> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    match stream.write_all(request.as_bytes()) {
        Err(error) if is_ended(&error) => return Err(Failure::Unanswered),
        result => result?,
    }
    let (mut reader, mut body) = (ResponseReader::default(), Vec::new());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match stream.read(&mut buffer) {
            Err(error) if is_ended(&error) => 0,
            result => result?,
        };
        if count == 0 && reader.is_untouched() {
            return Err(Failure::Unanswered);
        }
        let progress = if count == 0 {
            reader.end()
        } else {
            reader.feed_into(&buffer[..count], &mut |_, part| body.extend_from_slice(part))
        };
        match progress {
            Ok(Progress::Partial) if body.len() <= BODY_BYTES_MAX => {}
            Ok(Progress::Complete { status, hit, .. }) => return Ok(Answer { status, body, hit }),
            other => return Err(io::Error::other(format!("wrong answer: {other:?}")).into()),
        }
    }
}

/// A connection for one request after the other.
pub(crate) struct Kept {
    stream: TcpStream,
    reader: ResponseReader,
    buffer: Vec<u8>,
}

impl Kept {
    /// Connecting and each read take at most `patience`.
    ///
    /// # Errors
    /// No connection.
    pub(crate) fn connect(address: SocketAddr, patience: Duration) -> io::Result<Kept> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Kept { stream, reader: ResponseReader::default(), buffer: vec![0; 16 * 1024] })
    }

    /// Asks for a target: the answer's status, and the length of its body.
    ///
    /// # Errors
    /// The connection ends, nothing comes in time, or what comes makes no sense.
    pub(crate) fn ask(&mut self, target: &str) -> io::Result<(u16, u64)> {
        self.stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: kept\r\n\r\n").as_bytes())?;
        loop {
            let progress = match self.stream.read(&mut self.buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.reader.feed(&self.buffer[..count]),
            };
            match progress {
                Ok(Progress::Partial) => {}
                Ok(Progress::Complete { status, body_bytes, .. }) => {
                    return Ok((status, body_bytes));
                }
                Err(fault) => return Err(io::Error::other(format!("wrong answer: {fault:?}"))),
            }
        }
    }
}

fn is_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
