//! Targets, and the statuses of refusals.

use tidegate_http::Span;
use tidegate_http::request::{Fault, RequestError};

use super::{Refusal, decode_target};
use crate::testing::Bench;

/// The path and the arguments of a target; `None` when it is none.
fn check(config: &str, method: &str, target: &str, expected: Option<(&str, &str)>) {
    let bench = Bench::new(&format!("server {{ {config} }}"));
    let mut x = bench.exchange();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let parsed = tidegate_http::request::parse_request(
        head.as_bytes(),
        &Default::default(),
        &mut x.request.head,
    );
    assert!(parsed.is_ok(), "{target}: {parsed:?}");
    let decoded = decode_target(&mut x).is_ok();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match expected {
        Some((path, args)) => {
            assert!(decoded, "{target}");
            let found = (text(&x.request.path), text(&x.request.args));
            assert_eq!(found, (path.to_owned(), args.to_owned()), "{method} {target}");
        }
        None => assert!(!decoded && x.request.path.is_empty(), "{target}"),
    }
}

#[test]
fn a_target_is_decoded_into_path_and_arguments() {
    for (target, expected) in [
        ("/", Some(("/", ""))),
        ("/a/b?c=d", Some(("/a/b", "c=d"))),
        ("/a%20b?c%20d", Some(("/a b", "c%20d"))),
        ("/a/../b/./c", Some(("/b/c", ""))),
        ("/a//b", Some(("/a/b", ""))),
        ("/a?", Some(("/a", ""))),
        ("/a?b?c", Some(("/a", "b?c"))),
        ("/a%3Fb", Some(("/a?b", ""))),
        ("http://other/a?b", Some(("/a", "b"))),
        ("http://other", Some(("/", ""))),
        ("/..", None),
        ("/a/../../b", None),
        ("/%00", None),
        ("/%zz", None),
    ] {
        check("", "GET", target, expected);
    }
    check("merge_slashes off;", "GET", "/a//b", Some(("/a//b", "")));
    check("", "OPTIONS", "*", Some(("*", "")));
    check("", "CONNECT", "a.test:443", Some(("/", "")));
}

#[test]
fn each_refusal_has_its_status() {
    let head = RequestError { fault: Fault::InvalidMethod, line: Span::default(), previous: None };
    for (refusal, status) in
        [(Refusal::Head(head), 400), (Refusal::Target, 400), (Refusal::Connect, 405)]
    {
        assert_eq!(refusal.status(), status, "{refusal:?}");
    }
}
