//! TLS settings of a connection, and the tickets of a case.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use quinn_proto::crypto::rustls::QuicClientConfig;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, NamedGroup};

use super::words::Options;
use crate::any_server::AnyServer;
use crate::bell::Failure;

/// Tickets kept for a case.
const TICKETS_MAX: usize = 64;

/// The tickets of all connections of a case.
#[derive(Debug)]
pub(super) struct Tickets(ClientSessionMemoryCache);

impl Default for Tickets {
    fn default() -> Self {
        Self(ClientSessionMemoryCache::new(TICKETS_MAX))
    }
}

/// The tickets as a connection uses them: it adds its own, and takes one only if it is to resume a session.
#[derive(Debug)]
pub(super) struct Resumed {
    tickets: Arc<Tickets>,
    resumes: bool,
    received: std::sync::atomic::AtomicUsize,
}

impl Resumed {
    pub(super) fn new(tickets: Arc<Tickets>, resumes: bool) -> Arc<Self> {
        Arc::new(Self { tickets, resumes, received: Default::default() })
    }

    /// The number of tickets that this connection has received.
    pub(super) fn received(&self) -> usize {
        self.received.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl ClientSessionStore for Resumed {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.tickets.0.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.0.kx_hint(name)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.tickets.0.insert_tls13_ticket(name, value);
        self.received.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.resumes.then(|| self.tickets.0.take_tls13_ticket(name))?
    }
}

/// Makes the settings. A certificate's file has its key as well.
pub(super) fn settings(
    options: &Options,
    directory: &Path,
    tickets: &Arc<Resumed>,
    shared: &OnceLock<ClientConfig>,
) -> Result<Arc<QuicClientConfig>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("TLS: {error}"));
    let is_plain = !options.is_chacha20 && options.certificate.is_none();
    let mut config = match shared.get().filter(|_| is_plain) {
        Some(config) => config.clone(),
        None => made(options, directory)?,
    };
    if is_plain {
        config = shared.get_or_init(|| config).clone();
    }
    config.alpn_protocols = vec![options.alpn.clone().into_bytes()];
    config.resumption = Resumption::store(tickets.clone());
    config.enable_early_data = options.is_early;
    let initial =
        cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let initial = initial.ok_or_else(|| Failure::new("TLS: no suite for first packets"))?;
    let config = QuicClientConfig::with_initial(Arc::new(config), initial);
    Ok(Arc::new(config.map_err(|error| failed(&error))?))
}

fn made(options: &Options, directory: &Path) -> Result<ClientConfig, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("TLS: {error}"));
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = match options.is_chacha20 {
        true => vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        false => vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
    };
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer));
    match &options.certificate {
        None => Ok(config.with_no_client_auth()),
        Some(name) => {
            let file = directory.join(name);
            let chain = CertificateDer::pem_file_iter(&file)
                .and_then(Iterator::collect)
                .map_err(|error| failed(&error))?;
            let key = PrivateKeyDer::from_pem_file(&file).map_err(|error| failed(&error))?;
            config.with_client_auth_cert(chain, key).map_err(|error| failed(&error))
        }
    }
}
