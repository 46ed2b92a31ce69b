//! Encrypted tokens: JWE in the compact form (RFC 7516 section 7.1).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use aws_lc_rs::rand;

use crate::base64url;
use crate::content::{ContentEncryption, Sealed};
use crate::error::TokenError;
use crate::header::{self, Header};
use crate::json::Object;
use crate::key::{Key, Material};
use crate::key_set::KeySet;
use crate::key_wrap::KeyManagement;
use crate::limits::CHEAP_KEYS_MAX;

/// An encrypted token that has been parsed.
#[derive(Clone, Debug)]
pub struct EncryptedToken {
    header: Header,
    management: KeyManagement,
    content: ContentEncryption,
    /// The header as it was sent: it is authenticated with the content.
    authenticated: Vec<u8>,
    encrypted_key: Vec<u8>,
    vector: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Vec<u8>,
}

impl EncryptedToken {
    /// Parses a token.
    ///
    /// # Errors
    /// The form, the header or the algorithms are not those of encrypted tokens.
    pub fn parse(token: &[u8]) -> Result<EncryptedToken, TokenError> {
        let [head, encrypted_key, vector, ciphertext, tag] = header::parts(token)?;
        let header = Header::parse(head)?;
        if header.object.member("zip").is_some() {
            return Err(TokenError::Compressed);
        }
        let decode = |part, name| base64url::decode(part).ok_or(TokenError::Base64(name));
        let management = KeyManagement::of(&header)?;
        let content = header.object.string("enc").ok_or(TokenError::Header("enc"))?;
        let content = ContentEncryption::of(content)
            .ok_or_else(|| TokenError::ContentEncryption(content.to_owned()))?;
        Ok(EncryptedToken {
            management,
            content,
            authenticated: head.to_vec(),
            encrypted_key: decode(encrypted_key, "encrypted key")?,
            vector: decode(vector, "initialization vector")?,
            ciphertext: decode(ciphertext, "ciphertext")?,
            tag: decode(tag, "authentication tag")?,
            header,
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &Object {
        &self.header.object
    }

    /// Says whether [`EncryptedToken::decrypt`] may take longer than an event loop should wait: a private RSA key takes
    /// 2 ms.
    pub fn is_costly(&self, sets: &[Arc<KeySet>]) -> bool {
        self.keys(sets).any(|key| matches!(key.material, Material::Rsa(..)))
            || self.keys(sets).nth(CHEAP_KEYS_MAX).is_some()
    }

    /// Decrypts the content with the keys that the token may have been encrypted for; see
    /// [`SignedToken::verify`](crate::SignedToken::verify).
    ///
    /// # Errors
    /// There is no such key, or none decrypts the token. Which step has failed is not said, and a key that cannot be
    /// decrypted is replaced by a random one, so that the time does not show it either (RFC 7516 section 11.5).
    pub fn decrypt(&self, sets: &[Arc<KeySet>]) -> Result<Vec<u8>, TokenError> {
        let mut keys = self.keys(sets).peekable();
        if keys.peek().is_none() {
            return Err(TokenError::NoKey);
        }
        keys.find_map(|key| self.decrypt_with(key)).ok_or(TokenError::Decryption)
    }

    fn keys<'k>(&'k self, sets: &'k [Arc<KeySet>]) -> impl Iterator<Item = &'k Key> {
        // RFC 7520 section 5.6.1 has a key for direct use whose `alg` is the content encryption.
        let names = [self.header.algorithm.as_str(), self.content.name()];
        let names = if self.management.is_direct() { names } else { [names[0]; 2] };
        let suits = move |key: &&Key| {
            self.management.can_use(&key.material, self.content)
                && key.decrypts
                && key.suits(&self.header, &names)
        };
        sets.iter().flat_map(|set| &set.keys).filter(suits)
    }

    fn decrypt_with(&self, key: &Key) -> Option<Vec<u8>> {
        let length = self.content.key_bytes();
        let unwrapped = self.management.content_key(&key.material, &self.encrypted_key, length);
        let content_key = match unwrapped {
            Some(content_key) if content_key.len() == length => content_key,
            _ => {
                let mut random = vec![0; length];
                rand::fill(&mut random).ok()?;
                random
            }
        };
        let sealed = Sealed {
            authenticated: &self.authenticated,
            vector: &self.vector,
            ciphertext: &self.ciphertext,
            tag: &self.tag,
        };
        self.content.open(&content_key, &sealed)
    }
}
