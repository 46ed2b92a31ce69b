//! Names of certificates.

use super::{is_for, matches};

#[test]
fn matches_names() {
    for (pattern, name, expected) in [
        ("example.com", "EXAMPLE.com", true),
        ("example.com", "www.example.com", false),
        ("*.example.com", "www.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", ".example.com", false),
        ("*.example.com", "a.b.example.com", false),
        ("*.com", "example.com", false),
        ("*", "com", false),
        ("", "", false),
        ("w*.example.com", "www.example.com", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
    }
}

/// Checks whether a certificate with these alternative names and this common name is for `name`.
fn check(alternatives: &[&str], common: &str, name: &str, expected: bool) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let names: Vec<String> = alternatives.iter().map(|name| (*name).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).expect("names");
    params.distinguished_name.push(rcgen::DnType::CommonName, common);
    let certificate = params.self_signed(&key).expect("signed");
    let found = is_for(certificate.der(), name.as_bytes());
    assert_eq!(found, expected, "{alternatives:?} {common} for {name}");
}

#[test]
fn finds_names_in_certificates() {
    check(&["a.example", "*.b.example"], "c.example", "a.example", true);
    check(&["a.example", "*.b.example"], "c.example", "x.b.example", true);
    check(&["a.example", "*.b.example"], "c.example", "c.example", false);
    check(&[], "c.example", "c.example", true);
    check(&["127.0.0.1"], "c.example", "127.0.0.1", true);
    check(&["127.0.0.1"], "c.example", "127.0.0.2", false);
    check(&["127.0.0.1"], "c.example", "c.example", true);
    check(&["::1"], "", "[::1]", true);
    check(&[], "", "", false);
    assert!(!is_for(b"", b"a"));
}
