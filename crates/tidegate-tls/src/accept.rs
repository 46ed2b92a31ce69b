//! From a client's first bytes to a TLS stream. The handshake stops behind the client's hello, so that the
//! caller can choose a server by its content.

#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;

use tidegate_rt::net::Stream;
use tokio_rustls::rustls::server::{Accepted, Acceptor, UnbufferedServerConnection};
use tokio_rustls::rustls::{CommonState, HandshakeKind, ProtocolVersion};

use crate::client_status::StatusQuery;
use crate::error::HandshakeError;
use crate::server::ServerSettings;
use crate::session::Session;
use crate::side::Server;
use crate::stream::{self, TlsStream};
use crate::x509::VerifyError;
use crate::{cipher_suites, groups};

/// Bytes read at once for a client's first message: nearly all fit, and a longer one is read further.
pub const HELLO_BYTES: usize = 2048;
/// First bytes of TLS: a handshake record, and the start of an SSLv2 hello.
const HANDSHAKE_RECORD: u8 = 0x16;
const SSL2_BIT: u8 = 0x80;
/// A fatal alert `unrecognized_name` (RFC 6066 section 3) in a record of its own.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];
/// A fatal alert `internal_error` (RFC 8446 section 6) likewise.
const INTERNAL_ERROR: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 80];

/// A client's first message (ClientHello, RFC 8446 section 4.1.2), and the handshake behind it. The caller
/// examines the name, chooses a server's settings, and calls [`accept`](Hello::accept) with them, or refuses.
/// Nothing has been sent to the client by then. Dropping it ends the handshake without an alert.
pub struct Hello {
    accepted: Accepted,
    /// All bytes that have been received: the handshake begins with them anew.
    input: Vec<u8>,
}

/// The result of a handshake for variables and logs: a plain value, independent of the stream, so that it
/// outlives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// `TLSv1.2` or `TLSv1.3`.
    pub protocol: &'static str,
    /// OpenSSL's name of the cipher suite.
    pub cipher: &'static str,
    /// OpenSSL's name of the key exchange group.
    pub group: &'static str,
    /// Whether the client resumed a session.
    pub session_reused: bool,
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// The client's certificate, if it was requested and sent.
    pub client: Option<ShownCertificate>,
}

/// The certificate of a client. The client has its key, whether or not it is trusted: a handshake accepts any
/// certificate, and the caller refuses requests by `fault` (`ssl_verify_client`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The certificate (DER).
    pub der: Vec<u8>,
    /// The reason why it is not trusted; `None` for a trusted one.
    pub fault: Option<VerifyError>,
    /// Queries whether certificates of a trusted chain were revoked, the client's own first (`ssl_ocsp`).
    pub statuses: Vec<StatusQuery>,
}

/// Returns whether a client that begins with this byte speaks TLS, rather than a plain protocol.
pub fn begins_hello(first: u8) -> bool {
    first == HANDSHAKE_RECORD || first & SSL2_BIT != 0
}

impl Hello {
    /// Receives the client's hello, of which `input` has arrived already. An invalid hello gets an alert.
    ///
    /// Cancelling: the bytes that were read are lost, so the connection of a cancelled hello can only be
    /// closed. The library bounds the bytes that are read before there is a hello; the caller sets the time
    /// limit.
    ///
    /// # Errors
    /// The client closed, the socket failed, or the bytes are no hello.
    pub async fn receive(stream: &Stream, mut input: Vec<u8>) -> Result<Hello, HandshakeError> {
        let mut acceptor = Acceptor::default();
        let mut seen = 0;
        loop {
            let mut bytes = input.get(seen..).unwrap_or_default();
            while !bytes.is_empty() {
                acceptor.read_tls(&mut bytes).map_err(HandshakeError::Socket)?;
            }
            seen = input.len();
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Hello { accepted, input }),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut alert_bytes = Vec::new();
                    let _ = alert.write_all(&mut alert_bytes);
                    let _ = stream.write_all(&alert_bytes).await;
                    return Err(HandshakeError::from(&error));
                }
            }
            input.reserve(HELLO_BYTES);
            if stream.read_append(&mut input).await.map_err(HandshakeError::Socket)? == 0 {
                return Err(HandshakeError::Closed);
            }
        }
    }

    /// Returns the server name that the client requests (SNI, RFC 6066 section 3).
    pub fn server_name(&self) -> Option<String> {
        self.accepted.client_hello().server_name().map(str::to_owned)
    }

    /// Returns the numbers of the cipher suites that the client offers (IANA registry "TLS Cipher Suites").
    pub fn cipher_suites(&self) -> Box<[u16]> {
        self.accepted.client_hello().cipher_suites().iter().map(|suite| u16::from(*suite)).collect()
    }

    /// Returns the numbers of the groups that the client offers (IANA registry "TLS Supported Groups").
    pub fn groups(&self) -> Box<[u16]> {
        let hello = self.accepted.client_hello();
        let groups = hello.named_groups().unwrap_or_default();
        groups.iter().map(|group| u16::from(*group)).collect()
    }

    /// Ends the handshake with the alert `unrecognized_name`, as far as the client takes it.
    pub async fn refuse_name(self, stream: &Stream) {
        let _ = stream.write_all(&UNRECOGNIZED_NAME).await;
    }

    /// Ends the handshake with the alert `internal_error`: there is a reason on the server's side.
    pub async fn refuse_internally(self, stream: &Stream) {
        let _ = stream.write_all(&INTERNAL_ERROR).await;
    }

    /// Completes the handshake. The caller sets the time limits. A client's certificate is verified and never
    /// refused here.
    ///
    /// Cancelling: dropping it ends the session; the socket stays open, and can only be closed.
    ///
    /// # Errors
    /// The handshake failed; the client has been sent an alert where there is one for the reason.
    pub async fn accept(
        self,
        stream: &Rc<Stream>,
        settings: &ServerSettings,
    ) -> Result<(Rc<TlsStream<Server>>, Negotiated), HandshakeError> {
        let connection = UnbufferedServerConnection::new(settings.config.clone());
        let connection = connection.map_err(|error| HandshakeError::from(&error))?;
        let mut session = Session::new(connection, self.input, settings.record_bytes_max);
        drop(self.accepted);
        stream::handshake(stream, &mut session).await?;
        let negotiated = negotiated(session.common(), settings);
        Ok((Rc::new(TlsStream::new(stream.clone(), session)), negotiated))
    }
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("server_name", &self.server_name()).finish_non_exhaustive()
    }
}

/// Returns the result of a handshake.
pub(crate) fn negotiated(connection: &CommonState, settings: &ServerSettings) -> Negotiated {
    let protocol = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "",
    };
    let suite = connection.negotiated_cipher_suite().map(|suite| u16::from(suite.suite()));
    let group = connection.negotiated_key_exchange_group().map(|group| u16::from(group.name()));
    let alpn = connection.alpn_protocol();
    Negotiated {
        protocol,
        cipher: suite.and_then(cipher_suites::name).unwrap_or_default(),
        group: group.and_then(groups::name).unwrap_or_default(),
        session_reused: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        alpn: alpn.map(|name| String::from_utf8_lossy(name).into_owned()),
        client: shown(connection, settings),
    }
}

/// Verifies the certificate of a client. A resumed session has the certificates of its first handshake.
fn shown(connection: &CommonState, settings: &ServerSettings) -> Option<ShownCertificate> {
    let trust = settings.clients()?;
    let chain = connection.peer_certificates()?;
    let leaf = chain.first()?;
    let (fault, statuses) = trust.judge(chain, tidegate_rt::clock::unix_seconds());
    Some(ShownCertificate { der: leaf.to_vec(), fault, statuses })
}
