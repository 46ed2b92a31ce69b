//! The client's connection as protocol drivers show it to the code above them.

#[cfg(test)]
mod tests;

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate_codec::Headers;

use crate::future::LocalFuture;

/// The address of a peer or of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IPv4 or IPv6 address with its port.
    Inet(SocketAddr),
    /// The path of a Unix socket, which clients seldom have.
    Unix(String),
}

impl Address {
    /// Returns the address without port as `$remote_addr` shows it (`unix:` for Unix sockets).
    pub fn host_text(&self) -> String {
        match self {
            Address::Inet(address) => address.ip().to_string(),
            Address::Unix(_) => "unix:".to_owned(),
        }
    }

    /// Returns address and port as `listen` takes them.
    pub fn text(&self) -> String {
        match self {
            Address::Inet(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{path}"),
        }
    }

    /// Returns the port; `None` for Unix sockets.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Inet(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }
}

/// The TLS parameters of a connection, as the `$ssl_*` variables show them.
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    /// The protocol version in nginx's spelling, such as `TLSv1.3`.
    pub protocol: &'static str,
    /// OpenSSL's name of the cipher.
    pub cipher: &'static str,
    /// OpenSSL's name of the key exchange group.
    pub curve: &'static str,
    /// The name that the client sent (SNI).
    pub server_name: Option<String>,
    /// Whether the handshake was with the server of that name, not with the address's default server.
    pub server_named: bool,
    /// Whether an earlier session was resumed.
    pub session_reused: bool,
    /// Whether the handshake is incomplete, as it changes; `None` for a connection without early data.
    pub early: Option<Rc<Cell<bool>>>,
    /// The session's number; empty where it has none.
    pub session_id: Vec<u8>,
    /// OpenSSL's name of the algorithm of the server's signature; empty in a resumed session.
    pub signature: &'static str,
    /// OpenSSL's name of the algorithm of the client's signature; empty where it has not signed.
    pub client_signature: &'static str,
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// Code points of the ciphers that the client offered; kept only when the configuration uses them.
    pub offered_ciphers: Box<[u16]>,
    /// Code points of the key exchange groups that the client offered; kept only when the configuration uses them.
    pub offered_groups: Box<[u16]>,
    /// Code points of the signature algorithms that the client offered; kept only when the configuration uses them.
    pub offered_signatures: Box<[u16]>,
    /// The time from the accepted connection to the end of the handshake, by the coarse clock; zero over QUIC.
    pub handshake: Duration,
    /// The certificate that the client sent.
    pub client: Option<Box<ClientCertificate>>,
}

/// The certificate that a client has sent.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate in DER.
    pub der: Vec<u8>,
    /// Why the certificate is not trusted; `None` for a trusted one.
    pub fault: Option<CertificateError>,
    /// Identifies the trust settings that the certificate was verified with.
    pub judge: [u8; 8],
}

/// Why a client's certificate is not trusted, in OpenSSL's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateError {
    /// OpenSSL's error number (`X509_V_ERR_...`); 0 for errors of `ssl_ocsp`, which have none.
    pub number: u16,
    /// OpenSSL's error text.
    pub text: &'static str,
    /// Whether the only error is the missing trusted issuer, which `ssl_verify_client optional_no_ca` allows.
    pub is_about_trust: bool,
}

impl fmt::Display for CertificateError {
    /// As nginx logs it: `(20:unable to get local issuer certificate)`, `certificate revoked`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => f.write_str(self.text),
            number => write!(f, "({number}:{})", self.text),
        }
    }
}

/// Properties of one client connection; shared by its requests.
#[derive(Clone)]
pub struct Connection {
    /// `$connection`.
    pub number: u64,
    /// Whether its lines are written at all levels (`debug_connection`).
    pub debug: bool,
    /// The client's address.
    pub peer: Address,
    /// This server's address on the connection.
    pub local: Address,
    /// Text of the peer's address, made at first use.
    pub peer_text: OnceCell<Box<str>>,
    /// Addresses from a PROXY protocol header: client and server side.
    pub proxy_protocol: Option<Box<ProxyProtocol>>,
    /// TLS parameters; `None` for a plain connection.
    pub tls: Option<Box<TlsInfo>>,
    /// The protocol where requests are streams: `h2`, `h2c`, `h3` or `hq`; empty for HTTP/1. A plain connection shows it
    /// with its first bytes.
    pub protocol: Cell<&'static str>,
    /// Requests begun so far. A request's own number is `Exchange::ordinal`.
    pub requests: Cell<u64>,
    /// Time of the accept in Unix milliseconds, for `keepalive_time` and `$connection_time`.
    pub accepted_unix_millis: u64,
}

impl Connection {
    /// Returns the peer's address as `$remote_addr` shows it.
    pub fn peer_text(&self) -> &str {
        self.peer_text.get_or_init(|| self.peer.host_text().into())
    }
}

/// A client's address other than the connection's, as reported by a trusted proxy (`realip`).
#[derive(Clone, Debug)]
pub struct ClientAddress {
    /// The reported address.
    pub address: Address,
    /// Text of the address, made once.
    pub text: String,
}

impl From<Address> for ClientAddress {
    fn from(address: Address) -> ClientAddress {
        ClientAddress { text: address.host_text(), address }
    }
}

/// The contents of a PROXY protocol header.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    /// Source address: the client's.
    pub client: Option<SocketAddr>,
    /// Destination address: the one that the client connected to.
    pub server: Option<SocketAddr>,
    /// Version 2: the raw type-length-value list, see `tidegate_codec::proxy_protocol`.
    pub tlvs: Vec<u8>,
}

/// A connection's bytes in both directions. One task reads and one writes.
pub trait ByteStream {
    /// Reads into a vector's spare capacity; 0 is the end.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut Vec<u8>)
    -> Poll<io::Result<usize>>;

    /// Writes bytes; returns how many were taken.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Passes all written bytes to the kernel.
    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the sending side.
    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// A client connection that a [`Tunnel`](crate::body::Tunnel) has taken over.
pub struct ClientIo {
    /// The connection's bytes.
    pub io: Rc<dyn ByteStream>,
    /// Bytes received after the client's request.
    pub prefetched: Bytes,
}

/// How a request is cancelled whose response is not sent, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCode {
    /// The client sees the end (`return 444`, a body that broke off). HTTP/1 closes the connection;
    /// HTTP/2 and HTTP/3 reset the stream with `INTERNAL_ERROR` (RFC 9113 section 7).
    Close,
    /// The connection is reset (`reset_timedout_connection`): HTTP/1 with a TCP reset; HTTP/2 and HTTP/3 reset the
    /// stream with `CANCEL`.
    Reset,
}

/// The driver's side of a request in progress: one stream, which may share its connection with other streams.
pub trait Client {
    /// Becomes ready once the client has closed its connection or cancelled this request.
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()>;

    /// Cancels the request: the driver sends nothing more of it once it has the exchange back. Of several calls the
    /// first one counts.
    fn cancel(&self, code: CancelCode);

    /// Returns the bytes received of the request's body, chunk framing included; discarded bytes do not count.
    fn body_bytes(&self) -> u64 {
        0
    }

    /// Sends an interim (1xx) response at once.
    fn send_interim<'a>(
        &'a self,
        status: u16,
        headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>>;

    /// Returns TCP figures for `$tcpinfo_*`: rtt and rttvar in µs, congestion window in segments, receive space in
    /// bytes.
    fn tcp_info(&self) -> Option<[u32; 4]> {
        None
    }
}

/// A [`Client`] without a socket: nothing is sent to it, and it cancels nothing. It is a trait of its own, so that a
/// driver cannot leave out a method of [`Client`].
pub trait Socketless {
    /// As [`Client::poll_closed`].
    fn poll_closed(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Notes that an interim (1xx) response would be sent.
    fn note_interim(&self) {}

    /// As [`Client::tcp_info`].
    fn tcp_info(&self) -> Option<[u32; 4]> {
        None
    }
}

impl<T: Socketless> Client for T {
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        Socketless::poll_closed(self, context)
    }

    fn cancel(&self, _code: CancelCode) {}

    fn send_interim<'a>(
        &'a self,
        _status: u16,
        _headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        self.note_interim();
        Box::pin(async { Ok(()) })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        Socketless::tcp_info(self)
    }
}

/// The client of an exchange that has none.
pub struct NoClient;

impl Socketless for NoClient {}
