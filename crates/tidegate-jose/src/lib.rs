//! JSON Web Tokens in the compact form, and the keys that check them: JWS (RFC 7515), JWE (RFC 7516), JWK sets
//! (RFC 7517), algorithms (RFC 7518, RFC 8037), claims (RFC 7519). No I/O and no clock.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tidegate_jose::{KeySet, SignedToken, check_times, parse_claims};
//!
//! let keys = KeySet::parse(br#"{"keys":[{"kty":"oct","k":"ZmFudGFzdGljand0"}]}"#).expect("a key set");
//! let token = b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.3Nhguh_6KKbrVopz81zRNMyPYTpPR9I_C5Gb_bSmjT0";
//! let token = SignedToken::parse(token).expect("the form of a token");
//! assert!(token.verify(&[Arc::new(keys)]).is_ok());
//! let claims = parse_claims(token.payload()).expect("a JSON object");
//! assert!(check_times(&claims, 0, Duration::ZERO).is_ok());
//! assert_eq!(claims.text(&["sub"]).as_deref(), Some("ann"));
//! ```
//! The cryptographic library is aws-lc-rs. What it does not have is refused: signatures with Ed448.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod algorithm;
mod base64url;
mod claims;
mod content;
mod encrypted;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod json;
mod key;
mod key_set;
mod key_wrap;
pub mod limits;
mod signed;
#[cfg(test)]
mod testing;

pub use claims::{check_times, parse_claims};
pub use encrypted::EncryptedToken;
pub use error::{KeySetError, TokenError};
pub use json::Object;
pub use key_set::{KeySet, UnusableKey};
pub use signed::SignedToken;
