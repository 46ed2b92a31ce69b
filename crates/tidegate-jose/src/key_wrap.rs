//! The key of the content: how it reaches the recipient (RFC 7518 section 4).

use aws_lc_rs::cipher::{self, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesBlockCipher, KeyEncryptionKey, KeyWrap as _};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512,
    OaepAlgorithm,
};

use crate::base64url;
use crate::content::{ContentEncryption, Sealed, open_gcm};
use crate::error::TokenError;
use crate::header::Header;
use crate::key::Material;

/// A key management, as the header's `alg` names it, with its parameters.
#[derive(Clone, Debug)]
pub(crate) enum KeyManagement {
    /// The shared key is the content's key (section 4.5).
    Direct,
    /// AES Key Wrap with a shared key of these bytes (section 4.4, RFC 3394).
    Wrap(usize),
    /// AES in Galois/Counter Mode with a shared key of these bytes (section 4.7).
    GcmWrap { key_bytes: usize, vector: Vec<u8>, tag: Vec<u8> },
    /// RSA with optimal asymmetric encryption padding (section 4.3).
    Oaep(&'static OaepAlgorithm),
}

impl KeyManagement {
    pub(crate) fn of(header: &Header) -> Result<KeyManagement, TokenError> {
        Ok(match header.algorithm.as_str() {
            "dir" => KeyManagement::Direct,
            "A128KW" => KeyManagement::Wrap(16),
            "A192KW" => KeyManagement::Wrap(24),
            "A256KW" => KeyManagement::Wrap(32),
            "A128GCMKW" => gcm(header, 16)?,
            "A192GCMKW" => gcm(header, 24)?,
            "A256GCMKW" => gcm(header, 32)?,
            "RSA-OAEP" => KeyManagement::Oaep(&OAEP_SHA1_MGF1SHA1),
            "RSA-OAEP-256" => KeyManagement::Oaep(&OAEP_SHA256_MGF1SHA256),
            "RSA-OAEP-384" => KeyManagement::Oaep(&OAEP_SHA384_MGF1SHA384),
            "RSA-OAEP-512" => KeyManagement::Oaep(&OAEP_SHA512_MGF1SHA512),
            other => return Err(TokenError::Algorithm(other.to_owned())),
        })
    }

    pub(crate) fn is_direct(&self) -> bool {
        matches!(self, KeyManagement::Direct)
    }

    /// Says whether a key has the type and the length that are needed.
    pub(crate) fn can_use(&self, material: &Material, content: ContentEncryption) -> bool {
        match (self, material) {
            (KeyManagement::Direct, Material::Secret(key)) => key.len() == content.key_bytes(),
            (
                KeyManagement::Wrap(bytes) | KeyManagement::GcmWrap { key_bytes: bytes, .. },
                Material::Secret(key),
            ) => key.len() == *bytes,
            (KeyManagement::Oaep(_), Material::Rsa(_, decrypter)) => decrypter.is_some(),
            _ => false,
        }
    }

    /// Returns the key of the content, of `length` bytes if the token is right.
    pub(crate) fn content_key(
        &self,
        material: &Material,
        encrypted: &[u8],
        length: usize,
    ) -> Option<Vec<u8>> {
        match (self, material) {
            (KeyManagement::Direct, Material::Secret(key)) => {
                encrypted.is_empty().then(|| key.clone())
            }
            (KeyManagement::Wrap(_), Material::Secret(key)) => {
                // Before any work: no key is longer than the content's.
                if encrypted.len() != length + 8 {
                    return None;
                }
                unwrap(key, encrypted)
            }
            (KeyManagement::GcmWrap { vector, tag, .. }, Material::Secret(key)) => {
                open_gcm(key, &Sealed { authenticated: b"", vector, ciphertext: encrypted, tag })
            }
            (KeyManagement::Oaep(algorithm), Material::Rsa(_, Some(decrypter))) => {
                let mut key = vec![0; decrypter.min_output_size()];
                let decrypted = decrypter.decrypt(algorithm, encrypted, &mut key, None);
                let length = decrypted.ok()?.len();
                key.truncate(length);
                Some(key)
            }
            _ => None,
        }
    }
}

fn gcm(header: &Header, key_bytes: usize) -> Result<KeyManagement, TokenError> {
    let member = |name| {
        let decoded = header.object.string(name).and_then(base64url::decode);
        decoded.ok_or(TokenError::Header(name))
    };
    Ok(KeyManagement::GcmWrap { key_bytes, vector: member("iv")?, tag: member("tag")? })
}

fn unwrap(key: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    let by = |cipher: &'static AesBlockCipher| {
        let mut out = vec![0; wrapped.len()];
        let length = KeyEncryptionKey::new(cipher, key).ok()?.unwrap(wrapped, &mut out).ok()?.len();
        out.truncate(length);
        Some(out)
    };
    match key.len() {
        16 => by(&AES_128),
        32 => by(&AES_256),
        _ => unwrap_192(key, wrapped),
    }
}

/// Unwraps with a key of 192 bits, which the library's key wrap does not have: RFC 3394 section 2.2.2 over its AES.
fn unwrap_192(key: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    const CHECK: [u8; 8] = [0xa6; 8];
    let aes = DecryptingKey::ecb(UnboundCipherKey::new(&cipher::AES_192, key).ok()?).ok()?;
    let (first, rest) = wrapped.split_first_chunk::<8>()?;
    let (mut check, mut out) = (*first, rest.to_vec());
    let count = out.len() / 8;
    for round in (0..6).rev() {
        for place in (0..count).rev() {
            let step = (count * round + place + 1) as u64;
            let chunk = &mut out[place * 8..place * 8 + 8];
            let mut block = [0; 16];
            block[..8].copy_from_slice(&(u64::from_be_bytes(check) ^ step).to_be_bytes());
            block[8..].copy_from_slice(chunk);
            aes.decrypt(&mut block, DecryptionContext::None).ok()?;
            check.copy_from_slice(&block[..8]);
            chunk.copy_from_slice(&block[8..]);
        }
    }
    verify_slices_are_equal(&check, &CHECK).ok()?;
    Some(out)
}
