//! Whether a peer of a TLS handshake has the key of its certificate. Both sides check this, independently of
//! trust.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

use super::{Certificate, has_made};
use crate::observed;

/// Verifies signatures of handshakes for the verifiers of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possession {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Possession {
    /// Makes a verifier with these algorithms.
    pub(crate) fn new(algorithms: WebPkiSupportedAlgorithms) -> Possession {
        Possession { algorithms }
    }

    /// Verifies by the key alone: the library parses no certificates of version 1.
    ///
    /// # Errors
    /// The scheme was not offered, the certificate cannot be parsed, or the signature is by another key.
    pub(crate) fn verify_tls12(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        observed::note(|observed| observed.peer_scheme = u16::from(signed.scheme));
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let Some((_, known)) = known else {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        };
        match has_made(key_info(leaf)?, known.iter().copied(), message, signed.signature()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    /// Verifies for TLS 1.3, where a scheme means one algorithm (RFC 8446 section 4.2.3).
    ///
    /// # Errors
    /// As [`Possession::verify_tls12`].
    pub(crate) fn verify_tls13(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        observed::note(|observed| observed.peer_scheme = u16::from(signed.scheme));
        let key = SubjectPublicKeyInfoDer::from(key_info(leaf)?);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    /// Returns the schemes that are offered to the peer.
    pub(crate) fn schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns the SubjectPublicKeyInfo of a certificate.
///
/// # Errors
/// The certificate cannot be parsed.
pub(crate) fn key_info<'a>(leaf: &'a CertificateDer<'_>) -> Result<&'a [u8], Error> {
    let certificate = Certificate::parse(leaf).ok_or(CertificateError::BadEncoding)?;
    Ok(certificate.key_info)
}
