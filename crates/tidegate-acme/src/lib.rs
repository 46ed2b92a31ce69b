//! A client of ACME (RFC 8555; 8737 tls-alpn-01; 8738 IP addresses; 9773 renewal information; profiles) without I/O and
//! without a clock. **No crate uses it yet**: directives follow.
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports, reason = "the machine that uses the parts follows")]
#![warn(missing_docs)]

mod chain;
mod challenge;
mod csr;
mod encoding;
mod identifier;
mod json;
mod jws;
mod key;
mod limits;
mod message;
mod problem;
mod time;
mod wire;

pub use chain::{Chain, ChainError};
pub use challenge::{ALPN_PROTOCOL, Challenge, HTTP_PREFIX};
pub use identifier::{Identifier, IdentifierError};
pub use json::Malformed;
pub use jws::{AccountKey, ExternalAccount};
pub use key::{Key, KeyError, KeyKind};
pub use limits::{BODY_BYTES_MAX, CONTACTS_MAX, IDENTIFIERS_MAX};
pub use message::ChallengeKind;
pub use problem::{Problem, ProblemKind};
pub use time::Time;
pub use wire::{Method, Request, Response};
