//! A blocking client of HTTPS: one connection for each request, HTTP/1.0, so that the end of the connection is that of
//! the response.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidegate_acme::{BODY_BYTES_MAX, Request, Response};

/// Longest wait for a part of a response.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Makes the settings of a client that trusts this certificate.
pub(super) fn config(trusted: &Path) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(trusted).map_err(io::Error::other)?;
    roots.add(certificate).map_err(io::Error::other)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Sends a request, and returns its response.
pub(super) fn send(config: &Arc<ClientConfig>, request: &Request) -> io::Result<Response> {
    let url = request.url.strip_prefix("https://").ok_or_else(|| strange("a URL"))?;
    let (place, path) = url.split_once('/').unwrap_or((url, ""));
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let socket = TcpStream::connect(place)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, socket);
    let mut head = format!("{} /{path} HTTP/1.0\r\nHost: {place}\r\n", request.method.as_str());
    head += "User-Agent: tidegate-testkit\r\n";
    for (name, value) in [("Content-Type", request.content_type), ("Accept", request.accept)] {
        if let Some(value) = value {
            head += &format!("{name}: {value}\r\n");
        }
    }
    head += &format!("Content-Length: {}\r\n\r\n", request.body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(&request.body)?;
    stream.flush()?;
    let mut received = Vec::new();
    let limit = (BODY_BYTES_MAX + HEAD_BYTES_MAX) as u64;
    match stream.take(limit).read_to_end(&mut received) {
        // Without close_notify; what was received is parsed, and a part is not JSON.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => parse(&received),
    }
}

fn parse(received: &[u8]) -> io::Result<Response> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or_else(|| strange("a head"))?;
    let head = str::from_utf8(&received[..end]).map_err(io::Error::other)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status =
        status.and_then(|status| status.parse().ok()).ok_or_else(|| strange("a status"))?;
    let fields = lines.filter_map(|line| line.split_once(':'));
    Ok(Response::new(status, fields, received[end + 4..].to_vec()))
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} that cannot be parsed"))
}
