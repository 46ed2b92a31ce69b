//! The JOSE header of a token: what both forms have in common.

use crate::base64url;
use crate::error::TokenError;
use crate::json::Object;
use crate::limits::TOKEN_BYTES_MAX;

/// A header whose general members are valid.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) object: Object,
    pub(crate) algorithm: String,
    pub(crate) key_id: Option<String>,
}

impl Header {
    /// Parses the first part of a token.
    pub(crate) fn parse(part: &[u8]) -> Result<Header, TokenError> {
        let text = base64url::decode(part).ok_or(TokenError::Base64("header"))?;
        let object = Object::parse(&text).map_err(|fault| TokenError::Json("header", fault))?;
        if object.member("crit").is_some() {
            return Err(TokenError::Critical);
        }
        let algorithm = object.string("alg").ok_or(TokenError::Header("alg"))?.to_owned();
        let key_id = match object.member("kid") {
            None => None,
            Some(value) => Some(value.as_str().ok_or(TokenError::Header("kid"))?.to_owned()),
        };
        Ok(Header { object, algorithm, key_id })
    }
}

/// Splits a token into its parts, which are separated by dots.
pub(crate) fn parts<const COUNT: usize>(token: &[u8]) -> Result<[&[u8]; COUNT], TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let mut parts = [&[][..]; COUNT];
    let mut split = token.split(|byte| *byte == b'.');
    for place in &mut parts {
        *place = split.next().ok_or(TokenError::Parts(COUNT))?;
    }
    match split.next() {
        None => Ok(parts),
        Some(_) => Err(TokenError::Parts(COUNT)),
    }
}
