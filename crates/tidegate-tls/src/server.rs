//! Settings of handshakes with clients, compiled from plain values.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::crypto::{CryptoProvider, aws_lc_rs as library};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, ServerConfig, SignatureAlgorithm, WantsVerifier};

use crate::client_trust::ClientTrust;
use crate::error::SettingsError;
use crate::groups::Groups;
use crate::key_log::KeyLog;
use crate::key_pair::KeyPair;
use crate::sessions::{ServerSessions, SessionCache};
use crate::stapling::Stapled;
use crate::tickets::{TicketKeys, Tickets};
use crate::{certificate_compression, entropy, suites};

/// Protocol versions, cipher suites and groups that a server negotiates: checked to be compatible before the
/// rest of its settings.
pub struct ServerProtocols(ConfigBuilder<ServerConfig, WantsVerifier>);

/// The TLS options of a configuration for clients of one server, as plain values. Made while a configuration
/// is built, and consumed by [`ServerSettings::new`].
#[derive(Debug)]
pub struct ServerOptions {
    /// Versions, cipher suites and groups.
    pub protocols: ServerProtocols,
    /// The certificates; a client gets the first whose key it can use, ECDSA before others. Without any, each
    /// handshake needs its own ([`ServerSettings::with_pairs`]).
    pub certificates: Vec<Arc<Stapled>>,
    /// The trust in client certificates; `None` when none are requested.
    pub clients: Option<ClientTrust>,
    /// Protocols for ALPN (RFC 7301), the preferred first. A client that offers none of them is refused;
    /// empty for no ALPN.
    pub alpn: Vec<Vec<u8>>,
    /// Whether the server's order of cipher suites takes precedence over the client's.
    pub prefers_own_suites: bool,
    /// The most bytes of data in a sent record; 64 (RFC 8449) to 16384, other values count as the nearest.
    pub record_bytes_max: u64,
    /// The time in which a session can be resumed.
    pub session_timeout: Duration,
    /// The cache of sessions; `None` for no cache.
    pub sessions: Option<Arc<SessionCache>>,
    /// The keys of tickets; `None` for no tickets.
    pub tickets: Option<TicketKeys>,
    /// Whether data in the first flight of a resumed session is accepted (RFC 8446 section 2.3). The library requires
    /// `sessions` without `tickets` for it: each session is resumed once.
    pub early_data: bool,
    /// Whether certificates are sent compressed to clients that allow it (RFC 8879).
    pub compresses_certificates: bool,
    /// The log of connections' secrets.
    pub key_log: Option<KeyLog>,
}

/// Compiled settings of one server. Handshakes of all threads share them. A connection keeps the settings
/// that it began with when a reload makes others.
pub struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    clients: Option<Arc<ClientTrust>>,
    /// The certificates of the options.
    fixed: Vec<Arc<Stapled>>,
    resumption: Resumption,
    /// The most bytes of data in a record: the library's value, so that it does not divide what it is given.
    pub(crate) record_bytes_max: usize,
}

/// How sessions are resumed, whichever certificates are used.
#[derive(Clone)]
struct Resumption {
    sessions: Option<Arc<SessionCache>>,
    tickets: Option<TicketKeys>,
    timeout: Duration,
}

/// The library's least size of a record in bytes (RFC 8449).
const RECORD_BYTES_MIN: u64 = 64;
const RECORD_BYTES_MAX: u64 = 16 * 1024;
/// A record's header, which the library counts as part of its size.
const HEADER_BYTES: usize = 5;
/// The number of tickets sent after a full handshake of TLS 1.3, as in OpenSSL.
const TICKETS_SENT: usize = 2;
/// The most bytes of early data of a connection, as in OpenSSL.
const EARLY_BYTES_MAX: u32 = 16 * 1024;

impl ServerProtocols {
    /// Makes protocols of the versions, the suites of TLS 1.2 by their numbers, those of TLS 1.3 (`None` for
    /// all available ones), and the groups, the preferred first.
    ///
    /// # Errors
    /// Nothing remains to be negotiated.
    pub fn new(
        tls12: bool,
        tls13: bool,
        suites_tls12: &[u16],
        suites_tls13: Option<&[u16]>,
        groups: Groups,
    ) -> Result<ServerProtocols, SettingsError> {
        entropy::need();
        let tls13_suites = suites::tls13(suites_tls13);
        let cipher_suites =
            tls13_suites.into_iter().chain(suites::by_number(suites_tls12)).collect();
        let kx_groups = groups.groups;
        let provider = CryptoProvider { cipher_suites, kx_groups, ..library::default_provider() };
        let builder = ServerConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&suites::versions(tls12, tls13));
        builder.map(ServerProtocols).map_err(|error| SettingsError::Protocols(error.to_string()))
    }
}

impl fmt::Debug for ServerProtocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerProtocols").finish_non_exhaustive()
    }
}

impl ServerSettings {
    /// Compiles options.
    pub fn new(options: ServerOptions) -> ServerSettings {
        let clients = options.clients.map(Arc::new);
        let builder = match &clients {
            Some(clients) => {
                options.protocols.0.with_client_cert_verifier(Arc::new(clients.verifier()))
            }
            None => options.protocols.0.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(Certificates(Vec::new())));
        config.alpn_protocols = options.alpn;
        config.ignore_client_order = options.prefers_own_suites;
        if options.record_bytes_max < RECORD_BYTES_MAX {
            config.max_fragment_size =
                Some(options.record_bytes_max.max(RECORD_BYTES_MIN) as usize);
        }
        let resumes = options.sessions.is_some() || options.tickets.is_some();
        config.send_tls13_tickets = if resumes { TICKETS_SENT } else { 0 };
        if options.early_data {
            config.max_early_data_size = EARLY_BYTES_MAX;
            // A response to it need not wait for the client's last message.
            config.send_half_rtt_data = true;
        }
        if options.compresses_certificates {
            certificate_compression::compress(&mut config);
        }
        if let Some(log) = options.key_log {
            config.key_log = Arc::new(log);
        }
        let resumption = Resumption {
            sessions: options.sessions,
            tickets: options.tickets,
            timeout: options.session_timeout,
        };
        let fixed = options.certificates;
        present(&mut config, fixed.clone(), clients.as_deref(), &resumption);
        let record_bytes_max =
            config.max_fragment_size.map_or(usize::MAX, |size| size - HEADER_BYTES);
        ServerSettings { config: Arc::new(config), clients, fixed, resumption, record_bytes_max }
    }

    /// Returns the same settings with other protocols for ALPN. Sessions, tickets and certificates are shared.
    #[must_use]
    pub fn with_alpn(&self, alpn: Vec<Vec<u8>>) -> ServerSettings {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = alpn;
        self.with_config(config)
    }

    /// Returns settings of one handshake, with certificates beside those of the options. Sessions are resumed with the
    /// same certificates only, as with settings that had them from the start.
    #[must_use]
    pub fn with_pairs(&self, pairs: &[KeyPair]) -> ServerSettings {
        let further = pairs.iter().map(|pair| Arc::new(Stapled::new(pair.clone())));
        let certificates = self.fixed.iter().cloned().chain(further).collect();
        let mut config = ServerConfig::clone(&self.config);
        present(&mut config, certificates, self.clients.as_deref(), &self.resumption);
        self.with_config(config)
    }

    pub(crate) fn with_config(&self, config: ServerConfig) -> ServerSettings {
        ServerSettings {
            config: Arc::new(config),
            clients: self.clients.clone(),
            fixed: self.fixed.clone(),
            resumption: self.resumption.clone(),
            record_bytes_max: self.record_bytes_max,
        }
    }

    /// Returns whether the options had certificates.
    pub fn has_certificates(&self) -> bool {
        !self.fixed.is_empty()
    }

    /// Returns the trust in client certificates of handshakes with these settings.
    pub fn clients(&self) -> Option<&ClientTrust> {
        self.clients.as_deref()
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// Makes a configuration present these certificates, and resume only the sessions that belong to them.
fn present(
    config: &mut ServerConfig,
    certificates: Vec<Arc<Stapled>>,
    clients: Option<&ClientTrust>,
    resumption: &Resumption,
) {
    let certificates = Certificates::new(certificates);
    let context = context(&certificates, clients);
    let timeout = resumption.timeout;
    config.session_storage = match &resumption.sessions {
        Some(cache) => Arc::new(ServerSessions { cache: cache.clone(), timeout, context }),
        None => Arc::new(NoServerSessionStorage {}),
    };
    if let Some(keys) = &resumption.tickets {
        config.ticketer = Arc::new(Tickets { keys: keys.clone(), timeout, context });
    }
    config.cert_resolver = Arc::new(certificates);
}

/// Returns certificates of which there are none.
pub(crate) fn no_certificates() -> Arc<dyn ResolvesServerCert> {
    Arc::new(Certificates(Vec::new()))
}

/// The certificates of one server, the preferred type first.
#[derive(Debug)]
struct Certificates(Vec<Arc<Stapled>>);

impl Certificates {
    /// Sorts ECDSA before others: OpenSSL prefers it, and it costs the server a tenth of RSA. As in OpenSSL, the last
    /// certificate of each type of key replaces earlier ones.
    fn new(mut pairs: Vec<Arc<Stapled>>) -> Certificates {
        pairs.reverse();
        pairs.sort_by_key(|pair| match pair.current().key.algorithm() {
            SignatureAlgorithm::ECDSA => 0,
            SignatureAlgorithm::RSA => 2,
            _ => 1,
        });
        pairs.dedup_by_key(|pair| pair.current().key.algorithm());
        Certificates(pairs)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let fits = |pair: &Arc<CertifiedKey>| pair.key.choose_scheme(schemes).is_some();
        // Without a matching one the handshake fails with a better reason than "no certificate".
        let mut all = self.0.iter().map(|pair| pair.current());
        all.find(fits).or_else(|| self.0.first().map(|pair| pair.current()))
    }
}

/// Returns bytes that separate servers' sessions by their certificates and those of their clients.
fn context(certificates: &Certificates, clients: Option<&ClientTrust>) -> [u8; 16] {
    let mut digest = digest::Context::new(&digest::SHA256);
    let mut update = |part: &[u8]| {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    };
    for pair in &certificates.0 {
        pair.pair().chain().for_each(&mut update);
    }
    clients.into_iter().flat_map(ClientTrust::parts).for_each(&mut update);
    digest.finish().as_ref().first_chunk().copied().unwrap_or_default()
}
