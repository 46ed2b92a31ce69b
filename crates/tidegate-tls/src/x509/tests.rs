//! Certificates byte by byte: the tests of both sides of TLS parse whole ones.

use super::der::{GENERALIZED_TIME, UTC_TIME, time};
use super::{
    Certificate, Purpose, RevocationList, Trust, key_algorithm, key_bits, names, ocsp, public_key,
};

#[test]
fn reads_times() {
    for (tag, text, expected) in [
        (UTC_TIME, "700101000000Z", Some(0)),
        (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
        (UTC_TIME, "500101000000Z", Some(-631_152_000)),
        (UTC_TIME, "000229120000Z", Some(951_825_600)),
        (GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000)),
        (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
        (GENERALIZED_TIME, "700101000000Z", None),
        (UTC_TIME, "7001010000Z", None),
        (UTC_TIME, "700101000000", None),
        (UTC_TIME, "70010100000xZ", None),
        (UTC_TIME, "", None),
    ] {
        assert_eq!(time(tag, text.as_bytes()), expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(der in proptest::collection::vec(0u8..=255, 0..200)) {
        // Tags and short lengths are more frequent than by chance.
        let nested: Vec<u8> = der.iter().map(|byte| match byte % 4 {
            0 => 0x30,
            1 => 0x31,
            2 => byte % 64,
            _ => *byte,
        }).collect();
        for bytes in [&der, &nested] {
            let _ = (key_bits(bytes), key_algorithm(bytes), public_key(bytes));
            let _ = ocsp::is_response(bytes);
            if let Some(certificate) = Certificate::parse(bytes) {
                let _ = (ocsp::verify_response(bytes, &certificate, 0), ocsp::responder(&certificate));
                let _ = certificate.validity();
                let _ = (certificate.alt_names(), certificate.common_names());
            }
            let _ = (names::rfc2253(bytes), names::oneline(bytes), RevocationList::parse(bytes));
            let own = [bytes.to_vec()];
            let trust = Trust::new(Purpose::Client, &own, &own, 1, &[]);
            let _ = trust.check(&[bytes, bytes], 0);
        }
    }
}

/// Returns a name of attributes with one-byte lengths; a plus joins an attribute to the one before.
fn name(attributes: &[(&[u8], u8, &[u8], bool)]) -> Vec<u8> {
    let wrap = |tag: u8, content: &[u8]| [&[tag, content.len() as u8][..], content].concat();
    let mut sets: Vec<Vec<u8>> = Vec::new();
    for (id, tag, value, joined) in attributes {
        let pair = wrap(0x30, &[wrap(6, id), wrap(*tag, value)].concat());
        match sets.last_mut() {
            Some(last) if *joined => last.extend(pair),
            _ => sets.push(pair),
        }
    }
    sets.iter().flat_map(|set| wrap(0x31, set)).collect()
}

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];

#[test]
fn names_as_text() {
    let utf8 = 0x0c;
    let check = |attributes: &[(&[u8], u8, &[u8], bool)], new: &str, old: &str| {
        let name = name(attributes);
        assert_eq!(names::rfc2253(&name), new);
        assert_eq!(names::oneline(&name), old);
        assert!(names::same(&name, &name));
    };
    check(&[], "", "");
    check(
        &[(ORGANIZATION, utf8, b"A, Inc.", false), (COMMON_NAME, utf8, b"a", false)],
        "CN=a,O=A\\, Inc.",
        "/O=A, Inc./CN=a",
    );
    check(
        &[(ORGANIZATION, utf8, b"o", false), (COMMON_NAME, utf8, b"c", true)],
        "CN=c+O=o",
        "/O=o/CN=c",
    );
    check(&[(COMMON_NAME, utf8, b" # ", false)], "CN=\\ #\\ ", "/CN= # ");
    check(&[(COMMON_NAME, utf8, b"#\n", false)], "CN=\\#\\0A", "/CN=#\\x0A");
    // ISO 8859-1, and two bytes per letter.
    check(&[(COMMON_NAME, 0x14, b"\xeb", false)], "CN=\\C3\\AB", "/CN=\\xEB");
    check(&[(COMMON_NAME, 0x1e, b"\0a\x03\xa9", false)], "CN=a\\CE\\A9", "/CN=a\\x03\\xA9");
    check(&[(&[0x2a, 0x86, 0x48, 3], 2, b"\x01", false)], "1.2.840.3=#020101", "/1.2.840.3=\\x01");
}

#[test]
fn names_that_are_the_same() {
    let one = |text: &[u8], tag: u8| name(&[(COMMON_NAME, tag, text, false)]);
    assert!(names::same(&one(b"A  b ", 0x0c), &one(b"a B", 0x13)));
    assert!(!names::same(&one(b"a b", 0x0c), &one(b"ab", 0x0c)));
    assert!(!names::same(&one(b"a", 0x0c), &name(&[(ORGANIZATION, 0x0c, b"a", false)])));
}

#[test]
fn finds_public_keys() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let found = public_key(certificate.der());
    // The bits begin with the number of unused ones.
    assert_eq!(found, Some(&[&[0], key.public_key_raw()].concat()[..]));
    for cut in 0..certificate.der().len() {
        assert_eq!(public_key(&certificate.der()[..cut]), None);
    }
}
