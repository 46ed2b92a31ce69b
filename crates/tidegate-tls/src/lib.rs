//! TLS for both sides of the server, with its certificates and keys. It is the only crate of the product that
//! uses the TLS library. It takes plain values and has neither directives nor requests, so that any protocol
//! over TLS can use it.
//!
//! Towards clients: a [`KeyPair`] for each certificate, which [`Stapled`] holds together with the response of
//! its OCSP responder; [`ServerProtocols`], and with them [`ServerOptions`], become the [`ServerSettings`] of
//! one server. A connection begins with [`Hello::receive`], the caller chooses a server by
//! [`Hello::server_name`], and [`Hello::accept`] completes the handshake:
//!
//! ```text
//! bytes → Hello → (choose ServerSettings) → accept → TlsStream<Server>, Negotiated
//! ```
//!
//! Towards origins: [`TlsOptions`] become [`TlsSettings`], which together with a name are a [`TlsTarget`], and
//! [`connect`] makes a `TlsStream<Client>` of a connected socket.
//!
//! After the handshake both sides read and write through [`Io`], plain or TLS.
//!
//! | file | content |
//! |---|---|
//! | accept, connect | from a socket to a stream, for each side |
//! | server, client | settings, compiled from plain values |
//! | session, aead, buffers | the library's connection without I/O, the call of its cipher, and memory for bytes under way |
//! | stream, io, side | the decrypted stream |
//! | client_trust, client_status, verify, x509 | verification of certificates |
//! | key_pair, pem, key_files, known_pairs | own certificates and keys |
//! | pair_files, pair_cache | those that are named while the server runs, and their cache |
//! | certificate_compression | certificates that are sent compressed |
//! | entropy | random bytes, before the first handshake |
//! | sessions, tickets | resumption, over threads and reloads |
//! | stapling | responses of OCSP responders |
//! | cipher_suites, groups, signature_schemes, openssl_commands | OpenSSL's names, lists and commands |
//! | key_log | secrets of connections, for programs that decrypt them |
//! | observed | facts that the library does not show after a handshake |
//! | suites | the library's suites and versions |
//! | quic | handshakes of QUIC (RFC 9001) |
//! | error, openssl_errors | the reasons why there is no TLS, and OpenSSL's words for them |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod aead;
mod buffers;
mod certificate_compression;
pub mod cipher_suites;
mod client;
mod client_status;
mod client_trust;
mod connect;
pub mod entropy;
mod error;
pub mod groups;
mod io;
pub mod key_files;
mod key_log;
mod key_pair;
mod known_pairs;
mod observed;
pub mod openssl_commands;
mod openssl_errors;
mod pair_cache;
mod pair_files;
pub mod pem;
pub mod quic;
mod server;
mod session;
mod sessions;
mod side;
pub mod signature_schemes;
pub mod stapling;
mod stream;
mod suites;
mod tickets;
mod verify;
pub mod x509;

/// The TLS library, in the form of `-V`.
pub const LIBRARY: &str = "rustls 0.23 (aws-lc)";

pub use accept::{HELLO_BYTES, Hello, Negotiated, ShownCertificate, begins_hello};
pub use client::{Protocols, TlsOptions, TlsSettings, TlsTarget};
pub use client_status::{CertificateStatus, StatusCache, StatusQuery, StatusScope};
pub use client_trust::ClientTrust;
pub use connect::connect;
pub use error::{HandshakeError, KeyPairError, SettingsError, TlsConnectError};
pub use groups::Groups;
pub use io::Io;
pub use key_log::KeyLog;
pub use key_pair::KeyPair;
pub use known_pairs::KnownPairs;
pub use openssl_errors::OpensslError;
pub use pair_cache::PairCache;
pub use pair_files::{LoadError, LoadedPair, PemSource, load};
pub use server::{ServerOptions, ServerProtocols, ServerSettings};
pub use session::DATA_BYTES_MAX;
pub use sessions::SessionCache;
pub use side::{Client, Server, Side};
pub use stapling::Stapled;
pub use stream::TlsStream;
pub use tickets::{
    ConfiguredKey, DerivedKeys, RandomKeys, SECRET_BYTES_MIN, TicketKey, TicketKeys,
};
