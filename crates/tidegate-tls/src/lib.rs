//! TLS for both sides.
#![forbid(unsafe_code)]

mod accept;
pub mod cipher_suites;
mod client;
mod client_trust;
mod connect;
#[cfg(test)]
mod connect_tests;
mod error;
pub mod groups;
mod io;
pub mod key_files;
mod key_pair;
pub mod openssl_commands;
pub mod pem;
mod server;
mod sessions;
mod side;
pub mod stapling;
mod stream;
mod suites;
#[cfg(test)]
mod tests;
mod tickets;
mod verify;
pub mod x509;

/// The TLS library, as `-V` names it.
pub const LIBRARY: &str = "rustls 0.23 (aws-lc)";

pub use accept::{HELLO_BYTES, Hello, Negotiated, ShownCertificate, begins_hello};
pub use client::{Protocols, TlsOptions, TlsSettings, TlsTarget};
pub use client_trust::ClientTrust;
pub use connect::connect;
pub use error::{ConnectError, HandshakeError, KeyError, SettingsError};
pub use groups::Groups;
pub use io::Io;
pub use key_pair::KeyPair;
pub use server::{ServerOptions, ServerProtocols, ServerSettings};
pub use sessions::SessionCache;
pub use side::{Client, Server, Side};
pub use stapling::Stapled;
pub use stream::TlsStream;
pub use tickets::{RandomKeys, TicketKey, TicketKeys};
