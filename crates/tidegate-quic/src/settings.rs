//! Limits, keys and cryptography of connections, as plain values.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{IdleTimeout, TransportConfig, ValidationTokenConfig, VarInt};
use tidegate_tls::quic::{QuicHandshakes, QuicHostKeys};

use crate::tokens::{LIFETIME, UsedTokens};

/// The least size of a datagram that every path carries (RFC 9000 section 14).
const DATAGRAM_BYTES_MIN: u16 = 1200;
/// Connections that wait for the decision about their first packet: none waits here, the decision is made at once.
const INCOMING_MAX: usize = 1 << 10;
/// Bytes of their further packets, each and together.
const INCOMING_BYTES: u64 = 64 << 10;
const INCOMING_BYTES_TOTAL: u64 = 4 << 20;

/// Limits of the connections of a server or client.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Streams in both directions that the peer may have open.
    pub streams_both: u32,
    /// Streams in its direction that the peer may have open.
    pub streams_one: u32,
    /// Bytes of each stream that may arrive before they are read.
    pub stream_bytes: u32,
    /// Bytes of all streams of a connection that may arrive before they are read.
    pub connection_bytes: u32,
    /// Bytes of all streams that are kept until the peer acknowledges them.
    pub send_bytes: u64,
    /// The time without packets after which a connection is forgotten; zero for never.
    pub idle_timeout: Duration,
    /// Whether the kernel divides datagrams (`quic_gso`).
    pub segmentation: bool,
    /// Tokens that a client gets for its next connections, so that these need no Retry (NEW_TOKEN).
    pub address_tokens: u32,
}

/// Secrets of an endpoint (`quic_host_key`): those of stateless resets, of address validation and of connection numbers.
#[derive(Clone)]
pub struct Keys(pub(crate) Arc<QuicHostKeys>, Arc<UsedTokens>);

/// Settings of the connections that a listener accepts. A connection keeps those that it began with.
#[derive(Clone)]
pub struct ServerSettings(pub(crate) Arc<quinn_proto::ServerConfig>);

/// Settings of the connections that a client opens.
#[derive(Clone)]
pub struct ClientSettings(pub(crate) quinn_proto::ClientConfig);

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_both: 128,
            streams_one: 3,
            stream_bytes: 64 << 10,
            connection_bytes: 1 << 20,
            send_bytes: 1 << 20,
            idle_timeout: Duration::from_secs(60),
            segmentation: true,
            address_tokens: 0,
        }
    }
}

impl Limits {
    fn transport(&self) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        config.max_concurrent_bidi_streams(self.streams_both.into());
        config.max_concurrent_uni_streams(self.streams_one.into());
        config.stream_receive_window(self.stream_bytes.into());
        config.receive_window(self.connection_bytes.into());
        config.send_window(self.send_bytes);
        config.datagram_receive_buffer_size(None);
        config.enable_segmentation_offload(self.segmentation);
        config.initial_mtu(DATAGRAM_BYTES_MIN);
        let millis = u64::try_from(self.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        let timeout = VarInt::from_u64(millis).unwrap_or(VarInt::MAX);
        config.max_idle_timeout((millis > 0).then(|| IdleTimeout::from(timeout)));
        Arc::new(config)
    }
}

impl Keys {
    /// Derives the keys from a secret. The same secret on another day, or another machine, has the same keys.
    pub fn derive(secret: &[u8]) -> Keys {
        Keys(Arc::new(QuicHostKeys::derive(secret)), Arc::default())
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl ServerSettings {
    /// Makes settings.
    pub fn new(handshakes: Arc<QuicHandshakes>, keys: &Keys, limits: &Limits) -> ServerSettings {
        let mut config = quinn_proto::ServerConfig::new(handshakes, keys.0.tokens.clone());
        config.transport_config(limits.transport());
        config.max_incoming(INCOMING_MAX);
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(limits.address_tokens).lifetime(LIFETIME).log(keys.1.clone());
        config.validation_token_config(tokens);
        config.incoming_buffer_size(INCOMING_BYTES);
        config.incoming_buffer_size_total(INCOMING_BYTES_TOTAL);
        ServerSettings(Arc::new(config))
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").finish_non_exhaustive()
    }
}

impl ClientSettings {
    /// Makes settings for peers of `tls`, with the protocols for ALPN.
    ///
    /// # Errors
    /// The TLS settings are of no use for QUIC.
    pub fn new(
        tls: &tidegate_tls::TlsSettings,
        alpn: Vec<Vec<u8>>,
        limits: &Limits,
    ) -> Result<ClientSettings, tidegate_tls::SettingsError> {
        let mut config = quinn_proto::ClientConfig::new(tls.quic(alpn)?);
        config.transport_config(limits.transport());
        Ok(ClientSettings(config))
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings").finish_non_exhaustive()
    }
}
