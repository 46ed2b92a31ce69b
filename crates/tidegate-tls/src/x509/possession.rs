//! Whether a peer of a TLS handshake has the key of the certificate that it shows. Both sides ask this, whomever
//! they trust.

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme,
};

use super::{Certificate, has_made};

/// Verifies signatures of handshakes, as the library's verifiers are asked to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possession {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Possession {
    /// By these algorithms.
    pub(crate) fn new(algorithms: WebPkiSupportedAlgorithms) -> Possession {
        Possession { algorithms }
    }

    /// By the key alone: the library reads no certificates of version 1.
    ///
    /// # Errors
    /// A scheme that was not offered, a certificate that cannot be read, a signature by another key.
    pub(crate) fn verify_tls12(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let Some((_, known)) = known else {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        };
        match has_made(key_info(leaf)?, known.iter().copied(), message, signed.signature()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    /// The same for TLS 1.3, where a scheme means one algorithm (RFC 8446 section 4.2.3).
    ///
    /// # Errors
    /// As [`Possession::verify_tls12`].
    pub(crate) fn verify_tls13(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key_info(leaf)?);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    /// What is offered to the peer.
    pub(crate) fn schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The SubjectPublicKeyInfo of a certificate.
///
/// # Errors
/// What is none.
pub(crate) fn key_info<'a>(leaf: &'a CertificateDer<'_>) -> Result<&'a [u8], Error> {
    let certificate = Certificate::parse(leaf).ok_or(CertificateError::BadEncoding)?;
    Ok(certificate.key_info)
}
