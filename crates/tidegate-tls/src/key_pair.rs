//! Certificates with their private keys.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SigningKey};

use crate::error::KeyPairError;
use crate::observed::ObservedKey;
use crate::pem::PrivateKey;
use crate::x509;

/// A certificate, those between it and its root, and its private key, ready to sign. Clones share it: many
/// servers have the same certificates. It was checked that key and certificate match.
#[derive(Clone)]
pub struct KeyPair(pub(crate) Arc<CertifiedKey>);

impl KeyPair {
    /// Makes a pair of a chain of certificates (DER), the server's own first, and its key.
    ///
    /// # Errors
    /// The key cannot be used, or is not that of the first certificate.
    pub fn new(chain: Vec<Vec<u8>>, key: &PrivateKey) -> Result<KeyPair, KeyPairError> {
        KeyPair::of(chain, signing(key)?)
    }

    /// As [`KeyPair::new`], with a key that is ready to sign.
    pub(crate) fn of(
        chain: Vec<Vec<u8>>,
        signing: Arc<dyn SigningKey>,
    ) -> Result<KeyPair, KeyPairError> {
        let public = chain.first().and_then(|certificate| x509::public_key(certificate));
        let public = public.ok_or(KeyPairError::NoCertificate)?;
        // Only the bits are compared: the algorithm beside them can be encoded in several ways.
        let own = signing.public_key();
        if own.is_some_and(|own| x509::key_bits(own.as_ref()) != Some(public)) {
            return Err(KeyPairError::Mismatch);
        }
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        Ok(KeyPair(Arc::new(CertifiedKey::new(chain, signing))))
    }

    /// Returns the chain (DER), the server's own certificate first.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.0.cert.iter().map(AsRef::as_ref)
    }
}

/// Makes a key ready to sign.
///
/// # Errors
/// The key cannot be used.
pub(crate) fn signing(key: &PrivateKey) -> Result<Arc<dyn SigningKey>, KeyPairError> {
    let key = any_supported_type(&key.0);
    let key = key.map_err(|error| KeyPairError::Unusable(error.to_string()))?;
    Ok(Arc::new(ObservedKey(key)))
}

impl fmt::Debug for KeyPair {
    /// Writes it without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("chain", &self.0.cert.len()).finish_non_exhaustive()
    }
}
