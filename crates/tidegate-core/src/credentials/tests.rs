//! Tests of credentials.
use super::{basic, decode_base64, encode_base64, padded_base64};

#[test]
fn credentials_are_split_at_the_first_colon() {
    for (field, expected) in [
        ("Basic dXNlcjpzZWNyZXQ=", Some(("user", "secret"))),
        ("basic dXNlcjpzZWNyZXQ", Some(("user", "secret"))),
        ("Basic dTphOmI=", Some(("u", "a:b"))),
        ("Basic dTo=", Some(("u", ""))),
        ("Basic OnA=", None),
        ("Basic dXNlcg==", None),
        ("Basic d", None),
        ("Basic !!!!", None),
        ("Bearer dTo=", None),
        ("", None),
    ] {
        let found = basic(field.as_bytes());
        let expected =
            expected.map(|(u, p): (&str, &str)| (u.as_bytes().to_vec(), p.as_bytes().to_vec()));
        assert_eq!(found, expected, "{field}");
    }
}

#[test]
fn base64_lengths() {
    for (text, expected) in
        [("", Some("")), ("QQ==", Some("A")), ("QUI=", Some("AB")), ("QUJD", Some("ABC"))]
    {
        assert_eq!(
            decode_base64(text.as_bytes()),
            expected.map(|e| e.as_bytes().to_vec()),
            "{text}"
        );
        assert_eq!(padded_base64(expected.unwrap_or_default().as_bytes()), text.as_bytes());
    }
    assert_eq!(decode_base64(b"Q"), None);
    assert_eq!(decode_base64(b"QQ==="), None);
}

#[test]
fn encoded_bytes_are_decoded() {
    for (bytes, expected) in
        [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("\u{7f}?>", "fz8+")]
    {
        let mut text = Vec::new();
        encode_base64(bytes.as_bytes(), &mut text);
        assert_eq!(std::str::from_utf8(&text), Ok(expected));
        assert_eq!(decode_base64(&text).as_deref(), Some(bytes.as_bytes()));
    }
}
