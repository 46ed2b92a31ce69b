//! One request over a connection of its own, with limits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::load::TestRequest;
use crate::response::{Progress, ResponseReader};

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub status: u16,
    pub body: Vec<u8>,
    /// `X-Cache: HIT`.
    pub hit: bool,
}

impl Response {
    /// Whether this is the correct response.
    pub(crate) fn suits(&self, ask: &TestRequest) -> bool {
        let body = ask.body.as_ref().is_none_or(|body| body[..] == self.body[..]);
        self.status == ask.status && self.body.len() as u64 == ask.body_bytes && body
    }
}

/// The reason why there is no response.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection ended before the first byte.
    NoResponse,
    /// Anything else.
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error)
    }
}

/// Requests a target and reads the response to its end. Connecting and each read take at most
/// `patience`.
///
/// # Errors
/// No connection, no response in time, or one that is invalid or has more than
/// [`BODY_BYTES_MAX`].
pub(crate) fn ask(
    address: SocketAddr,
    target: &str,
    patience: Duration,
) -> Result<Response, Failure> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    match stream.write_all(request.as_bytes()) {
        Err(error) if is_ended(&error) => return Err(Failure::NoResponse),
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
            return Err(Failure::NoResponse);
        }
        let progress = if count == 0 {
            reader.end()
        } else {
            reader.feed_into(&buffer[..count], &mut |_, part| body.extend_from_slice(part))
        };
        match progress {
            Ok(Progress::Partial) if body.len() <= BODY_BYTES_MAX => {}
            Ok(Progress::Complete { status, hit, .. }) => {
                return Ok(Response { status, body, hit });
            }
            other => return Err(io::Error::other(format!("wrong response: {other:?}")).into()),
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

    /// Requests a target: returns the status of the response, and the length of its body.
    ///
    /// # Errors
    /// The connection ends, no response arrives in time, or it is invalid.
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
                Err(fault) => return Err(io::Error::other(format!("wrong response: {fault:?}"))),
            }
        }
    }
}

fn is_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
