//! The library's cipher suites and protocol versions by their numbers, and its algorithms.

use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::aead;

/// Returns the suites of TLS 1.3, by numbers where some are chosen: no list of `ssl_ciphers` changes them.
pub(crate) fn tls13(chosen: Option<&[u16]>) -> Vec<SupportedCipherSuite> {
    match chosen {
        None => aead::suites().to_vec(),
        Some(numbers) => by_number(numbers),
    }
}

/// Returns suites by their numbers (IANA registry "TLS Cipher Suites"), in that order; unknown ones are left
/// out.
pub(crate) fn by_number(numbers: &[u16]) -> Vec<SupportedCipherSuite> {
    let known = |number: &u16| {
        let own = aead::suites();
        let mut all = own.iter().chain(ALL_CIPHER_SUITES);
        all.find(|suite| u16::from(suite.suite()) == *number).copied()
    };
    numbers.iter().filter_map(known).collect()
}

/// Returns the enabled versions.
pub(crate) fn versions(tls12: bool, tls13: bool) -> Vec<&'static SupportedProtocolVersion> {
    let versions = [tls12.then_some(&version::TLS12), tls13.then_some(&version::TLS13)];
    versions.into_iter().flatten().collect()
}

/// Returns the algorithms by which signatures of certificates and of handshakes are verified.
pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}
