//! Whether an origin is who it says: certificates, signatures, names.

use std::net::IpAddr;

use tidegate_core::x509::{self, AltName, Certificate};
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, RootCertStore, SignatureScheme,
};

/// Verifies handshakes as OpenSSL does for nginx: the chain where it is asked for, the name behind the
/// handshake ([`is_for`]). That the origin has the certificate's key is always verified.
#[derive(Debug)]
pub struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// `None`: any certificate will do.
    trust: Option<Trust>,
}

#[derive(Debug)]
struct Trust {
    roots: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Takes any certificate.
    pub fn blind(algorithms: WebPkiSupportedAlgorithms) -> Verifier {
        Verifier { algorithms, trust: None }
    }

    /// Takes what is signed by one of `certificates`, which are also in `roots`.
    pub fn trusting(
        algorithms: WebPkiSupportedAlgorithms,
        roots: RootCertStore,
        certificates: Vec<CertificateDer<'static>>,
    ) -> Verifier {
        Verifier { algorithms, trust: Some(Trust { roots, certificates }) }
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
        if trust.certificates.iter().any(|trusted| trusted == leaf)
            && let Some(certificate) = Certificate::parse(leaf)
            && certificate.issuer == certificate.subject
        {
            // The chain is this one certificate; the library would want extensions that those made by
            // hand lack.
            check_time(&certificate, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(leaf)?;
        let (roots, algorithms) = (&trust.roots, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    /// By the key alone: the library reads no certificates of version 1.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let info = key_info(leaf)?;
        let (Some(algorithm), Some([0, key @ ..])) =
            (x509::key_algorithm(info), x509::key_bits(info))
        else {
            return Err(CertificateError::BadEncoding.into());
        };
        let possible = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let Some((_, possible)) = possible else {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        };
        let fits = possible.iter().any(|candidate| {
            candidate.public_key_alg_id().as_ref() == algorithm
                && candidate.verify_signature(key, message, signed.signature()).is_ok()
        });
        match fits {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key_info(leaf)?);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn key_info<'a>(leaf: &'a CertificateDer<'_>) -> Result<&'a [u8], Error> {
    let certificate = Certificate::parse(leaf).ok_or(CertificateError::BadEncoding)?;
    Ok(certificate.key_info)
}

fn check_time(certificate: &Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let (first, last) = certificate.validity().ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    match () {
        () if now < first => Err(CertificateError::NotValidYet),
        () if now > last => Err(CertificateError::Expired),
        () => Ok(()),
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
