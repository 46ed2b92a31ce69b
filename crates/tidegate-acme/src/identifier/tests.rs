//! Identifiers: what is one, and its name in a handshake.

use super::{Identifier, IdentifierError};

#[test]
fn names_and_addresses() {
    let long = format!("{}.test", "a".repeat(64));
    let cases = [
        ("Example.COM", Some("example.com")),
        ("example.com.", Some("example.com")),
        ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
        ("_acme.example.com", Some("_acme.example.com")),
        ("192.0.2.1", Some("192.0.2.1")),
        ("2001:DB8::1", Some("2001:db8::1")),
        ("localhost", Some("localhost")),
        ("", None),
        (".", None),
        ("a..b", None),
        ("-a.test", None),
        ("a-.test", None),
        ("bücher.example", None),
        ("192.0.2.256", None),
        ("a.test/..", None),
        ("~^www", None),
        (long.as_str(), None),
    ];
    for (text, expected) in cases {
        let found = Identifier::parse(text).ok().map(|identifier| identifier.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }
    let wildcard = Identifier::parse("*.example.com");
    assert_eq!(wildcard, Err(IdentifierError::Wildcard("*.example.com".to_owned())));
}

#[test]
fn server_names() {
    let cases = [
        ("example.com", "example.com"),
        ("192.0.2.1", "1.2.0.192.in-addr.arpa"),
        ("2001:db8::1", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"),
    ];
    for (text, expected) in cases {
        let found = Identifier::parse(text).map(|identifier| identifier.server_name());
        assert_eq!(found.as_deref(), Ok(expected));
    }
}

#[test]
fn wildcards_are_names_where_they_are_asked_for() {
    let parsed = |text| Identifier::parse_wildcard(text).map(|parsed| parsed.to_string()).ok();
    assert_eq!(parsed("*.A.test").as_deref(), Some("*.a.test"));
    assert_eq!(parsed("a.test").as_deref(), Some("a.test"));
    for text in ["*", "*.", "*.*.a.test", "a.*.test", "*.192.0.2.1", "*a.test"] {
        assert_eq!(parsed(text), None, "{text}");
    }
}
