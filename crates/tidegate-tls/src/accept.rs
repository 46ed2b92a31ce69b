//! From a client's first bytes to a TLS stream. The handshake stops behind the client's hello, so that the
//! caller can choose a server by its content.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use rustls::server::{Accepted, Acceptor, UnbufferedServerConnection};
use rustls::{
    CommonState, Error, HandshakeKind, InvalidMessage, PeerIncompatible, ProtocolVersion,
};
use tidegate_rt::net::Stream;

use crate::client_status::StatusQuery;
use crate::error::{HandshakeError, alert_for, plain_alert};
use crate::observed::{Observed, observe};
use crate::server::ServerSettings;
use crate::session::Session;
use crate::side::Server;
use crate::stream::{self, TlsStream};
use crate::x509::VerifyError;
use crate::{cipher_suites, groups, signature_schemes};

/// Bytes read at once for a client's first message: nearly all fit, and a longer one is read further.
pub const HELLO_BYTES: usize = 2048;
/// First bytes of TLS: a handshake record, and the start of an SSLv2 hello.
const HANDSHAKE_RECORD: u8 = 0x16;
const SSL2_BIT: u8 = 0x80;
/// The longest number of a session, bytes.
const SESSION_ID_BYTES_MAX: usize = 32;
/// The alerts `unrecognized_name` (RFC 6066 section 3) and `internal_error` (RFC 8446 section 6).
const UNRECOGNIZED_NAME: u8 = 112;
const INTERNAL_ERROR: u8 = 80;

/// A client's first message (ClientHello, RFC 8446 section 4.1.2), and the handshake behind it. The caller
/// examines the name, chooses a server's settings, and calls [`accept`](Hello::accept) with them, or refuses.
/// Nothing has been sent to the client by then. Dropping it ends the handshake without an alert.
pub struct Hello {
    accepted: Accepted,
    /// All bytes that have been received: the handshake begins with them anew.
    input: Vec<u8>,
}

/// The result of a handshake for variables and logs: independent of the stream, so that it outlives it.
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
    /// Whether the handshake is incomplete, while the stream is read; `None` where there is no early data.
    pub early: Option<Rc<Cell<bool>>>,
    /// The session's number: random in TLS 1.3, as in OpenSSL. Empty in TLS 1.2 for a new session that only the client
    /// keeps.
    pub session_id: Vec<u8>,
    /// OpenSSL's name of the algorithm by which the server has signed; empty in a resumed session.
    pub signature: &'static str,
    /// OpenSSL's name of the algorithm by which the client has signed; empty where it has not.
    pub client_signature: &'static str,
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// The client's certificate, if it was requested and sent.
    pub client: Option<ShownCertificate>,
}

impl Negotiated {
    /// Adds the algorithms of the signatures that a handshake has shown.
    pub(crate) fn add_signatures(&mut self, observed: &Observed) {
        let name = |number| signature_schemes::name(number).unwrap_or_default();
        self.signature = name(observed.own_scheme);
        self.client_signature = name(observed.peer_scheme);
    }
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
            // The library takes a piece at once, and more than a record only once it knows that a hello goes on.
            while !bytes.is_empty() {
                let failed = match acceptor.read_tls(&mut bytes).map(|_| acceptor.accept()) {
                    Ok(Ok(Some(accepted))) => return Ok(Hello { accepted, input }),
                    Ok(Ok(None)) => continue,
                    Ok(Err((error, mut alert))) => {
                        let mut sent = Vec::new();
                        let _ = alert.write_all(&mut sent);
                        (error, sent)
                    }
                    // Its buffer is full.
                    Err(_) => (InvalidMessage::HandshakePayloadTooLarge.into(), Vec::new()),
                };
                return Err(refuse(stream, failed).await);
            }
            seen = input.len();
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

    /// Returns whether the client offers this protocol by ALPN (RFC 7301), and no other one.
    pub fn offers_only(&self, protocol: &[u8]) -> bool {
        let hello = self.accepted.client_hello();
        let Some(mut offered) = hello.alpn() else { return false };
        offered.next() == Some(protocol) && offered.next().is_none()
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

    /// Returns the numbers of the signature algorithms that the client accepts (IANA registry "TLS SignatureScheme").
    pub fn signature_schemes(&self) -> Box<[u16]> {
        let hello = self.accepted.client_hello();
        hello.signature_schemes().iter().map(|scheme| u16::from(*scheme)).collect()
    }

    /// Ends the handshake with the alert `unrecognized_name`, as far as the client takes it.
    pub async fn refuse_name(self, stream: &Stream) {
        let _ = stream.write_all(&plain_alert(UNRECOGNIZED_NAME)).await;
    }

    /// Ends the handshake with the alert `internal_error`: there is a reason on the server's side.
    pub async fn refuse_internally(self, stream: &Stream) {
        let _ = stream.write_all(&plain_alert(INTERNAL_ERROR)).await;
    }

    /// Completes the handshake, or comes to early data, if the settings have it. The caller sets the time limits. A
    /// client's certificate is verified and never refused here.
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
        let offered = session_id(&self.input).unwrap_or_default().to_vec();
        let mut session = Session::new(connection, self.input, settings.record_bytes_max);
        drop(self.accepted);
        let (done, observed) = observe(stream::handshake(stream, &mut session)).await;
        done?;
        let mut negotiated = negotiated(session.common(), settings);
        negotiated.early = session.early();
        negotiated.add_signatures(&observed);
        negotiated.session_id = match (negotiated.protocol, negotiated.session_reused) {
            ("TLSv1.3", _) => random_id(),
            (_, true) => offered,
            (_, false) if observed.ticket_sent => Vec::new(),
            (_, false) => observed.stored,
        };
        Ok((Rc::new(TlsStream::new(stream.clone(), session)), negotiated))
    }
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("server_name", &self.server_name()).finish_non_exhaustive()
    }
}

/// Ends a handshake that has failed with the library's alert, or one of ours where the library has none, or says
/// handshake_failure to a client that is too old.
async fn refuse(stream: &Stream, (error, mut alert): (Error, Vec<u8>)) -> HandshakeError {
    let too_old = PeerIncompatible::SignatureAlgorithmsExtensionRequired;
    if alert.is_empty() || error == Error::PeerIncompatible(too_old) {
        alert.clear();
        alert.extend(alert_for(&error).map(plain_alert).into_iter().flatten());
    }
    let _ = stream.write_all(&alert).await;
    HandshakeError::from(&error)
}

/// Returns the number of the session that a client wants to resume, by the bytes of its hello (RFC 5246 section 7.4.1.2;
/// at most 32 of them); `None` where they are not in the first record.
fn session_id(hello: &[u8]) -> Option<&[u8]> {
    // Record, message, version and random are before it.
    const OFFSET: usize = 5 + 4 + 2 + 32;
    let (length, rest) = hello.get(OFFSET..)?.split_first()?;
    let record = usize::from(u16::from_be_bytes([*hello.get(3)?, *hello.get(4)?])) + 5;
    let length = usize::from(*length);
    let end = OFFSET + 1 + length;
    (length <= SESSION_ID_BYTES_MAX && end <= record).then(|| rest.get(..length))?
}

/// Returns a new number; empty where the system has no random bytes.
fn random_id() -> Vec<u8> {
    let mut id = [0; SESSION_ID_BYTES_MAX];
    aws_lc_rs::rand::fill(&mut id).map(|()| id.to_vec()).unwrap_or_default()
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
        early: None,
        session_id: Vec::new(),
        signature: "",
        client_signature: "",
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
