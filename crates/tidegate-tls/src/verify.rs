//! Whether an origin is who it says: certificates, signatures, names.

use std::iter;
use std::net::IpAddr;
use std::sync::Arc;

use crate::x509::possession::Possession;
use crate::x509::{AltName, Certificate, Trust};
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::WebPkiSupportedAlgorithms;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};

/// Verifies handshakes as OpenSSL does for nginx: the chain where it is asked for, the name behind the
/// handshake ([`is_for`]). That the origin has the certificate's key is always verified.
#[derive(Debug)]
pub struct Verifier {
    possession: Possession,
    /// `None`: any certificate will do.
    trust: Option<Trust>,
}

impl Verifier {
    /// Takes what `trust` takes; anything where there is none.
    pub fn new(algorithms: WebPkiSupportedAlgorithms, trust: Option<Trust>) -> Verifier {
        Verifier { possession: Possession::new(algorithms), trust }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let chain: Vec<_> = iter::once(leaf).chain(intermediates).collect();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match trust.check(&chain, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(fault) => Err(CertificateError::Other(OtherError(Arc::new(fault))).into()),
        }
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

/// Whether a certificate is for this name: its alternative names decide, its common name where it has
/// none (RFC 6125 section 6.4.4, as OpenSSL does).
pub fn is_for(leaf: &[u8], name: &[u8]) -> bool {
    let Some(certificate) = Certificate::parse(leaf) else { return false };
    let address = std::str::from_utf8(name).ok().and_then(|text| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse::<IpAddr>().ok()
    });
    let alternatives = certificate.alt_names();
    let fits = alternatives.iter().any(|alternative| match (alternative, address) {
        (AltName::Ip(bytes), Some(IpAddr::V4(address))) => *bytes == address.octets(),
        (AltName::Ip(bytes), Some(IpAddr::V6(address))) => *bytes == address.octets(),
        (AltName::Ip(_), None) => false,
        (AltName::Dns(pattern), _) => matches(pattern, name),
    });
    let has_names = alternatives.iter().any(|name| matches!(name, AltName::Dns(_)));
    fits || !has_names && certificate.common_names().iter().any(|common| matches(common, name))
}

/// Whether a name of a certificate, which may begin with `*.`, means this name.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.is_empty() {
        return false;
    }
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    // The star is one label, and what is behind it has at least two.
    let Some(suffix) = pattern.strip_prefix(b"*.") else { return false };
    let Some(dot) = name.iter().position(|byte| *byte == b'.') else { return false };
    dot > 0 && suffix.contains(&b'.') && suffix.eq_ignore_ascii_case(&name[dot + 1..])
}
