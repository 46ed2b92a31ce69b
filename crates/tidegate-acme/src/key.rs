//! Private keys: their kinds, how they are made, and their form in files (PEM).
//!
//! ```
//! use tidegate_acme::{Key, KeyKind};
//!
//! let key = Key::generate(KeyKind::parse("ecdsa:256").unwrap_or(KeyKind::Ecdsa256))?;
//! let again = Key::from_pem(&key.to_pem())?;
//! assert_eq!(again.kind(), KeyKind::Ecdsa256);
//! # Ok::<(), tidegate_acme::KeyError>(())
//! ```

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rsa;
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512,
    PKCS_RSA_SHA256, PublicKeyData as _, RsaKeySize, SignatureAlgorithm,
};

/// The kind of a private key, of an account or of a certificate (nginx's `account_key` and `key=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// ECDSA over P-256; signs requests by ES256.
    Ecdsa256,
    /// ECDSA over P-384; ES384.
    Ecdsa384,
    /// ECDSA over P-521; ES512.
    Ecdsa521,
    /// RSA with 2048 bits; RS256.
    Rsa2048,
    /// RSA with 3072 bits; RS256.
    Rsa3072,
    /// RSA with 4096 bits; RS256.
    Rsa4096,
}

/// A private key. Clones share it; its debug output has only the kind.
#[derive(Clone)]
pub struct Key {
    pair: Arc<KeyPair>,
    kind: KeyKind,
}

/// The reason why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The text has no private key in PEM, or one that cannot be parsed.
    Unreadable,
    /// The key is of a kind that is not in [`KeyKind`].
    Kind,
    /// The cryptographic library made no key.
    Generate(String),
}

const KINDS: [(KeyKind, &str, &SignatureAlgorithm); 6] = [
    (KeyKind::Ecdsa256, "ecdsa:256", &PKCS_ECDSA_P256_SHA256),
    (KeyKind::Ecdsa384, "ecdsa:384", &PKCS_ECDSA_P384_SHA384),
    (KeyKind::Ecdsa521, "ecdsa:521", &PKCS_ECDSA_P521_SHA512),
    (KeyKind::Rsa2048, "rsa:2048", &PKCS_RSA_SHA256),
    (KeyKind::Rsa3072, "rsa:3072", &PKCS_RSA_SHA256),
    (KeyKind::Rsa4096, "rsa:4096", &PKCS_RSA_SHA256),
];

impl KeyKind {
    /// Parses the kinds of nginx's directives: `ecdsa:256`, `rsa:2048`; without a size, the smallest one.
    pub fn parse(text: &str) -> Option<KeyKind> {
        let text = match text {
            "ecdsa" => "ecdsa:256",
            "rsa" => "rsa:2048",
            sized => sized,
        };
        KINDS.iter().find(|(_, name, _)| *name == text).map(|(kind, _, _)| *kind)
    }

    fn row(self) -> (&'static str, &'static SignatureAlgorithm) {
        let row = KINDS.iter().find(|(kind, _, _)| *kind == self).unwrap_or(&KINDS[0]);
        (row.1, row.2)
    }
}

impl fmt::Display for KeyKind {
    /// Writes the kind as in nginx's directives.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().0)
    }
}

impl Key {
    /// Makes a key with the random numbers of the cryptographic library. An RSA key takes up to seconds: this is work
    /// for a thread pool.
    ///
    /// # Errors
    /// The library makes no key.
    pub fn generate(kind: KeyKind) -> Result<Key, KeyError> {
        let algorithm = kind.row().1;
        let pair = match kind {
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(algorithm, RsaKeySize::_2048),
            KeyKind::Rsa3072 => KeyPair::generate_rsa_for(algorithm, RsaKeySize::_3072),
            KeyKind::Rsa4096 => KeyPair::generate_rsa_for(algorithm, RsaKeySize::_4096),
            KeyKind::Ecdsa256 | KeyKind::Ecdsa384 | KeyKind::Ecdsa521 => {
                KeyPair::generate_for(algorithm)
            }
        };
        let pair = pair.map_err(|error| KeyError::Generate(error.to_string()))?;
        Ok(Key { pair: Arc::new(pair), kind })
    }

    /// Parses the first private key of a PEM text: PKCS #8, SEC1 or PKCS #1, without a password.
    ///
    /// # Errors
    /// The text has no such key, or the key has another kind than those of [`KeyKind`].
    pub fn from_pem(text: &str) -> Result<Key, KeyError> {
        let pair = KeyPair::from_pem(private(text)).map_err(|_| KeyError::Unreadable)?;
        let algorithm = pair.algorithm();
        let kind = match KINDS.iter().find(|(_, _, known)| *known == algorithm) {
            Some((KeyKind::Rsa2048, _, _)) => rsa_kind(&pair)?,
            Some((kind, _, _)) => *kind,
            None => return Err(KeyError::Kind),
        };
        Ok(Key { pair: Arc::new(pair), kind })
    }

    /// Returns the key in PEM. It is secret.
    pub fn to_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// Returns the kind of the key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns the public key (SubjectPublicKeyInfo, DER).
    pub fn public_der(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.pair
    }
}

impl PartialEq for Key {
    /// Compares the public keys.
    fn eq(&self, other: &Key) -> bool {
        self.kind == other.kind && self.pair.public_key_raw() == other.pair.public_key_raw()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Unreadable => f.write_str("no private key in PEM that can be read"),
            KeyError::Kind => f.write_str(
                "the key is neither ECDSA over P-256, P-384 or P-521 nor RSA of 2048, 3072 or 4096 bits",
            ),
            KeyError::Generate(reason) => write!(f, "no key could be made: {reason}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// Returns the text from its first private key on: `openssl ecparam -genkey` writes the parameters of the curve before it.
fn private(text: &str) -> &str {
    const BEGIN: &str = "-----BEGIN ";
    let mut begins = text.match_indices(BEGIN).map(|(at, _)| text.get(at..).unwrap_or_default());
    let is_key = |rest: &&str| {
        let label = rest.get(BEGIN.len()..).and_then(|label| label.split("-----").next());
        label.is_some_and(|label| label.ends_with("PRIVATE KEY"))
    };
    begins.find(is_key).unwrap_or(text)
}

fn rsa_kind(pair: &KeyPair) -> Result<KeyKind, KeyError> {
    let der = pair.serialized_der();
    let parsed = rsa::KeyPair::from_pkcs8(der).or_else(|_| rsa::KeyPair::from_der(der));
    match parsed.map_err(|_| KeyError::Unreadable)?.public_modulus_len() {
        256 => Ok(KeyKind::Rsa2048),
        384 => Ok(KeyKind::Rsa3072),
        512 => Ok(KeyKind::Rsa4096),
        _ => Err(KeyError::Kind),
    }
}
