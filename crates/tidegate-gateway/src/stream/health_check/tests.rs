//! Parsing of the directives, and checks of received bytes. The servers that pass are tested by the end-to-end cases.

use proptest::prelude::*;

use super::rule::{Expect, MatchResult, unescaped};
use crate::testing::Bench;

fn config(rules: &str, server: &str) -> String {
    format!(
        "}} stream {{ upstream u {{ zone z 64k; server 127.0.0.1:1; }} upstream fixed {{ server 127.0.0.1:1; }} \
         match m {{ {rules} }} server {{ listen 127.0.0.1:1; {server} }}"
    )
}

#[test]
fn valid_directives() {
    for rules in [
        "",
        "send PING;",
        "expect PONG;",
        "send \"\\x00\\x01\"; expect ~ ^\\x80;",
        "expect ~* \"200 ok\";",
    ] {
        let server = "proxy_pass u; health_check_timeout 200ms; health_check udp; health_check \
                      interval=200ms jitter=1s fails=3 passes=2 match=m port=8080 mandatory persistent;";
        Bench::new(&config(rules, server));
    }
}

#[test]
fn invalid_directives() {
    let check = |rules: &str, server: &str, error: &str| {
        let errors = Bench::errors(&config(rules, server));
        let found = errors.iter().any(|found| found.contains(error));
        assert!(found, "{rules} {server}: {errors:?} lacks {error}");
    };
    let passed = "proxy_pass u; health_check";
    for (server, error) in [
        ("return x; health_check;".to_owned(), "needs a \"proxy_pass\""),
        ("proxy_pass $server_addr:1; health_check;".to_owned(), "needs a \"proxy_pass\""),
        ("proxy_pass fixed; health_check;".to_owned(), "in shared memory"),
        (format!("{passed} match=none;"), "match \"none\" not found"),
        (format!("{passed} uri=/;"), "invalid parameter \"uri=/\""),
        (format!("{passed} udp=on;"), "invalid parameter \"udp=on\""),
        (format!("{passed} persistent;"), "requires \"mandatory\""),
        ("proxy_pass u; health_check_timeout x;".to_owned(), "invalid"),
    ] {
        check("", &server, error);
    }
    for rules in ["status 200;", "send a b;", "expect = x;", "expect;"] {
        check(rules, "return x;", "condition of \"match\"");
    }
    check("send a; send b;", "return x;", "is duplicate in \"match\"");
    check("expect a; expect ~ b;", "return x;", "is duplicate in \"match\"");
    check("expect ~ (;", "return x;", "missing");
}

#[test]
fn a_text_is_how_data_begins() {
    let expect = Expect::Text(b"PONG".to_vec());
    for (received, verdict) in [
        (&b""[..], MatchResult::Open),
        (b"PO", MatchResult::Open),
        (b"PONG", MatchResult::Passed),
        (b"PONG\r\n", MatchResult::Passed),
        (b"PANG", MatchResult::Failed),
        (b"-PONG", MatchResult::Failed),
    ] {
        assert_eq!(expect.judge(received), verdict, "{received:?}");
    }
}

#[test]
fn bytes_are_written_by_their_number() {
    for (text, bytes) in [
        ("plain", &b"plain"[..]),
        ("\\x00\\xfF-\\x41", b"\x00\xff-A"),
        ("\\x4", b"\\x4"),
        ("\\xzz\\\\x41", b"\\xzz\\A"),
        ("\\x+1", b"\\x+1"),
        ("", b""),
    ] {
        assert_eq!(unescaped(text.as_bytes()), bytes, "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_can_be_written(bytes: Vec<u8>, rest: Vec<u8>) {
        let text: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        prop_assert_eq!(unescaped(text.as_bytes()), bytes.clone());
        prop_assert!(unescaped(&rest).len() <= rest.len());
        // Prefixes of the expected text never fail; any bytes behind it pass.
        let expect = Expect::Text(bytes.clone());
        for end in 0..bytes.len() {
            prop_assert_eq!(expect.judge(&bytes[..end]), MatchResult::Open);
        }
        prop_assert_eq!(expect.judge(&[&bytes[..], &rest[..]].concat()), MatchResult::Passed);
    }
}
