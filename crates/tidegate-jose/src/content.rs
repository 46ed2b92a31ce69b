//! The encryption of the content (RFC 7518 section 5).

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

/// Bytes of the tag of GCM (RFC 7518 section 5.3).
pub(crate) const GCM_TAG_BYTES: usize = 16;

/// A content encryption, as the header's `enc` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentEncryption {
    /// AES in CBC mode with HMAC: 32, 48 or 64 bytes, half of them for each (RFC 7518 section 5.2).
    CbcHmac(usize),
    /// AES in Galois/Counter Mode: 16, 24 or 32 bytes (RFC 7518 section 5.3).
    Gcm(usize),
}

impl ContentEncryption {
    pub(crate) fn of(name: &str) -> Option<ContentEncryption> {
        Some(match name {
            "A128CBC-HS256" => ContentEncryption::CbcHmac(32),
            "A192CBC-HS384" => ContentEncryption::CbcHmac(48),
            "A256CBC-HS512" => ContentEncryption::CbcHmac(64),
            "A128GCM" => ContentEncryption::Gcm(16),
            "A192GCM" => ContentEncryption::Gcm(24),
            "A256GCM" => ContentEncryption::Gcm(32),
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            ContentEncryption::CbcHmac(32) => "A128CBC-HS256",
            ContentEncryption::CbcHmac(48) => "A192CBC-HS384",
            ContentEncryption::CbcHmac(_) => "A256CBC-HS512",
            ContentEncryption::Gcm(16) => "A128GCM",
            ContentEncryption::Gcm(24) => "A192GCM",
            ContentEncryption::Gcm(_) => "A256GCM",
        }
    }

    /// Returns the bytes of its key.
    pub(crate) fn key_bytes(self) -> usize {
        match self {
            ContentEncryption::CbcHmac(bytes) | ContentEncryption::Gcm(bytes) => bytes,
        }
    }

    /// Decrypts a content and checks its tag; `None` where it is not authentic.
    pub(crate) fn open(self, key: &[u8], sealed: &Sealed<'_>) -> Option<Vec<u8>> {
        match self {
            ContentEncryption::CbcHmac(_) => open_cbc(key, sealed),
            ContentEncryption::Gcm(_) => open_gcm(key, sealed),
        }
    }
}

/// What was encrypted, and what its tag covers besides.
pub(crate) struct Sealed<'a> {
    /// Data that is sent as it is and covered by the tag.
    pub(crate) authenticated: &'a [u8],
    /// The initialization vector.
    pub(crate) vector: &'a [u8],
    pub(crate) ciphertext: &'a [u8],
    pub(crate) tag: &'a [u8],
}

/// Decrypts by AES in Galois/Counter Mode, with a vector of 12 bytes and a tag of 16.
pub(crate) fn open_gcm(key: &[u8], sealed: &Sealed<'_>) -> Option<Vec<u8>> {
    let Sealed { authenticated, vector, ciphertext, tag } = *sealed;
    let algorithm = match key.len() {
        16 => &aead::AES_128_GCM,
        24 => &aead::AES_192_GCM,
        32 => &aead::AES_256_GCM,
        _ => return None,
    };
    if tag.len() != GCM_TAG_BYTES {
        return None;
    }
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(vector).ok()?;
    let mut content = [ciphertext, tag].concat();
    let length = key.open_in_place(nonce, Aad::from(authenticated), &mut content).ok()?.len();
    content.truncate(length);
    Some(content)
}

/// Decrypts by AES in CBC mode, once the tag has been found right.
fn open_cbc(key: &[u8], sealed: &Sealed<'_>) -> Option<Vec<u8>> {
    let Sealed { authenticated, vector, ciphertext, tag } = *sealed;
    let (mac_algorithm, algorithm) = match key.len() {
        32 => (hmac::HMAC_SHA256, &cipher::AES_128),
        48 => (hmac::HMAC_SHA384, &cipher::AES_192),
        64 => (hmac::HMAC_SHA512, &cipher::AES_256),
        _ => return None,
    };
    let (mac_key, cipher_key) = key.split_at(key.len() / 2);
    let mut mac = hmac::Context::with_key(&hmac::Key::new(mac_algorithm, mac_key));
    for part in [authenticated, vector, ciphertext] {
        mac.update(part);
    }
    // The length of the authenticated data in bits (RFC 7518 section 5.2.2.1).
    mac.update(&(authenticated.len() as u64 * 8).to_be_bytes());
    let mac = mac.sign();
    verify_slices_are_equal(mac.as_ref().get(..key.len() / 2)?, tag).ok()?;
    let vector: [u8; 16] = vector.try_into().ok()?;
    let key = UnboundCipherKey::new(algorithm, cipher_key).ok()?;
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
    let mut content = ciphertext.to_vec();
    let context = DecryptionContext::Iv128(vector.into());
    let length = key.decrypt(&mut content, context).ok()?.len();
    content.truncate(length);
    Some(content)
}
