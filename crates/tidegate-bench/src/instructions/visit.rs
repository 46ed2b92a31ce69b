//! The client of a counted server: one connection, one request after another.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::response::{Progress, ResponseReader};

/// What is asked for, and the status that must come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    target: &'static str,
    /// Further field lines, each with its line end.
    fields: &'static str,
    status: u16,
}

impl Request {
    pub(super) const fn to(target: &'static str) -> Request {
        Request { target, fields: "", status: 200 }
    }

    /// The second kilobyte.
    pub(super) const fn range(target: &'static str) -> Request {
        Request { fields: "Range: bytes=1024-2047\r\n", status: 206, ..Request::to(target) }
    }

    /// What does not exist.
    pub(super) const fn missing(target: &'static str) -> Request {
        Request { status: 404, ..Request::to(target) }
    }

    /// What the client has already.
    pub(super) const fn conditional(target: &'static str) -> Request {
        Request { fields: "If-None-Match: *\r\n", status: 304, ..Request::to(target) }
    }
}

/// A kept connection.
pub(super) struct Visit {
    stream: TcpStream,
    request: Request,
    server: SocketAddr,
    buffer: Vec<u8>,
}

impl Visit {
    /// Takes over a connection to `server`.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn new(
        stream: TcpStream,
        server: SocketAddr,
        request: Request,
    ) -> io::Result<Visit> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Visit { stream, request, server, buffer: vec![0; 1 << 20] })
    }

    /// Sends `count` requests, each behind the whole response of the one before.
    ///
    /// # Errors
    /// Another status than the expected one, a malformed response, a closed connection.
    pub(super) fn ask(&mut self, count: u64) -> io::Result<()> {
        for _ in 0..count {
            let Request { target, fields, .. } = self.request;
            let text = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.server);
            self.stream.write_all(text.as_bytes())?;
            self.read_response()?;
        }
        Ok(())
    }

    fn read_response(&mut self) -> io::Result<()> {
        let mut reader = ResponseReader::default();
        loop {
            let count = self.stream.read(&mut self.buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match reader.feed(&self.buffer[..count]) {
                Ok(Progress::Partial) => {}
                Ok(Progress::Complete { status, close: false, .. })
                    if status == self.request.status =>
                {
                    return Ok(());
                }
                other => return Err(io::Error::other(format!("unexpected response: {other:?}"))),
            }
        }
    }
}

/// Far more than a request takes under valgrind on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
