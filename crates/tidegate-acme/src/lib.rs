//! A client of ACME without I/O and without a clock (RFC 8555; 8737 tls-alpn-01; 8738 IP addresses; 9773 renewal
//! information; profiles, draft-ietf-acme-profiles). The directives of nginx's ACME module (`tidegate-modules`) use it.
//!
//! The machine of an issuer returns one [`Step`] at a time, and takes its [`Outcome`]. Requests, files, keys (they take
//! seconds), challenges, waits and the log are the caller's; time and random numbers are arguments. Errors are values, and
//! no input can cause a panic. [Decision 017](../../../docs/decisions/017-own-acme-client.md) has the reasons.
//!
//! ```text
//!        Step: Store, Send, MakeKey, Present, Withdraw, Report, Wait        Outcome: Done, Response, Key, Failed
//!                 ▲ poll(now)                                                        │ done(outcome, now, random)
//!   ┌─────────────┴───────────────────────── Issuer ────────────────────────────────▼─────────────┐
//!   │ issuer        whose turn it is, pauses, refused nonces                                       │
//!   │ session       directory, nonces, account            certificate   the states of an order     │
//!   ├──────────────────────────────────────────────────────────────────────────────────────────────┤
//!   │ files         what is on the disk                   renewal, backoff   when                   │
//!   │ failure       what follows from an error            message, problem   parsed with limits     │
//!   │ key, jws      keys, signatures (aws-lc-rs)          chain, csr, challenge   (rcgen, x509-cert) │
//!   └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! # Use
//!
//! ```
//! use std::collections::BTreeMap;
//! use tidegate_acme::{
//!     AccountKeySource, ChallengeKind, Config, Identifier, Issuer, Key, KeyKind, Outcome, Step, Time, Wanted,
//! };
//!
//! let config = Config {
//!     directory: "https://acme.example.com/directory".to_owned(),
//!     account_key: AccountKeySource::Generate(KeyKind::Ecdsa256),
//!     contacts: vec!["mailto:admin@example.com".to_owned()],
//!     external_account: None,
//!     terms_agreed: true,
//!     challenge: ChallengeKind::Http01,
//!     preferred_chain: None,
//!     profile: None,
//!     common_name: false,
//! };
//! let names = [Identifier::parse("example.com")?, Identifier::parse("www.example.com")?];
//! let wanted = Wanted::new(&names, KeyKind::Ecdsa256).ok_or("too many names")?;
//!
//! // The state: a directory, or a map where there is none (`state_path off`).
//! let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
//! let mut read = |file: &str| files.get(file).cloned();
//! let mut now = Time(1_800_000_000);
//! let mut issuer = Issuer::new(config, vec![wanted], &mut read, now, 0)?;
//! let mut requests = 0;
//! while requests < 3 {
//!     let outcome = match issuer.poll(now) {
//!         Step::Store(change) => {
//!             match change.contents {
//!                 Some(contents) => files.insert(change.file, contents),
//!                 None => files.remove(&change.file),
//!             };
//!             Outcome::Done
//!         }
//!         Step::Send(request) => {
//!             requests += 1;
//!             Outcome::Failed(format!("{}: no network", request.url))
//!         }
//!         Step::MakeKey(kind) => Outcome::Key(Key::generate(kind)?),
//!         Step::Present(_) | Step::Withdraw(_) => Outcome::Done,
//!         Step::Report(report) => {
//!             println!("{}", report.event);
//!             continue;
//!         }
//!         Step::Wait(until) => {
//!             now = until;
//!             continue;
//!         }
//!     };
//!     issuer.done(outcome, now, 7);
//! }
//! // Pauses of about 5 s and 10 s.
//! assert!((11..20).contains(&(now.0 - 1_800_000_000)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a caller does
//!
//! - It has one machine for each issuer, and passes steps to a pool thread one at a time. A wait is a timer, which a
//!   reload ends.
//! - It locks the directory of the files: two machines with the same files would order twice. Before that, it creates the
//!   directory with mode 0700.
//! - It makes each [`Change`] durable before it returns [`Outcome::Done`]. What is on the disk is what a restart knows.
//! - It presents challenges on all listeners, of all workers: http-01 at [`Challenge::path`] before any rule of a server;
//!   tls-alpn-01 for handshakes whose only protocol is [`ALPN_PROTOCOL`], by [`Challenge::certificate`]; dns-01 as a record of [`Challenge::record`].
//! - After [`Event::Issued`], and at the start, it takes the certificates from [`Issuer::certificates`].
//! - A reload makes another machine of the same files, with the new configuration, and drops the old one between two steps.
//!   Certificates that are no longer wanted stay on the disk.
//!
//! # Invariants
//!
//! - No request leaves before that which it depends on is on the disk: an account's key before newAccount, a certificate's
//!   key and the intention before newOrder, the order's URL before its first use, the certificate before its key's order is
//!   forgotten.
//! - After a failure the machine goes on from the state that the files describe, as after a restart: there is one way of
//!   recovery.
//! - No second order for a certificate while the first can be finished. If newOrder's response was lost, the order is
//!   searched for in the account's list; servers without a list return the pending order for the same names (Let's
//!   Encrypt). A server with neither gets a second order. An order that was validated while a killed process presented no
//!   challenges is invalid, and another one follows it.
//! - Between two orders for a certificate that have failed is a pause of a minute or more, on the disk; between two that
//!   have succeeded are six hours, or a quarter of the certificate's life.
//! - A certificate is kept if it is for the order's key and names. One that has expired, is damaged or is for other names
//!   is not used.
//! - Texts of the server are printable and short before they are in an error or a report. Keys and proofs are in no debug
//!   output.
//!
//! # Limits
//!
//! `limits.rs` has all of them with their reasons: bytes of bodies, URLs, nonces, tokens and texts; numbers of names,
//! challenges, certificates, links, alternates, pages and orders of a search; refused nonces, failed responses and looks at
//! an order; pauses, also those that the server asks for.
//!
//! # What is not there
//!
//! Revocation, change of an account's key, pre-authorization, and the certificates of other issuers' files.
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
#[doc(hidden)]
pub mod fuzzing;
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
