//! What a protocol driver offers about the client's connection to everything above it.

#[cfg(test)]
mod tests;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_codec::Headers;

use crate::future::LocalFuture;

/// An address of either family; Unix peers have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Inet(SocketAddr),
    Unix(String),
}

impl Address {
    /// The address alone as `$remote_addr` shows it (`unix:` for Unix sockets).
    pub fn host_text(&self) -> String {
        match self {
            Address::Inet(address) => address.ip().to_string(),
            Address::Unix(_) => "unix:".to_owned(),
        }
    }

    /// Address and port as `listen` takes them.
    pub fn text(&self) -> String {
        match self {
            Address::Inet(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{path}"),
        }
    }

    /// The port; `None` for Unix sockets.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Inet(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }
}

/// What the TLS layer knows of a connection, as the `$ssl_*` variables show it.
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    pub protocol: &'static str,
    /// OpenSSL's name.
    pub cipher: &'static str,
    /// OpenSSL's name of the key exchange group.
    pub curve: &'static str,
    pub server_name: Option<String>,
    /// The handshake was with the server of that name, not with the address's default one.
    pub server_named: bool,
    pub session_reused: bool,
    pub alpn: Option<String>,
    /// Numbers of what the client offered; kept only when the configuration shows them.
    pub offered_ciphers: Box<[u16]>,
    pub offered_groups: Box<[u16]>,
    pub client: Option<Box<ClientCertificate>>,
}

/// The certificate that a client has shown.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// DER.
    pub der: Vec<u8>,
    /// Why it is not trusted.
    pub fault: Option<CertificateFault>,
    /// Tells apart whom it was to be trusted by.
    pub judge: [u8; 8],
}

/// Why a client's certificate is not trusted, as OpenSSL says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// OpenSSL's number (`X509_V_ERR_...`).
    pub number: u16,
    /// OpenSSL's text.
    pub text: &'static str,
    /// Nothing is wrong but that nobody trusted stands behind the certificate, which `ssl_verify_client
    /// optional_no_ca` allows.
    pub is_about_trust: bool,
}

impl fmt::Display for CertificateFault {
    /// As nginx logs it: `20:unable to get local issuer certificate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.text)
    }
}

/// Facts of one client connection; shared by its requests.
#[derive(Clone)]
pub struct Connection {
    /// `$connection`.
    pub number: u64,
    pub peer: Address,
    pub local: Address,
    /// Text of the peer's address, made when somebody asks for it.
    pub peer_text: OnceCell<Box<str>>,
    /// Addresses from a PROXY protocol header: client and server side.
    pub proxy_protocol: Option<Box<ProxyProtocol>>,
    pub tls: Option<Box<TlsInfo>>,
    /// What is spoken where requests are streams: `h2`, `h2c`, `h3` or `hq`; empty for HTTP/1.
    pub protocol: &'static str,
    /// Requests that have begun so far. Which of them one is, it knows itself: `Exchange::ordinal`.
    pub requests: Cell<u64>,
    /// When it was accepted, for `keepalive_time` and `$connection_time`.
    pub accepted_unix_millis: u64,
}

impl Connection {
    /// The peer's address as `$remote_addr` shows it.
    pub fn peer_text(&self) -> &str {
        self.peer_text.get_or_init(|| self.peer.host_text().into())
    }
}

/// A client's address other than the connection's, which a trusted proxy told.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    pub address: Address,
    /// Text of the address, made once.
    pub text: String,
}

impl From<Address> for ClientAddress {
    fn from(address: Address) -> ClientAddress {
        ClientAddress { text: address.host_text(), address }
    }
}

/// What a PROXY protocol header told.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    pub client: Option<SocketAddr>,
    pub server: Option<SocketAddr>,
    /// Version 2: the raw type-length-value list, see `tidegate_codec::proxy_protocol`.
    pub tlvs: Vec<u8>,
}

/// A connection's bytes in both directions. One task reads and one writes.
pub trait ByteStream {
    /// Reads into a vector's spare capacity; 0 is the end.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut Vec<u8>)
    -> Poll<io::Result<usize>>;

    /// Writes bytes, as much as is taken.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Hands everything written to the kernel.
    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends our sending side.
    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// A taken-over client connection.
pub struct ClientIo {
    pub io: Rc<dyn ByteStream>,
    /// Bytes the client had sent behind its request.
    pub prefetched: Bytes,
}

/// How a request is given up whose response is not sent, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCode {
    /// The client sees that nothing more comes (`return 444`, a body that broke off). HTTP/1 closes the connection;
    /// HTTP/2 and HTTP/3 reset the stream with `INTERNAL_ERROR` (RFC 9113 section 7).
    Close,
    /// It is not told in an orderly way (`reset_timedout_connection`). HTTP/1 resets the connection; HTTP/2 and
    /// HTTP/3 reset the stream with `CANCEL`.
    Reset,
}

/// The driver's side of a request in progress: one stream, which may share its connection with others.
pub trait Client {
    /// Ready once the client has closed its connection, or given up this request.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()>;

    /// Gives up the request: the driver sends nothing more of it once it has the exchange back. Of several calls the
    /// first one counts.
    fn cancel(&self, code: CancelCode);

    /// Bytes received of the request's body, with what frames its chunks; not those that were discarded because
    /// nobody asked for them.
    fn body_bytes(&self) -> u64 {
        0
    }

    /// Sends an informational (1xx) response at once.
    fn send_interim<'a>(
        &'a self,
        status: u16,
        headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>>;

    /// TCP figures for `$tcpinfo_*`: rtt, rttvar (µs), congestion window, receive space.
    fn tcp_info(&self) -> Option<[u32; 4]> {
        None
    }
}

/// A client that is not there: for exchanges without a socket.
pub struct NoClient;

impl Client for NoClient {
    fn poll_gone(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn cancel(&self, _code: CancelCode) {}

    fn send_interim<'a>(
        &'a self,
        _status: u16,
        _headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
