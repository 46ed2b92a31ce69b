//! One request on one connection, plain or TLS, and its parsed response.

use super::places::Listen;
use super::requests::{Request, Shape};
use crate::any_server::AnyServer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;

/// Longest wait for the next bytes of a response.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Largest number of bytes read of a response.
const RESPONSE_BYTES_MAX: usize = 4 << 20;

/// A response, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The status line; words in brackets where there was none.
    pub status: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// Without chunk framing, decompressed where it was gzip.
    pub body: Vec<u8>,
    /// The client's own port, which configurations may repeat.
    pub port: u16,
}

impl Response {
    fn failed(why: &str) -> Self {
        Self { status: format!("({why})"), ..Self::default() }
    }

    /// Returns the first field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the status code; 0 where there was none.
    pub fn code(&self) -> u16 {
        self.status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

/// Sends a request and reads the response to the end of the connection.
pub(super) fn exchange(request: &Request) -> Response {
    let Listen { address, tls, proxied, .. } = request.listen;
    let Ok(mut stream) = TcpStream::connect_timeout(&address, SILENCE_MAX) else {
        return Response::failed("no connection");
    };
    let port = stream.local_addr().map_or(0, |address| address.port());
    let _ = stream.set_read_timeout(Some(SILENCE_MAX));
    let _ = stream.set_write_timeout(Some(SILENCE_MAX));
    if proxied {
        let _ = stream.write_all(b"PROXY TCP4 192.0.2.7 127.0.0.1 1234 80\r\n");
    }
    let mut response = if tls {
        let name = request.tls_name().unwrap_or("none.test").to_owned();
        let name = ServerName::try_from(name).or_else(|_| ServerName::try_from("odd.test"));
        let session = name.ok().and_then(|name| {
            rustls::ClientConnection::new(Arc::new(tls_settings()), name.to_owned()).ok()
        });
        let Some(session) = session else { return Response::failed("no TLS client") };
        talk(&mut rustls::StreamOwned::new(session, stream), request)
    } else {
        talk(&mut stream, request)
    };
    response.port = port;
    response
}

fn talk(stream: &mut (impl Read + Write), request: &Request) -> Response {
    // A server that refuses a long request may close before it has read all of it.
    let all = request.bytes();
    let expecting = request.shape == Shape::Expecting;
    let head = all.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    let now = if expecting { head } else { all.len() };
    let sent = stream.write_all(&all[..now]).and_then(|()| stream.flush());
    let mut rest = &all[now..];
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    let mut broken = sent.err();
    while bytes.len() < RESPONSE_BYTES_MAX && !(request.shape == Shape::Upgrade && whole(&bytes)) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => {
                bytes.extend_from_slice(&piece[..length]);
                if bytes.starts_with(b"HTTP/1.1 100") && !rest.is_empty() {
                    broken = stream.write_all(rest).and_then(|()| stream.flush()).err();
                    rest = &[];
                }
            }
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    if bytes.is_empty() {
        return match broken.map(|error| error.kind()) {
            Some(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                Response::failed("silence")
            }
            Some(std::io::ErrorKind::InvalidData) => Response::failed("no handshake"),
            _ => Response::failed("closed"),
        };
    }
    parse(&bytes)
}

/// Whether a response is complete by its framing: for connections that stay open after it.
fn whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let response = parse(bytes);
    if response.field("transfer-encoding").is_some() {
        return bytes.ends_with(b"0\r\n\r\n");
    }
    match response.field("content-length").and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => bytes.len() >= end + 4 + length,
        None => matches!(response.code(), 204 | 304),
    }
}

/// Parses a response from all bytes of its connection; interim responses count as fields of it.
pub(super) fn parse(bytes: &[u8]) -> Response {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    if let Some(end) =
        end.filter(|_| bytes.starts_with(b"HTTP/1.1 10") && !bytes.starts_with(b"HTTP/1.1 101"))
    {
        let mut response = parse(&bytes[end + 4..]);
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        response.fields.push(("(interim)".into(), text));
        return response;
    }
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Response { body: bytes.to_vec(), ..Response::failed("no head") };
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default().to_owned();
    let mut fields: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    fields.sort();
    let mut response = Response { status, fields, body: bytes[end + 4..].to_vec(), port: 0 };
    if response.field("transfer-encoding").is_some() {
        response.body = dechunked(&response.body);
    }
    if response.field("content-encoding") == Some("gzip") {
        let mut plain = Vec::new();
        let mut reader =
            flate2::read::GzDecoder::new(response.body.as_slice()).take(RESPONSE_BYTES_MAX as u64);
        if reader.read_to_end(&mut plain).is_ok() {
            response.body = plain;
        }
    }
    response
}

/// Returns the data of the chunks; a truncated body ends with a mark.
fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n");
        let size = line.and_then(|end| {
            usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.trim(), 16).ok()
        });
        let (Some(end), Some(size)) = (line, size) else { break };
        if size == 0 {
            return data;
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { break };
        data.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    data.extend_from_slice(b"(cut)");
    data
}

fn tls_settings() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth()
}
