//! The library's cipher suites by OpenSSL's names.

use crate::cipher_suites;
pub use crate::cipher_suites::name;
use tokio_rustls::rustls::SupportedCipherSuite;
use tokio_rustls::rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, cipher_suite as suite};

/// The suites of TLS 1.3, by numbers where some are chosen: no list of `ssl_ciphers` changes them.
pub fn tls13(chosen: Option<&[u16]>) -> Vec<SupportedCipherSuite> {
    let all = [
        suite::TLS13_AES_256_GCM_SHA384,
        suite::TLS13_CHACHA20_POLY1305_SHA256,
        suite::TLS13_AES_128_GCM_SHA256,
    ];
    let find = |number: &u16| all.into_iter().find(|suite| u16::from(suite.suite()) == *number);
    match chosen {
        None => all.to_vec(),
        Some(numbers) => numbers.iter().filter_map(find).collect(),
    }
}

/// The TLS 1.2 suites of a list in OpenSSL's format.
pub fn tls12(list: &str) -> Vec<SupportedCipherSuite> {
    let numbers = cipher_suites::tls12(list);
    let find = |number: &u16| {
        ALL_CIPHER_SUITES.iter().find(|suite| u16::from(suite.suite()) == *number).copied()
    };
    numbers.iter().filter_map(find).collect()
}
