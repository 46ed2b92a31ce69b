//! TLS: certificates and keys, OpenSSL's names and commands, sessions, streams.
#![forbid(unsafe_code)]

pub mod cipher_suites;
pub mod client;
pub mod connect;
#[cfg(test)]
mod connect_tests;
pub mod groups;
pub mod io;
pub mod key_files;
pub mod openssl_commands;
pub mod pem;
pub mod sessions;
pub mod stream;
pub mod suites;
#[cfg(test)]
mod tests;
pub mod tickets;
mod verify;
pub mod x509;

pub use client::{Protocols, TlsOptions, TlsSettings, TlsTarget};
