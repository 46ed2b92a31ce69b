//! The base64 of JOSE: the alphabet for URLs, without padding (RFC 7515 section 2).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Decodes a text; `None` for padding, other characters, and bits behind the last byte.
pub(crate) fn decode(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Encodes bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
