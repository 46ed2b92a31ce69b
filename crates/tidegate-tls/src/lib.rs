//! TLS: certificates and keys, and OpenSSL's names and commands.
#![forbid(unsafe_code)]

pub mod cipher_suites;
pub mod key_files;
pub mod openssl_commands;
pub mod pem;
pub mod x509;
