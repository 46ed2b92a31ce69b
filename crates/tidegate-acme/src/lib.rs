//! A client of ACME (RFC 8555; 8737 tls-alpn-01; 8738 IP addresses; 9773 renewal information; profiles) without I/O and
//! without a clock. **No crate uses it yet**: directives follow.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backoff;
mod certificate;
mod chain;
mod challenge;
mod config;
mod csr;
mod encoding;
mod failure;
pub mod files;
mod identifier;
mod issuer;
mod json;
mod jws;
mod key;
mod limits;
mod message;
mod problem;
mod renewal;
mod session;
mod step;
mod time;
mod wire;

pub use chain::{Chain, ChainError};
pub use challenge::{ALPN_PROTOCOL, Challenge, HTTP_PREFIX};
pub use config::{AccountKeySource, Config, Profile, Wanted};
pub use failure::Failure;
pub use files::{ACCOUNT, ACCOUNT_KEY, Change};
pub use identifier::{Identifier, IdentifierError};
pub use issuer::{Installed, Issuer, IssuerError};
pub use json::Malformed;
pub use jws::{AccountKey, ExternalAccount};
pub use key::{Key, KeyError, KeyKind};
pub use limits::{BODY_BYTES_MAX, CONTACTS_MAX, IDENTIFIERS_MAX};
pub use message::ChallengeKind;
pub use problem::{Problem, ProblemKind};
pub use step::{Event, Outcome, Report, Step};
pub use time::Time;
pub use wire::{Method, Request, Response};
