//! A client of one server, with one connection at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The longest wait for a response, and for a state.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks at a state.
const PAUSE: Duration = Duration::from_millis(2);

/// A server.
pub(super) struct Node {
    address: &'static str,
    stream: Option<BufReader<TcpStream>>,
}

/// A response.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    /// `X-Cache`.
    pub(super) cache: String,
    pub(super) body: Vec<u8>,
}

impl Node {
    pub(super) fn new(address: &'static str) -> Node {
        Node { address, stream: None }
    }

    /// Returns another client of the same server.
    pub(super) fn again(&self) -> Node {
        Node::new(self.address)
    }

    pub(super) fn get(&mut self, target: &str) -> Result<Response, String> {
        self.ask("GET", target)
    }

    /// Sends a request, on a new connection if there is none.
    ///
    /// # Errors
    /// There is no whole response; the connection is closed.
    pub(super) fn ask(&mut self, method: &str, target: &str) -> Result<Response, String> {
        let address = self.address;
        let result = self.try_ask(method, target);
        if result.is_err() {
            self.stream = None;
        }
        result.map_err(|error| format!("{method} {address}{target}: {error}"))
    }

    fn try_ask(&mut self, method: &str, target: &str) -> std::io::Result<Response> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            self.stream = Some(BufReader::new(stream));
        }
        let Some(stream) = &mut self.stream else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        write!(stream.get_mut(), "{method} {target} HTTP/1.1\r\nHost: cluster\r\n\r\n")?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let mut response = Response { status, ..Response::default() };
        let (mut length, mut closes) = (0, false);
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "x-cache" => value.clone_into(&mut response.cache),
                "connection" => closes = value == "close",
                _ => {}
            }
        }
        response.body.resize(length, 0);
        stream.read_exact(&mut response.body)?;
        if closes {
            self.stream = None;
        }
        Ok(response)
    }

    /// Asks until the body has a text; returns how long that took.
    ///
    /// # Errors
    /// It does not have it within half a minute.
    pub(super) fn until(&mut self, target: &str, text: &str) -> Result<Duration, String> {
        let begun = Instant::now();
        loop {
            let body = self.get(target).unwrap_or_default().body;
            let body = String::from_utf8_lossy(&body);
            if body.contains(text) {
                return Ok(begun.elapsed());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{}{target}: no {text} in {body}", self.address));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns a number that the API shows.
    pub(super) fn number(&mut self, target: &str, name: &str) -> Result<u64, String> {
        let body = self.get(target)?.body;
        let body = String::from_utf8_lossy(&body);
        let behind = body.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
        let digits = behind.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().map_err(|_| format!("{target}: no number \"{name}\""))
    }
}
