//! Settings of handshakes with origins, compiled from the options of a configuration.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::x509::{Purpose, Trust};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ProtocolVersion, SupportedCipherSuite};
use tidegate_rt::net::Addr;

use crate::error::{KeyPairError, SettingsError};
use crate::key_log::KeyLog;
use crate::key_pair::KeyPair;
use crate::pem::PrivateKey;
use crate::verify::OriginVerifier;
use crate::x509::possession::Possession;
use crate::{entropy, suites};

/// The TLS options of a configuration towards origins, as plain values: numbers, DER and flags, no directive
/// and no file. Made while a configuration is built, and consumed by [`TlsSettings::new`]. Two options with
/// equal [`TlsOptions::identity`] may share their settings, over locations and reloads.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Whether TLS 1.2 is offered.
    pub tls12: bool,
    /// Whether TLS 1.3 is offered.
    pub tls13: bool,
    /// Suites of TLS 1.2 by their numbers in the IANA registry, the preferred first.
    pub suites: Vec<u16>,
    /// Suites of TLS 1.3 likewise; empty for all available ones.
    pub suites_tls13: Vec<u16>,
    /// Whether sessions are resumed.
    pub session_reuse: bool,
    /// Whether the name is sent (SNI, RFC 6066 section 3).
    pub server_name: bool,
    /// Whether the origin's certificate is verified, and its name.
    pub verify: bool,
    /// Certificates (DER) that are trusted; needed with `verify` only.
    pub trusted: Vec<Vec<u8>>,
    /// Lists (DER) of revoked certificates.
    pub revocation_lists: Vec<Vec<u8>>,
    /// The most certificates between the origin's and a trusted one.
    pub verify_depth: u64,
    /// The client certificate towards the origin and those between it and its root (DER); empty for none.
    pub certificate: Vec<Vec<u8>>,
    /// Its private key (DER: PKCS#8, PKCS#1 or SEC1).
    pub key: Vec<u8>,
    /// The log of connections' secrets.
    pub key_log: Option<KeyLog>,
}

/// Compiled settings, with the sessions that can be resumed. Expensive values are made once, and handshakes
/// of all threads share them. Sessions are kept by peer and offer, up to 1024 of them with 32 names each, as
/// long as the settings exist. One lock is taken for a handshake, none for a byte.
pub struct TlsSettings {
    pub(crate) config: ClientConfig,
    session_reuse: bool,
    pub(crate) verify: bool,
    /// The library's configuration for each peer and offer, since sessions cannot be resumed with another
    /// one.
    peers: Mutex<HashMap<(Addr, Protocols), Arc<ClientConfig>>>,
}

/// Settings and the name of an origin: all that [`connect`](crate::connect()) takes besides a socket. Made
/// for each request; a clone costs three counters. Two that are equal may use each other's connections: their
/// settings are one object, and name and offer are the same.
#[derive(Clone, Debug)]
pub struct TlsTarget {
    pub(crate) settings: Arc<TlsSettings>,
    name: Arc<[u8]>,
    pub(crate) alpn: Protocols,
}

/// Protocols that are offered by ALPN (RFC 7301), the preferred first; empty for no offer. Shared, since most
/// requests of a location offer the same.
pub type Protocols = Arc<[Vec<u8>]>;

/// The most peers whose sessions are kept; others do full handshakes.
const PEERS_MAX: usize = 1024;
/// The most names of a peer whose sessions are kept.
const NAMES_MAX: usize = 32;

impl TlsOptions {
    /// Returns a text that is equal for equal options.
    pub fn identity(&self) -> String {
        let mut digest = ::aws_lc_rs::digest::Context::new(&::aws_lc_rs::digest::SHA256);
        let flags = [self.tls12, self.tls13, self.session_reuse, self.server_name, self.verify];
        digest.update(&flags.map(u8::from));
        let suites = self.suites.iter().chain(&self.suites_tls13);
        let suites: Vec<u8> = suites.flat_map(|suite| suite.to_be_bytes()).collect();
        digest.update(&self.verify_depth.to_be_bytes());
        let lists = [&[suites][..], &self.trusted, &self.revocation_lists, &self.certificate];
        for list in lists {
            digest.update(&(list.len() as u64).to_be_bytes());
            for part in list {
                digest.update(&(part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        digest.update(&self.key);
        digest.update(self.key_log.as_ref().map_or("", KeyLog::name).as_bytes());
        digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TlsSettings {
    /// Compiles options.
    ///
    /// # Errors
    /// The key is invalid or belongs to another certificate, or there is no protocol.
    pub fn new(options: &TlsOptions) -> Result<TlsSettings, SettingsError> {
        entropy::need();
        let cipher_suites = offered_suites(options);
        let provider = CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder =
            builder.with_protocol_versions(&suites::versions(options.tls12, options.tls13));
        let builder = builder.map_err(|error| SettingsError::Protocols(error.to_string()))?;
        let algorithms = suites::algorithms();
        let trust = options.verify.then(|| {
            let (trusted, lists) = (&options.trusted, &options.revocation_lists);
            Trust::new(Purpose::Server, trusted, lists, options.verify_depth, algorithms.all)
        });
        let verifier = OriginVerifier::new(Possession::new(algorithms), trust);
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match options.certificate.is_empty() {
            true => builder.with_no_client_auth(),
            false => builder.with_client_cert_resolver(Arc::new(own_certificate(options)?)),
        };
        if let Some(log) = &options.key_log {
            config.key_log = Arc::new(log.clone());
        }
        config.enable_sni = options.server_name;
        config.resumption = Resumption::disabled();
        let (session_reuse, verify) = (options.session_reuse, options.verify);
        Ok(TlsSettings { config, session_reuse, verify, peers: Mutex::default() })
    }

    /// Returns the library's configuration for a handshake with this peer.
    pub(crate) fn config(&self, peer: &Addr, alpn: &Protocols) -> Arc<ClientConfig> {
        let key = (peer.clone(), alpn.clone());
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = peers.get(&key) {
            return config.clone();
        }
        if peers.len() >= PEERS_MAX {
            peers.clear();
        }
        let mut config = self.config.clone();
        if self.session_reuse {
            config.resumption = Resumption::in_memory_sessions(NAMES_MAX);
        }
        config.alpn_protocols = alpn.to_vec();
        let config = Arc::new(config);
        peers.insert(key, config.clone());
        config
    }
}

/// Returns the suites in the library's order, except for those of TLS 1.2, which options order.
fn offered_suites(options: &TlsOptions) -> Vec<SupportedCipherSuite> {
    let number = |suite: &SupportedCipherSuite| {
        let is_tls13 = suite.version().version == ProtocolVersion::TLSv1_3;
        is_tls13.then(|| u16::from(suite.suite()))
    };
    let all: Vec<u16> = aws_lc_rs::ALL_CIPHER_SUITES.iter().filter_map(number).collect();
    let chosen = if options.suites_tls13.is_empty() { &all } else { &options.suites_tls13 };
    let mut offered = suites::by_number(chosen);
    offered.extend(suites::by_number(&options.suites));
    offered
}

fn own_certificate(options: &TlsOptions) -> Result<SingleCertAndKey, KeyPairError> {
    let key = PrivateKeyDer::try_from(options.key.clone());
    let key = key.map_err(|reason| KeyPairError::Unusable(reason.to_owned()))?;
    let pair = KeyPair::new(options.certificate.clone(), &PrivateKey(key))?;
    Ok(SingleCertAndKey::from(pair.0))
}

impl TlsTarget {
    /// Makes a target with `settings` for the origin called `name` (`proxy_ssl_name`, without a port), to
    /// which the protocols of `alpn` are offered.
    pub fn new(settings: Arc<TlsSettings>, name: Arc<[u8]>, alpn: Protocols) -> TlsTarget {
        TlsTarget { settings, name, alpn }
    }

    /// Returns the name that is sent to the origin (SNI) and that its certificate has to match, if the
    /// settings require that.
    pub fn name(&self) -> &[u8] {
        &self.name
    }
}

impl PartialEq for TlsTarget {
    fn eq(&self, other: &TlsTarget) -> bool {
        Arc::ptr_eq(&self.settings, &other.settings)
            && self.name == other.name
            && self.alpn == other.alpn
    }
}

impl Eq for TlsTarget {}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").field("verify", &self.verify).finish_non_exhaustive()
    }
}
