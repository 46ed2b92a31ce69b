//! From a client's first bytes to a TLS stream. The handshake stops behind the client's hello, so that the caller
//! can choose a server by what it says.

#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;

use tidegate_rt::net::Stream;
use tidegate_rt::sync::StreamIo;
use tokio_rustls::StartHandshake;
use tokio_rustls::rustls::server::{Accepted, Acceptor};
use tokio_rustls::rustls::{HandshakeKind, ProtocolVersion, ServerConnection};

use crate::error::HandshakeError;
use crate::server::ServerSettings;
use crate::side::Server;
use crate::stream::TlsStream;
use crate::x509::Fault;
use crate::{cipher_suites, groups};

/// Bytes asked for a client's first message at once: nearly all fit, and a longer one is read on.
pub const HELLO_BYTES: usize = 2048;
/// First bytes that mean TLS: a handshake record, and what an SSLv2 hello begins with.
const HANDSHAKE_RECORD: u8 = 0x16;
const SSL2_BIT: u8 = 0x80;
/// A fatal alert `unrecognized_name` (RFC 6066 section 3) in a record of its own.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// A client's first message (ClientHello, RFC 8446 section 4.1.2), and the handshake that waits behind it: the caller
/// looks at the name, chooses a server's settings, and lets it [`accept`](Hello::accept) by them, or refuses. Nothing
/// has been sent to the client by then. Dropping it ends the handshake without a word.
pub struct Hello(Accepted);

/// What a handshake came to, as variables and logs show it: a plain value, taken once and independent of the stream, so
/// that it can be asked for when that has gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// `TLSv1.2` or `TLSv1.3`.
    pub protocol: &'static str,
    /// OpenSSL's name of the cipher suite.
    pub cipher: &'static str,
    /// OpenSSL's name of the key exchange group.
    pub group: &'static str,
    /// The client resumed a session.
    pub session_reused: bool,
    /// The protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// The client's certificate, where it was asked for and has shown one.
    pub client: Option<ShownCertificate>,
}

/// A certificate that a client has shown. It has the key, whether or not it is trusted: a handshake takes any, and it
/// is for the caller to refuse requests by `fault` (`ssl_verify_client`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// DER.
    pub der: Vec<u8>,
    /// Why it is not trusted.
    pub fault: Option<Fault>,
}

/// Whether a client that begins with this byte speaks TLS, rather than a plain protocol.
pub fn begins_hello(first: u8) -> bool {
    first == HANDSHAKE_RECORD || first & SSL2_BIT != 0
}

impl Hello {
    /// Receives the client's hello, of which `input` has come already. Mistakes in it are answered with an alert.
    ///
    /// Cancelling: what was read goes with it, so a connection whose hello was given up on can only be closed. The
    /// library bounds how much is read before there is a hello; time is the caller's.
    ///
    /// # Errors
    /// The client closed, the socket failed, or what came is no hello.
    pub async fn receive(stream: &Stream, mut input: Vec<u8>) -> Result<Hello, HandshakeError> {
        let mut acceptor = Acceptor::default();
        loop {
            let mut bytes = &input[..];
            while !bytes.is_empty() {
                acceptor.read_tls(&mut bytes).map_err(HandshakeError::Socket)?;
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Hello(accepted)),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut answer = Vec::new();
                    let _ = alert.write_all(&mut answer);
                    let _ = stream.write_all(&answer).await;
                    return Err(HandshakeError::from(&error));
                }
            }
            input.clear();
            input.reserve(HELLO_BYTES);
            if stream.read_append(&mut input).await.map_err(HandshakeError::Socket)? == 0 {
                return Err(HandshakeError::Closed);
            }
        }
    }

    /// The name of the server that the client wants (SNI, RFC 6066 section 3).
    pub fn server_name(&self) -> Option<String> {
        self.0.client_hello().server_name().map(str::to_owned)
    }

    /// Numbers of the cipher suites that the client offers (IANA registry "TLS Cipher Suites").
    pub fn cipher_suites(&self) -> Box<[u16]> {
        self.0.client_hello().cipher_suites().iter().map(|suite| u16::from(*suite)).collect()
    }

    /// Numbers of the groups that the client offers (IANA registry "TLS Supported Groups").
    pub fn groups(&self) -> Box<[u16]> {
        let hello = self.0.client_hello();
        let groups = hello.named_groups().unwrap_or_default();
        groups.iter().map(|group| u16::from(*group)).collect()
    }

    /// Breaks the handshake off with the alert `unrecognized_name`, as far as the client takes it.
    pub async fn refuse_name(self, stream: &Stream) {
        let _ = stream.write_all(&UNRECOGNIZED_NAME).await;
    }

    /// Goes through the rest of the handshake. Time limits are the caller's. A client's certificate is judged and
    /// never refused here.
    ///
    /// Cancelling: dropping it gives the session up; the socket stays open, and is of no use but to be closed.
    ///
    /// # Errors
    /// The handshake came to nothing; the client has been sent an alert where there is one for it.
    pub async fn accept(
        self,
        stream: &Rc<Stream>,
        settings: &ServerSettings,
    ) -> Result<(Rc<TlsStream<Server>>, Negotiated), HandshakeError> {
        let start = StartHandshake::from_parts(self.0, StreamIo(stream.clone()));
        let session = start.into_stream(settings.config.clone()).await?;
        let negotiated = negotiated(session.get_ref().1, settings);
        Ok((Rc::new(TlsStream::new(stream.clone(), session)), negotiated))
    }
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello").field("server_name", &self.server_name()).finish_non_exhaustive()
    }
}

fn negotiated(connection: &ServerConnection, settings: &ServerSettings) -> Negotiated {
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

/// Judges what a client has shown; resumed sessions know the certificates of their first handshake.
fn shown(connection: &ServerConnection, settings: &ServerSettings) -> Option<ShownCertificate> {
    let trust = settings.clients()?;
    let chain = connection.peer_certificates()?;
    let leaf = chain.first()?;
    let fault = trust.fault(chain, tidegate_rt::clock::unix_seconds());
    Some(ShownCertificate { der: leaf.to_vec(), fault })
}
