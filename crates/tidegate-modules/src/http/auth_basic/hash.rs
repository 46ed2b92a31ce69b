//! Checks a password against a hash in the formats of password files.

use sha1::{Digest, Sha1};
use tidegate_core::credentials::decode_base64;
use yescrypt::PasswordVerifier;

use super::md5_crypt;

/// The cost of checking a password against a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Microseconds.
    Little,
    /// Much more: a scheme that is slow on purpose.
    Much,
}

/// Returns the cost of [`is_right`] for this hash.
pub(super) fn cost(hash: &[u8]) -> Cost {
    match hash {
        [b'{', ..] => Cost::Little,
        _ => Cost::Much,
    }
}

/// Returns whether `password` matches the hash. A damaged hash or one of an unknown scheme matches nothing.
pub(super) fn is_right(hash: &[u8], password: &[u8]) -> bool {
    if let Some(plain) = hash.strip_prefix(b"{PLAIN}") {
        return same(plain, password);
    }
    if let Some(encoded) = hash.strip_prefix(b"{SHA}") {
        let digest = decode_base64(encoded).filter(|digest| digest.len() == SHA1_BYTES);
        return digest.is_some_and(|digest| same(&digest, &Sha1::digest(password)));
    }
    if let Some(encoded) = hash.strip_prefix(b"{SSHA}") {
        let decoded = decode_base64(encoded).unwrap_or_default();
        let Some((digest, salt)) = decoded.split_at_checked(SHA1_BYTES) else { return false };
        let salted = Sha1::new().chain_update(password).chain_update(salt).finalize();
        return same(digest, &salted);
    }
    // Like C's crypt(): the password ends at its first zero byte.
    let password = password.split(|byte| *byte == 0).next().unwrap_or_default();
    std::str::from_utf8(hash).is_ok_and(|hash| is_right_crypt(hash, password))
}

/// The longest password in bytes, as crypt(3) of Linux has it. The time of some methods grows with its square.
const PASSWORD_BYTES_MAX: usize = 512;

fn is_right_crypt(hash: &str, password: &[u8]) -> bool {
    if password.len() > PASSWORD_BYTES_MAX {
        return false;
    }
    match hash.as_bytes() {
        [b'$', b'2', ..] => bcrypt::verify(password, hash).unwrap_or(false),
        [b'$', b'5' | b'6', b'$', ..] => {
            sha_crypt::ShaCrypt::default().verify_password(password, hash).is_ok()
        }
        [b'$', b'y', b'$', ..] => {
            yescrypt::Yescrypt::default().verify_password(password, hash).is_ok()
        }
        [b'$', ..] => md5_crypt::hash(password, hash)
            .is_some_and(|computed| same(computed.as_bytes(), hash.as_bytes())),
        [b'_', rest @ ..] if rest.len() == BSDI_BYTES && is_crypt_text(rest) => {
            crypt3_rs::crypt::bsdi::verify(password, hash)
        }
        text if text.len() == DES_BYTES && is_crypt_text(text) => {
            crypt3_rs::crypt::unix::verify(password, hash)
        }
        _ => false,
    }
}

const SHA1_BYTES: usize = 20;
/// Characters of a traditional DES hash: two of salt, eleven of the hash.
const DES_BYTES: usize = 13;
/// Characters of BSD's extended DES hash behind its `_`.
const BSDI_BYTES: usize = 19;

fn is_crypt_text(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'))
}

/// Compares in constant time: the time depends on nothing but the lengths.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other));
    // Without this the compiler might see that only zero matters, and stop early.
    std::hint::black_box(difference) == 0 && one.len() == other.len()
}
