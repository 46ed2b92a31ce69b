//! TLS for QUIC (RFC 9001), as the cryptography of `quinn_proto`: one handshake for each connection, whose server is
//! chosen by the client's hello as over TCP.
//!
//! ```text
//! CRYPTO bytes → hello whole → (QuicServers: choose ServerSettings) → the library's QUIC handshake
//! ```

mod session;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::ConnectionId;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{self, HandshakeTokenKey, HmacKey, Keys, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use rustls::crypto::CryptoProvider;
use rustls::quic::{Suite, Version};
use rustls::{CipherSuite, ServerConfig, SupportedCipherSuite};

use crate::accept::Negotiated;
use crate::client::TlsSettings;
use crate::error::SettingsError;
use crate::server::ServerSettings;
use crate::suites;
use session::Held;

/// QUIC's value of the early data's size: it is limited by streams instead (RFC 9001 section 4.6.1).
const EARLY_DATA: u32 = u32::MAX;
/// The versions of QUIC: RFC 9000.
const V1: u32 = 1;
/// The least and the most connection IDs of a peer that are kept: the protocol's least number (RFC 9000 section 18.2), and
/// the transport's room.
const CONNECTION_IDS_MIN: u32 = 2;
/// See [`QuicHandshakes::new`].
pub const CONNECTION_IDS_MAX: u32 = 5;
/// The transport parameter with that number.
const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;

/// The choice of a server for a client's hello.
pub trait QuicServers: Send + Sync {
    /// Returns the settings ([`ServerSettings::for_quic`]) of the handshake; `None` refuses the name (alert
    /// `unrecognized_name`).
    fn choose(&self, hello: &QuicHello) -> Option<Arc<ServerSettings>>;
}

/// The parts of a client's hello by which a server is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicHello {
    /// The name that the client requests (RFC 6066 section 3).
    pub server_name: Option<String>,
    /// The numbers of the cipher suites that it offers.
    pub cipher_suites: Box<[u16]>,
    /// The numbers of the groups that it offers.
    pub groups: Box<[u16]>,
    /// The numbers of the signature algorithms that it accepts.
    pub signature_schemes: Box<[u16]>,
}

/// The result of a handshake, which a connection returns as its handshake data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicNegotiated {
    /// What the client offered.
    pub hello: QuicHello,
    /// As over TCP.
    pub negotiated: Negotiated,
}

/// The cryptography of a listener.
pub struct QuicHandshakes {
    servers: Arc<dyn QuicServers>,
    /// The suite of Initial packets (RFC 9001 section 5.2), whichever suites the servers have.
    initial: Suite,
    /// Makes the tags of Retry packets.
    library: Arc<QuicServerConfig>,
    /// The number of a client's connection IDs that is announced.
    connection_ids: u8,
}

impl QuicHandshakes {
    /// Makes the cryptography of a listener whose servers are `servers`. Of a client's connection IDs
    /// `connection_ids` are kept, at least 2 and at most [`CONNECTION_IDS_MAX`].
    ///
    /// # Errors
    /// The library lacks what QUIC requires.
    pub fn new(
        servers: Arc<dyn QuicServers>,
        connection_ids: u32,
    ) -> Result<QuicHandshakes, SettingsError> {
        let initial = initial_suite()?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&suites::versions(false, true))
            .map_err(|error| SettingsError::Protocols(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(crate::server::no_certificates());
        let library = QuicServerConfig::with_initial(Arc::new(config), initial)
            .map_err(|error| SettingsError::Protocols(error.to_string()))?;
        let connection_ids = connection_ids.clamp(CONNECTION_IDS_MIN, CONNECTION_IDS_MAX) as u8;
        Ok(QuicHandshakes { servers, initial, library: Arc::new(library), connection_ids })
    }

    /// Returns the same cryptography for other servers.
    #[must_use]
    pub fn with_servers(&self, servers: Arc<dyn QuicServers>) -> QuicHandshakes {
        QuicHandshakes { servers, library: self.library.clone(), ..*self }
    }
}

impl fmt::Debug for QuicHandshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicHandshakes").finish_non_exhaustive()
    }
}

impl crypto::ServerConfig for QuicHandshakes {
    fn initial_keys(
        &self,
        version: u32,
        dst_cid: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        if version != V1 {
            return Err(UnsupportedVersion);
        }
        self.library.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.library.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        limit_connection_ids(&mut parameters, self.connection_ids);
        Box::new(Held::new(self.servers.clone(), self.initial, parameters))
    }
}

impl ServerSettings {
    /// Returns the same settings for QUIC, with the protocols for ALPN. Sessions, tickets and certificates are shared
    /// with the connections over TCP. `early_data`: whether requests in a resumed session's first flight are accepted.
    #[must_use]
    pub fn for_quic(&self, alpn: Vec<Vec<u8>>, early_data: bool) -> ServerSettings {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = alpn;
        config.max_fragment_size = None;
        config.max_early_data_size = if early_data { EARLY_DATA } else { 0 };
        self.with_config(config)
    }
}

impl TlsSettings {
    /// Returns the cryptography of connections over QUIC towards a server with these settings, with the protocols for
    /// ALPN.
    ///
    /// # Errors
    /// The settings lack TLS 1.3.
    pub fn quic(&self, alpn: Vec<Vec<u8>>) -> Result<Arc<dyn crypto::ClientConfig>, SettingsError> {
        let mut config = self.config.clone();
        config.alpn_protocols = alpn;
        config.max_fragment_size = None;
        config.enable_early_data = true;
        let config =
            crypto::rustls::QuicClientConfig::with_initial(Arc::new(config), initial_suite()?);
        let config = config.map_err(|error| SettingsError::Protocols(error.to_string()))?;
        Ok(Arc::new(config))
    }
}

/// The keys of an endpoint that outlive a restart: of stateless resets (RFC 9000 section 10.3) and of tokens that
/// validate addresses (section 8.1).
pub struct QuicHostKeys {
    /// The key of reset tokens.
    pub reset: Arc<dyn HmacKey>,
    /// The key of address validation tokens.
    pub tokens: Arc<dyn HandshakeTokenKey>,
    /// A key by which own connection numbers are distinguished from others.
    pub numbers: u64,
}

impl QuicHostKeys {
    /// Derives the keys from a secret (`quic_host_key`), the same ones each time.
    pub fn derive(secret: &[u8]) -> QuicHostKeys {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate quic host keys");
        let root = salt.extract(secret);
        let bytes = |label: &[u8]| {
            let mut bytes = [0u8; 32];
            // cannot fail: 32 bytes are what the hash yields at once.
            let _ = root
                .expand(&[label], hkdf::HKDF_SHA256)
                .and_then(|material| material.fill(&mut bytes));
            bytes
        };
        let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tokens").extract(&bytes(b"tokens"));
        let numbers = bytes(b"numbers").first_chunk().copied().unwrap_or_default();
        QuicHostKeys {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &bytes(b"resets"))),
            tokens: Arc::new(tokens),
            numbers: u64::from_be_bytes(numbers),
        }
    }
}

impl fmt::Debug for QuicHostKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicHostKeys").finish_non_exhaustive()
    }
}

/// Overwrites the number of connection IDs in encoded transport parameters (RFC 9000 section 18), if it takes one byte.
fn limit_connection_ids(parameters: &mut [u8], number: u8) {
    let mut at = 0;
    while let Some((id, length)) = varint(parameters, &mut at).zip(varint(parameters, &mut at)) {
        if let (ACTIVE_CONNECTION_ID_LIMIT, 1, Some(value)) = (id, length, parameters.get_mut(at)) {
            *value = number;
        }
        at = at.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    }
}

/// Reads an integer of variable length (RFC 9000 section 16), and moves `at` behind it.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    let length = 1usize << (first >> 6);
    let rest = bytes.get(*at + 1..*at + length)?;
    *at += length;
    let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(rest.iter().fold(u64::from(first & 0x3f), push))
}

/// Returns the suite of Initial packets.
fn initial_suite() -> Result<Suite, SettingsError> {
    let provider: CryptoProvider = rustls::crypto::aws_lc_rs::default_provider();
    let is_initial =
        |suite: &&SupportedCipherSuite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256;
    let suite = provider.cipher_suites.iter().find(is_initial);
    suite
        .and_then(|suite| suite.tls13()?.quic_suite())
        .ok_or_else(|| SettingsError::Protocols("the library has no QUIC".to_owned()))
}

/// The library's version, the only one that [`QuicHandshakes`] has keys for.
const LIBRARY_VERSION: Version = Version::V1;
