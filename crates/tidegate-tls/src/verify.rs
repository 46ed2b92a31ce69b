//! The verifiers that the library calls during a handshake, for both sides, and names of certificates.

#[cfg(test)]
mod tests;

use std::iter;
use std::net::IpAddr;
use std::sync::Arc;

use crate::x509::possession::{Possession, key_info};
use crate::x509::{AltName, Certificate, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

/// The methods that both of the library's traits require: whether the peer has its certificate's key.
macro_rules! by_possession {
    () => {
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
    };
}

/// Requests a certificate from a client and verifies that it has the key. Trust is decided later, as nginx
/// completes any handshake.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    possession: Possession,
    names: Vec<DistinguishedName>,
}

impl ClientVerifier {
    /// Makes a verifier that sends these names of authorities to clients.
    pub(crate) fn new(possession: Possession, names: Vec<DistinguishedName>) -> ClientVerifier {
        ClientVerifier { possession, names }
    }
}

impl ClientCertVerifier for ClientVerifier {
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

    by_possession!();
}

/// Verifies handshakes with origins as OpenSSL does for nginx: the chain where it is required, the name after
/// the handshake ([`is_for`]). That the origin has the certificate's key is always verified.
#[derive(Debug)]
pub(crate) struct OriginVerifier {
    possession: Possession,
    /// `None`: any certificate is accepted.
    trust: Option<Trust>,
}

impl OriginVerifier {
    /// Makes a verifier that accepts what `trust` accepts; anything without it.
    pub(crate) fn new(possession: Possession, trust: Option<Trust>) -> OriginVerifier {
        OriginVerifier { possession, trust }
    }
}

impl ServerCertVerifier for OriginVerifier {
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

    by_possession!();
}

/// Returns whether a certificate is for this name: its alternative names decide, or its common name where it
/// has none (RFC 6125 section 6.4.4, as in OpenSSL).
pub(crate) fn is_for(leaf: &[u8], name: &[u8]) -> bool {
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

/// Returns whether a name of a certificate, which may begin with `*.`, matches this name.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.is_empty() {
        return false;
    }
    if pattern.eq_ignore_ascii_case(name) {
        return true;
    }
    // The star matches one label, and at least two labels follow it.
    let Some(suffix) = pattern.strip_prefix(b"*.") else { return false };
    let Some(dot) = name.iter().position(|byte| *byte == b'.') else { return false };
    dot > 0 && suffix.contains(&b'.') && suffix.eq_ignore_ascii_case(&name[dot + 1..])
}
