//! A server's handshake that begins when the client's hello is whole.
//!
//! | state | input | then |
//! |---|---|---|
//! | `Hello` | CRYPTO bytes | collected until the hello is whole; then the server is chosen, and all bytes are its handshake's |
//! | `Running` | CRYPTO bytes | the library's |
//! | `Refused` | – | the connection has ended with the error |
//!
//! A hello with a post-quantum key share needs two datagrams, and its parts may arrive in any order; `quinn_proto` puts
//! them in order.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite};
use rustls::server::{Accepted, Acceptor};

use super::{LIBRARY_VERSION, QuicHello, QuicNegotiated, QuicServers};
use crate::accept::negotiated;
use crate::observed::{Observed, observe_part};
use crate::server::ServerSettings;

/// Most bytes of a hello; those of browsers have 2,000.
const HELLO_BYTES_MAX: usize = 16 * 1024;
/// A handshake message's header: type and length (RFC 8446 section 4).
const MESSAGE_HEADER_BYTES: usize = 4;
/// The type of a hello.
const CLIENT_HELLO: u8 = 1;
/// Most bytes of a record (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Alerts (RFC 8446 section 6).
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// A server's session.
pub(super) struct Held {
    servers: Arc<dyn QuicServers>,
    initial: Suite,
    /// Our transport parameters, encoded.
    parameters: Vec<u8>,
    state: State,
}

enum State {
    Hello(Vec<u8>),
    Running(Box<Running>),
    Refused,
}

struct Running {
    connection: ServerConnection,
    settings: Arc<ServerSettings>,
    hello: QuicHello,
    observed: Observed,
    /// Secrets of the next keys, once there are the first ones.
    next: Option<Secrets>,
}

impl Held {
    pub(super) fn new(servers: Arc<dyn QuicServers>, initial: Suite, parameters: Vec<u8>) -> Held {
        Held { servers, initial, parameters, state: State::Hello(Vec::new()) }
    }

    fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            State::Hello(_) | State::Refused => None,
        }
    }

    fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.state {
            State::Running(running) => Some(running),
            State::Hello(_) | State::Refused => None,
        }
    }

    /// Begins the handshake with all bytes that have arrived.
    fn begin(&self, bytes: &[u8]) -> Result<Running, TransportError> {
        let hello = parse(bytes)?;
        let settings = self
            .servers
            .choose(&hello)
            .ok_or_else(|| failure(UNRECOGNIZED_NAME, "no server has the requested name"))?;
        let connection = ServerConnection::new(
            settings.config.clone(),
            LIBRARY_VERSION,
            self.parameters.clone(),
        );
        let connection = connection.map_err(|error| failure(INTERNAL_ERROR, &error.to_string()))?;
        let observed = Observed::default();
        let mut running = Running { connection, settings, hello, observed, next: None };
        running.read(bytes)?;
        Ok(running)
    }
}

impl Running {
    fn read(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let read = observe_part(&mut self.observed, || self.connection.read_hs(bytes));
        read.map_err(|error| match self.connection.alert() {
            Some(alert) => failure(alert.into(), &error.to_string()),
            None => failure(INTERNAL_ERROR, &error.to_string()),
        })
    }
}

impl crypto::Session for Held {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        packet_keys(self.initial.keys(dst_cid, side, LIBRARY_VERSION))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let running = self.running()?;
        let Running { connection, settings, hello, observed, .. } = running;
        let mut negotiated = negotiated(connection, settings);
        negotiated.add_signatures(observed);
        Some(Box::new(QuicNegotiated { hello: hello.clone(), negotiated }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.running()?.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.running().is_none_or(|running| running.connection.is_handshaking())
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let bytes = match &mut self.state {
            State::Running(running) => return running.read(buf).map(|()| false),
            State::Refused => return Ok(false),
            State::Hello(bytes) => bytes,
        };
        bytes.extend_from_slice(buf);
        if !is_whole(bytes)? {
            return Ok(false);
        }
        let bytes = std::mem::take(bytes);
        self.state = State::Refused;
        self.state = State::Running(Box::new(self.begin(&bytes)?));
        Ok(true)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let running = self.running();
        let Some(bytes) =
            running.and_then(|running| running.connection.quic_transport_parameters())
        else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let running = self.running_mut()?;
        let keys = match running.connection.write_hs(buf)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                running.next = Some(next);
                keys
            }
        };
        Some(packet_keys(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.running_mut()?.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        // Servers send Retry packets and receive none.
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        // Nothing over QUIC asks for exported keys.
        Err(ExportKeyingMaterialError)
    }
}

/// Whether the bytes contain a whole hello.
fn is_whole(bytes: &[u8]) -> Result<bool, TransportError> {
    if bytes.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(failure(UNEXPECTED_MESSAGE, "the first message is no ClientHello"));
    }
    let Some([_, a, b, c]) = bytes.first_chunk() else { return Ok(false) };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize + MESSAGE_HEADER_BYTES;
    if length > HELLO_BYTES_MAX {
        return Err(failure(DECODE_ERROR, "ClientHello of more than 16384 bytes"));
    }
    Ok(bytes.len() >= length)
}

/// Parses a hello by the library's parser, which reads records.
fn parse(bytes: &[u8]) -> Result<QuicHello, TransportError> {
    let mut records = Vec::with_capacity(bytes.len() + 10);
    for part in bytes.chunks(RECORD_BYTES_MAX) {
        records.extend_from_slice(&[0x16, 3, 1]);
        records.extend_from_slice(&(part.len() as u16).to_be_bytes());
        records.extend_from_slice(part);
    }
    let mut acceptor = Acceptor::default();
    let mut rest = records.as_slice();
    let accepted = loop {
        match acceptor.accept() {
            Ok(Some(accepted)) => break accepted,
            Ok(None) if rest.is_empty() => {
                return Err(failure(DECODE_ERROR, "ClientHello is not whole"));
            }
            Ok(None) => {}
            Err((error, _)) => return Err(failure(DECODE_ERROR, &error.to_string())),
        }
        if acceptor.read_tls(&mut rest).is_err() {
            return Err(failure(DECODE_ERROR, "ClientHello cannot be read"));
        }
    };
    Ok(of_hello(&accepted))
}

fn of_hello(accepted: &Accepted) -> QuicHello {
    let hello = accepted.client_hello();
    let groups = hello.named_groups().unwrap_or_default();
    QuicHello {
        server_name: hello.server_name().map(str::to_owned),
        cipher_suites: hello.cipher_suites().iter().map(|suite| u16::from(*suite)).collect(),
        groups: groups.iter().map(|group| u16::from(*group)).collect(),
        signature_schemes: hello.signature_schemes().iter().map(|s| u16::from(*s)).collect(),
    }
}

/// An error of the handshake with the number of an alert (RFC 9001 section 4.8).
fn failure(alert: u8, reason: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(alert),
        frame: None,
        reason: reason.to_owned(),
    }
}

fn packet_keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}
