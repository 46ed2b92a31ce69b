//! Signed tokens: JWS in the compact form (RFC 7515 section 7.1).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use aws_lc_rs::hmac;

use crate::algorithm;
use crate::base64url;
use crate::error::TokenError;
use crate::header::{self, Header};
use crate::json::Object;
use crate::key::{Key, Material};
use crate::key_set::KeySet;
use crate::limits::CHEAP_KEYS_MAX;

/// A signed token that has been parsed. Its signature counts only once [`SignedToken::verify`] has succeeded.
#[derive(Clone, Debug)]
pub struct SignedToken {
    header: Header,
    /// Header and payload as they were sent: what is signed.
    signed: Vec<u8>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl SignedToken {
    /// Parses a token.
    ///
    /// # Errors
    /// The form, the header or the algorithm is not one of signed tokens.
    pub fn parse(token: &[u8]) -> Result<SignedToken, TokenError> {
        let [head, payload, signature] = header::parts(token)?;
        let header = Header::parse(head)?;
        if !algorithm::is_signature(&header.algorithm) {
            return Err(TokenError::Algorithm(header.algorithm));
        }
        let signed = token[..head.len() + 1 + payload.len()].to_vec();
        let payload = base64url::decode(payload).ok_or(TokenError::Base64("payload"))?;
        let signature = base64url::decode(signature).ok_or(TokenError::Base64("signature"))?;
        Ok(SignedToken { header, signed, payload, signature })
    }

    /// Returns the header.
    pub fn header(&self) -> &Object {
        &self.header.object
    }

    /// Returns the payload, decoded.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Says whether [`SignedToken::verify`] may take longer than an event loop should wait: with several keys, and with one
    /// on P-384 or P-521, which takes 0.7 ms.
    pub fn is_costly(&self, sets: &[Arc<KeySet>]) -> bool {
        let is_slow = matches!(self.header.algorithm.as_str(), "ES384" | "ES512");
        self.keys(sets).nth(if is_slow { 0 } else { CHEAP_KEYS_MAX }).is_some()
    }

    /// Verifies the signature with the keys that the token may have been signed with: those of its identifier and
    /// without one, whose type and `alg` are of the token's algorithm.
    ///
    /// # Errors
    /// There is no such key, or none has made the signature.
    pub fn verify(&self, sets: &[Arc<KeySet>]) -> Result<(), TokenError> {
        let mut keys = self.keys(sets).peekable();
        if keys.peek().is_none() {
            return Err(TokenError::NoKey);
        }
        match keys.any(|key| self.is_signed_by(key)) {
            true => Ok(()),
            false => Err(TokenError::Signature),
        }
    }

    fn keys<'k>(&'k self, sets: &'k [Arc<KeySet>]) -> impl Iterator<Item = &'k Key> {
        let algorithm = self.header.algorithm.as_str();
        let suits = move |key: &&Key| {
            let has_type = match &key.material {
                Material::Secret(_) => algorithm::mac(algorithm).is_some(),
                Material::Rsa(verifiers, _) => verifiers.iter().any(|(name, _)| *name == algorithm),
                Material::Curve(name, _) => *name == algorithm,
            };
            has_type && key.verifies && key.suits(&self.header, &[algorithm])
        };
        sets.iter().flat_map(|set| &set.keys).filter(suits)
    }

    fn is_signed_by(&self, key: &Key) -> bool {
        let public = match &key.material {
            Material::Secret(secret) => {
                return algorithm::mac(&self.header.algorithm).is_some_and(|algorithm| {
                    let key = hmac::Key::new(algorithm, secret);
                    hmac::verify(&key, &self.signed, &self.signature).is_ok()
                });
            }
            Material::Rsa(verifiers, _) => {
                let found = verifiers.iter().find(|(name, _)| *name == self.header.algorithm);
                found.map(|(_, public)| public)
            }
            Material::Curve(_, public) => Some(public),
        };
        public.is_some_and(|public| public.verify_sig(&self.signed, &self.signature).is_ok())
    }
}
