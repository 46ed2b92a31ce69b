//! Clients' certificates. As nginx does it, any handshake is brought to its end; then the certificate is
//! judged, and requests (or the session) are refused where the server that they reach wants a better one.

use std::iter;

use aws_lc_rs::digest;
use tidegate_conf::{Diagnostic, Word};
use tidegate_core::Exchange;
use tidegate_core::builder::PlanBuilder;
use tidegate_core::client::{CertificateFault, ClientCertificate, TlsInfo};
use tidegate_core::error_log::Level;
use tidegate_tls::x509::possession::{Possession, key_info};
use tidegate_tls::x509::{Certificate, Fault, Purpose, Trust};
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs as provider};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConnection, SignatureScheme,
};

use super::conf::{Conf, VerifyClient};
use super::server::TlsServer;

/// The certificates of a server's clients.
#[derive(Debug)]
pub struct ClientTrust {
    trust: Trust,
    /// Contents of the names that are sent to clients, each once.
    names: Vec<Vec<u8>>,
    /// The same for servers that trust the same.
    identity: [u8; 8],
}

/// Statuses of nginx's own.
const CERTIFICATE_ERROR: u16 = 495;
const NO_CERTIFICATE: u16 = 496;
const MISDIRECTED: u16 = 421;
/// nginx's default.
const DEPTH_DEFAULT: u64 = 1;

/// Compiles what a server says of its clients' certificates; `None` if it asks for none.
///
/// # Errors
/// The first mistake, in nginx's words.
pub fn compile(conf: &Conf, plan: &PlanBuilder<'_>) -> Result<Option<ClientTrust>, Diagnostic> {
    let verify = conf.verify_client.unwrap_or_default();
    let given = |word: &Option<Word>| word.clone().filter(|word| !word.bytes.is_empty());
    let (own, further) = (given(&conf.client_certificate), given(&conf.trusted_certificate));
    if verify == VerifyClient::Off {
        return Ok(None);
    }
    if own.is_none() && further.is_none() && verify != VerifyClient::OptionalNoCa {
        let message = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
        let place = conf.certificates.first().map(|word| word.span);
        let diagnostic = Diagnostic::emerg(message);
        return Err(match place {
            Some(span) => diagnostic.at(span),
            None => diagnostic,
        });
    }
    let mut trusted = Vec::new();
    let mut names: Vec<Vec<u8>> = Vec::new();
    if let Some(word) = &own {
        trusted = read(plan, word)?;
        for name in trusted.iter().filter_map(|der| Certificate::parse(der)).map(|c| c.subject) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_vec());
            }
        }
    }
    if let Some(word) = &further {
        trusted.extend(read(plan, word)?);
    }
    let lists = match given(&conf.crl) {
        Some(word) => key_files::revocation_lists(plan, &word)?,
        None => Vec::new(),
    };
    let depth_max = conf.verify_depth.unwrap_or(DEPTH_DEFAULT);
    let trust = Trust::new(Purpose::Client, &trusted, &lists, depth_max, algorithms().all);
    let mut digest = digest::Context::new(&digest::SHA256);
    digest.update(&depth_max.to_be_bytes());
    for part in trusted.iter().chain(&lists) {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let identity = digest.finish().as_ref().first_chunk().copied();
    Ok(Some(ClientTrust { trust, names, identity: identity.unwrap_or_default() }))
}

fn read(plan: &PlanBuilder<'_>, word: &Word) -> Result<Vec<Vec<u8>>, Diagnostic> {
    Ok(key_files::certificates(plan, word)?.iter().map(|der| der.to_vec()).collect())
}

pub(super) fn algorithms() -> WebPkiSupportedAlgorithms {
    provider::default_provider().signature_verification_algorithms
}

impl ClientTrust {
    /// What tells this server's sessions from those of others.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        iter::once(&self.identity[..]).chain(self.names.iter().map(Vec::as_slice))
    }

    /// What the library asks while a handshake goes on.
    pub fn verifier(&self) -> HandshakeVerifier {
        let names = self.names.iter().map(|name| DistinguishedName::in_sequence(name));
        HandshakeVerifier { possession: Possession::new(algorithms()), names: names.collect() }
    }

    /// Judges what a client has shown; resumed sessions know the certificates of their first handshake.
    pub fn judge(&self, connection: &ServerConnection, known: &mut TlsInfo) {
        let chain = connection.peer_certificates().unwrap_or_default();
        let now = tidegate_rt::clock::unix_seconds();
        known.client = chain.first().map(|leaf| {
            let fault = self.trust.check(chain, now).err().map(plain);
            Box::new(ClientCertificate { der: leaf.to_vec(), fault, judge: self.identity })
        });
    }
}

fn plain(fault: Fault) -> CertificateFault {
    let (number, text) = fault.words();
    CertificateFault { number, text, is_about_trust: fault.is_about_trust() }
}

/// Why a request is refused for its connection's certificate; it has been logged.
pub(crate) fn refusal(x: &mut Exchange) -> Option<u16> {
    x.connection.tls.as_deref()?;
    let action = std::mem::replace(&mut x.action, "reading client request headers");
    let refused = if is_misdirected(x) {
        let text = "client attempted to request the server name different from the one that was \
                    negotiated";
        x.log(Level::Info, format_args!("{text}"));
        Some(MISDIRECTED)
    } else {
        let server = x.plan.server(x.server).extensions.of::<TlsServer>();
        server.and_then(|server| shortcoming(x, server.verify_client))
    };
    x.action = action;
    refused
}

/// Whether the handshake was with another server than the request is for, where that matters.
fn is_misdirected(x: &Exchange) -> bool {
    let (Some(tls), Some(server)) =
        (x.connection.tls.as_deref(), x.plan.server(x.server).extensions.of::<TlsServer>())
    else {
        return false;
    };
    if server.verify_client == VerifyClient::Off {
        return false;
    }
    let (host, name) = (&x.request.host, tls.server_name.as_deref().unwrap_or_default());
    let other_name =
        tls.server_named && !host.is_empty() && !host.eq_ignore_ascii_case(name.as_bytes());
    // A certificate was shown to the address's default server, which trusts others than this one.
    let judges = (tls.client.as_deref(), &server.clients);
    let other_judge = matches!(judges, (Some(shown), Some(own)) if shown.judge != own.identity);
    other_name || other_judge
}

/// Whether a session is refused for its connection's certificate; it has been logged.
pub(crate) fn session_refusal(x: &Exchange) -> bool {
    let server = x.plan.server(x.server).extensions.of::<TlsServer>();
    server.is_some_and(|server| shortcoming(x, server.verify_client).is_some())
}

fn shortcoming(x: &Exchange, verify: VerifyClient) -> Option<u16> {
    let shown = x.connection.tls.as_deref()?.client.as_deref();
    let fault = shown.and_then(|shown| shown.fault);
    let allowed =
        |fault: CertificateFault| verify == VerifyClient::OptionalNoCa && fault.is_about_trust;
    match (verify, fault) {
        (VerifyClient::Off, _) => None,
        (_, Some(fault)) if !allowed(fault) => {
            x.log(Level::Info, format_args!("client SSL certificate verify error: ({fault})"));
            Some(CERTIFICATE_ERROR)
        }
        (VerifyClient::On, _) if shown.is_none() => {
            x.log(Level::Info, format_args!("client sent no required SSL certificate"));
            Some(NO_CERTIFICATE)
        }
        _ => None,
    }
}

/// Asks for a certificate and sees that the client has its key; whom to trust is decided later.
#[derive(Debug)]
pub struct HandshakeVerifier {
    possession: Possession,
    names: Vec<DistinguishedName>,
}

impl ClientCertVerifier for HandshakeVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        key_info(leaf).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.possession.verify_tls12(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.possession.verify_tls13(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.possession.schemes()
    }
}
