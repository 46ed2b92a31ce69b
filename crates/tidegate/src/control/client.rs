//! A client of the API: one request on one connection, by HTTP/1.0, so that a response without a length ends with its
//! connection. It waits; the program has nothing else to do.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tidegate_os::os_error;

use super::failure::Failure;

/// Longest wait for a server that says nothing. A followed log says something more often.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest line of a head.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Most lines of a head.
const LINES_MAX: usize = 200;
/// Longest document.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// Where a server is, and where its API is there.
pub(super) struct Client {
    place: Place,
    /// Path of the location with `api`, without a slash at its end.
    api: String,
    /// Path of the location with `metrics`.
    metrics: String,
}

enum Place {
    Socket(PathBuf),
    Host { host: String, port: u16 },
}

/// A response whose body has not been read.
pub(super) struct Reply {
    pub status: u16,
    length: Option<u64>,
    pub body: Box<dyn BufRead>,
}

impl Client {
    /// Makes the client of an `admin_socket`.
    pub(super) fn of_socket(path: PathBuf) -> Client {
        Client {
            place: Place::Socket(path),
            api: "/api".to_owned(),
            metrics: "/metrics".to_owned(),
        }
    }

    /// Makes the client of an address such as `http://127.0.0.1:8080/api`; `/api` is the path if there is none.
    ///
    /// # Errors
    /// Another address.
    pub(super) fn of_url(url: &str) -> Result<Client, Failure> {
        let wrong = |why: &str| Failure::Usage(format!("\"{url}\": {why}"));
        let rest = url.strip_prefix("http://");
        let rest = rest.ok_or_else(|| wrong("expected `http://host:port/path`"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_safe = |byte: u8| byte.is_ascii_graphic();
        if authority.is_empty() || !rest.bytes().all(is_safe) || rest.contains('@') {
            return Err(wrong("no host, or a character that an address has not"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| wrong("invalid port"))?)
            }
            _ => (authority, 80),
        };
        let path = path.trim_end_matches('/');
        let api = if path.is_empty() { "/api" } else { path };
        Ok(Client {
            place: Place::Host { host: host.to_owned(), port },
            api: api.to_owned(),
            metrics: "/metrics".to_owned(),
        })
    }

    /// Reads an object of the API.
    ///
    /// # Errors
    /// No server, or one that refuses; as for all functions here.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        Ok(self.send("GET", path, None)?.unwrap_or(Value::Null))
    }

    /// Sends a command; returns the document of the response, if it has one.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, Failure> {
        let target = format!("{}/9/{path}", self.api);
        let text = self.open(method, &target, body)?.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = |error| Failure::Other(format!("the server sent no JSON: {error}"));
        serde_json::from_str(&text).map(Some).map_err(wrong)
    }

    /// Begins to read lines of the API.
    pub(super) fn lines(&self, path: &str) -> Result<Reply, Failure> {
        self.open("GET", &format!("{}/9/{path}", self.api), None)?.successful()
    }

    /// Reads the metrics.
    pub(super) fn metrics(&self) -> Result<String, Failure> {
        self.open("GET", &self.metrics, None)?.text()
    }

    fn open(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Reply, Failure> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let host = match &self.place {
            Place::Socket(_) => "localhost",
            Place::Host { host, .. } => host,
        };
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut stream = self.connect()?;
        let sent = stream.write_all(head.as_bytes()).and_then(|()| read_head(stream));
        sent.map_err(|error| self.no_server(&error))
    }

    fn connect(&self) -> Result<Stream, Failure> {
        let connected = match &self.place {
            Place::Socket(path) => {
                tidegate_os::connect::connect_unix(path, Some(TIMEOUT)).map(Stream::Unix)
            }
            Place::Host { host, port } => connect_host(host, *port).map(Stream::Tcp),
        };
        connected.map_err(|error| self.no_server(&error))
    }

    /// Says where no server is, and what may be the reason.
    fn no_server(&self, error: &io::Error) -> Failure {
        let place = match &self.place {
            Place::Socket(path) => format!("unix:{}", path.display()),
            Place::Host { host, port } => format!("{host}:{port}"),
        };
        let hint = match (error.kind(), &self.place) {
            (io::ErrorKind::PermissionDenied, Place::Socket(_)) => {
                "; its file belongs to another user: try as root, or set `mode=` of `admin_socket`"
            }
            (io::ErrorKind::NotFound, _) => "; is the server running, and with this configuration?",
            (io::ErrorKind::ConnectionRefused, _) => "; is the server running?",
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => "; the server says nothing",
            _ => "",
        };
        Failure::NoServer(format!("no server at {place} ({}){hint}", os_error(error)))
    }
}

/// A connection to a server.
enum Stream {
    Unix(File),
    Tcp(TcpStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn connect_host(host: &str, port: u16) -> io::Result<TcpStream> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads the head of a response.
///
/// # Errors
/// Those of reading, and `InvalidData` for what is no response of HTTP/1.
pub(super) fn read_head(stream: impl Read + 'static) -> io::Result<Reply> {
    let mut body = BufReader::new(stream);
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no response of HTTP");
    let line = read_line(&mut body)?;
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    let status = status.and_then(|digits| digits.parse().ok()).ok_or_else(invalid)?;
    let mut length = None;
    for _ in 0..LINES_MAX {
        let line = read_line(&mut body)?;
        if line.is_empty() {
            return Ok(Reply { status, length, body: Box::new(body) });
        }
        let (name, value) = line.split_once(':').ok_or_else(invalid)?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().map_err(|_| invalid())?);
        }
    }
    Err(invalid())
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.pop_if(|byte| *byte == b'\r');
    Ok(String::from_utf8_lossy(&line).into_owned())
}

impl Reply {
    /// Reads the whole body of a success.
    ///
    /// # Errors
    /// The server refused, or the body ended before its length.
    pub(super) fn text(self) -> Result<String, Failure> {
        let reply = self.successful()?;
        let text = reply.rest()?;
        String::from_utf8(text).map_err(|_| Failure::Other("the server sent no text".to_owned()))
    }

    fn rest(self) -> Result<Vec<u8>, Failure> {
        let mut text = Vec::new();
        let failed = |error: io::Error| Failure::Other(format!("reading: {}", os_error(&error)));
        let limit = self.length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        self.body.take(limit).read_to_end(&mut text).map_err(failed)?;
        match self.length {
            Some(length) if text.len() as u64 != length => {
                Err(Failure::Other("the response ended too early".to_owned()))
            }
            _ => Ok(text),
        }
    }

    /// Returns it where its status is one of success, and else what the API says about the error.
    fn successful(self) -> Result<Reply, Failure> {
        let status = self.status;
        if (200..300).contains(&status) {
            return Ok(self);
        }
        let body = self.rest().unwrap_or_default();
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let said = value.pointer("/error/text").and_then(Value::as_str).map(str::to_owned);
        let text = said.unwrap_or_else(|| match status {
            404 => {
                "there is no such path; is the address that of a location with `api`?".to_owned()
            }
            401 | 403 => "the server does not allow it".to_owned(),
            _ => "the server refused".to_owned(),
        });
        Err(Failure::Refused { status, text })
    }
}

/// Encodes a name as a part of a path or of a query.
pub(super) fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
