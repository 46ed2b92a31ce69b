//! What can be wrong with a token and with a key set.

use std::fmt;

use crate::limits::{KEY_SET_BYTES_MAX, KEYS_MAX, SHOWN_MAX, TOKEN_BYTES_MAX};

/// The reason why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is longer than [`TOKEN_BYTES_MAX`].
    TooLong,
    /// It does not have this number of parts.
    Parts(usize),
    /// A part, or a member of its header, is not base64 for URLs without padding.
    Base64(&'static str),
    /// A part is not a JSON object: the part, and the fault.
    Json(&'static str, String),
    /// A member of the header is missing or of the wrong type.
    Header(&'static str),
    /// The header names an algorithm (`alg`) that is not supported.
    Algorithm(String),
    /// The header names a content encryption (`enc`) that is not supported.
    ContentEncryption(String),
    /// The header has `crit`: no extension is supported (RFC 7515 section 4.1.11).
    Critical,
    /// The header has `zip`: compressed content is not supported.
    Compressed,
    /// No key has the identifier, the type and the use that the token needs.
    NoKey,
    /// The signature is not that of any of the keys.
    Signature,
    /// None of the keys decrypts the token.
    Decryption,
    /// A claim that is a time is not a number.
    Time(&'static str),
    /// The time of `exp` has come.
    Expired,
    /// The time of `nbf` has not come.
    NotYetValid,
}

/// The reason why a text is no key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetError {
    /// It is longer than [`KEY_SET_BYTES_MAX`].
    TooLong,
    /// It is not a JSON object, or has members of the same name.
    Json(String),
    /// It has no array `keys` of objects, and is no key.
    Form,
    /// It has more than [`KEYS_MAX`] keys.
    TooMany,
}

/// Makes a text of a token or a key fit for a log: printable, in quotation marks, limited.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::TooLong => write!(f, "it is longer than {TOKEN_BYTES_MAX} bytes"),
            TokenError::Parts(parts) => write!(f, "it does not have {parts} parts"),
            TokenError::Base64(part) => write!(f, "its {part} is not base64url"),
            TokenError::Json(part, fault) => write!(f, "its {part} is not a JSON object: {fault}"),
            TokenError::Header(member) => {
                write!(f, "the member \"{member}\" of its header is missing or invalid")
            }
            TokenError::Algorithm(name) => {
                write!(f, "the algorithm {} is not supported", shown(name))
            }
            TokenError::ContentEncryption(name) => {
                write!(f, "the content encryption {} is not supported", shown(name))
            }
            TokenError::Critical => f.write_str("its header has critical extensions"),
            TokenError::Compressed => f.write_str("it is compressed"),
            TokenError::NoKey => f.write_str("there is no key for it"),
            TokenError::Signature => f.write_str("its signature is wrong"),
            TokenError::Decryption => f.write_str("it cannot be decrypted"),
            TokenError::Time(claim) => write!(f, "the claim \"{claim}\" is not a number"),
            TokenError::Expired => f.write_str("it has expired"),
            TokenError::NotYetValid => f.write_str("it is not valid yet"),
        }
    }
}

impl fmt::Display for KeySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySetError::TooLong => write!(f, "it is longer than {KEY_SET_BYTES_MAX} bytes"),
            KeySetError::Json(fault) => write!(f, "it is not a JSON object: {fault}"),
            KeySetError::Form => f.write_str("it has no array \"keys\" of objects"),
            KeySetError::TooMany => write!(f, "it has more than {KEYS_MAX} keys"),
        }
    }
}

impl std::error::Error for TokenError {}

impl std::error::Error for KeySetError {}
