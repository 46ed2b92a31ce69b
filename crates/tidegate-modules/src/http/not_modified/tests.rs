//! The filter on responses whose validators are set by hand.
use super::*;
use crate::testing::Bench;

/// Sends fields of a request; checks the status and whether the body was kept.
fn check(config: &str, fields: &[(Known, &str)], status: u16, kept: bool) {
    let bench = Bench::new(&format!("server {{ {config} }}"));
    let mut x = bench.exchange();
    for (known, value) in fields {
        x.request.head.headers.push_known(*known, value.as_bytes());
    }
    x.disposition.set_status(200);
    x.response.headers.push_known(Known::Etag, b"\"tag\"");
    x.response.headers.push_known(Known::ContentType, b"text/plain");
    x.response.last_modified = Some(784_111_777);
    let body = filter(&mut x, Body::from(bytes::Bytes::from_static(b"body")));
    assert_eq!((x.disposition.status(), !body.is_empty()), (status, kept), "{config} {fields:?}");
    if status == 304 {
        assert!(!x.response.headers.contains(Known::ContentType));
        assert!(x.response.headers.contains(Known::Etag));
    }
}

#[test]
fn validators_decide() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let later = "Sun, 06 Nov 1994 08:49:38 GMT";
    check("", &[], 200, true);
    check("", &[(Known::IfNoneMatch, "\"tag\"")], 304, false);
    check("", &[(Known::IfNoneMatch, "W/\"tag\", \"x\"")], 304, false);
    check("", &[(Known::IfNoneMatch, "\"x\"")], 200, true);
    check("", &[(Known::IfModifiedSince, date)], 304, false);
    check("", &[(Known::IfModifiedSince, later)], 200, true);
    check("if_modified_since before;", &[(Known::IfModifiedSince, later)], 304, false);
    check("if_modified_since off;", &[(Known::IfModifiedSince, date)], 200, true);
    check("", &[(Known::IfModifiedSince, date), (Known::IfNoneMatch, "\"x\"")], 200, true);
    check("", &[(Known::IfMatch, "\"tag\"")], 200, true);
    check("", &[(Known::IfUnmodifiedSince, later)], 200, true);
}

#[test]
fn a_failed_precondition_is_an_error_with_its_page() {
    let config = r#"server {
        location / { return 200 "t"; }
        location /page { error_page 412 /sorry; return 200 "t"; }
        location /always { add_header X-A 1; add_header X-B 2 always; return 200 "t"; }
        location /sorry { return 200 "sorry"; }
    }"#;
    let bench = Bench::new(config);
    for (target, text) in [("/", "412 Precondition"), ("/page", "sorry")] {
        let reply = bench.get_with(target, &["If-Match: \"x\""]);
        assert_eq!(reply.status, 412, "{target}");
        assert!(reply.text().contains(text), "{target} {}", reply.text());
    }
    let reply = bench.get_with("/always", &["If-Match: \"x\""]);
    assert_eq!((reply.field("X-A"), reply.field("X-B")), ("-".into(), "2".into()));
}
