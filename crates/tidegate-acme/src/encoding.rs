//! The base64 of JOSE: the alphabet for URLs, without padding (RFC 7515 section 2).

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a key as authorities hand them out: with or without padding.
pub(crate) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    match text.ends_with('=') {
        true => URL_SAFE.decode(text).ok(),
        false => URL_SAFE_NO_PAD.decode(text).ok(),
    }
}

/// Says whether the text has only the characters of base64 for URLs, and at least one.
pub(crate) fn is_base64url(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.bytes().all(digit)
}
