//! A JSON Web Key Set (RFC 7517 section 5).

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::error::{KeySetError, shown};
use crate::json::Object;
use crate::key::Key;
use crate::limits::{KEY_SET_BYTES_MAX, KEYS_MAX};

/// Keys in the order of their text.
pub struct KeySet {
    pub(crate) keys: Vec<Key>,
    unusable: Vec<UnusableKey>,
}

/// A key of a set that is not used (RFC 7517 section 5 has such keys ignored).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableKey {
    /// The number of the key in its set, counted from 1.
    pub number: usize,
    /// Its identifier (`kid`).
    pub key_id: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl KeySet {
    /// Parses a set, or a key that stands for a set of its own.
    ///
    /// # Errors
    /// The text is too long, not a JSON object, or neither a set nor a key.
    pub fn parse(text: &[u8]) -> Result<KeySet, KeySetError> {
        if text.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetError::TooLong);
        }
        let object = Object::parse(text).map_err(KeySetError::Json)?;
        let mut set = KeySet { keys: Vec::new(), unusable: Vec::new() };
        match object.member("keys") {
            Some(Value::Array(keys)) if keys.len() > KEYS_MAX => return Err(KeySetError::TooMany),
            Some(Value::Array(keys)) => {
                for (index, key) in keys.iter().enumerate() {
                    let Value::Object(members) = key else { return Err(KeySetError::Form) };
                    set.add(index + 1, &Object::of(members.clone()));
                }
            }
            None if object.member("kty").is_some() => set.add(1, &object),
            _ => return Err(KeySetError::Form),
        }
        Ok(set)
    }

    /// Returns the keys that are not used.
    pub fn unusable(&self) -> &[UnusableKey] {
        &self.unusable
    }

    fn add(&mut self, number: usize, jwk: &Object) {
        match Key::new(jwk) {
            Ok(key) => self.keys.push(key),
            Err(reason) => {
                let key_id = jwk.string("kid").map(str::to_owned);
                self.unusable.push(UnusableKey { number, key_id, reason });
            }
        }
    }
}

impl fmt::Debug for KeySet {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for UnusableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.number)?;
        if let Some(key_id) = &self.key_id {
            write!(f, " ({})", shown(key_id))?;
        }
        write!(f, " cannot be used: {}", self.reason)
    }
}
