//! Preconditions as tables.
use super::*;

const MODIFIED: i64 = 784_111_777;
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn check(fields: &[(&str, &str)], mode: IfModifiedSince, expected: Condition) {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.push(name.as_bytes(), value.as_bytes());
    }
    let found = evaluate(&headers, Some(b"\"a\""), Some(MODIFIED), mode);
    assert_eq!(found, expected, "{fields:?} {mode:?}");
}

#[test]
fn dates_decide() {
    use Condition::*;
    use IfModifiedSince::*;
    let since = "If-Modified-Since";
    let unmodified = "If-Unmodified-Since";
    for (name, date, mode, expected) in [
        (since, SAME, Exact, NotModified),
        (since, LATER, Exact, Proceed),
        (since, LATER, Before, NotModified),
        (since, SAME, Before, NotModified),
        (since, EARLIER, Before, Proceed),
        (since, SAME, Off, Proceed),
        (since, "never", Before, Proceed),
        (unmodified, SAME, Exact, Proceed),
        (unmodified, LATER, Exact, Proceed),
        (unmodified, EARLIER, Exact, Failed),
        (unmodified, "never", Exact, Proceed),
    ] {
        check(&[(name, date)], mode, expected);
    }
}

#[test]
fn entity_tags_decide() {
    use Condition::*;
    let (none_match, if_match) = ("If-None-Match", "If-Match");
    for (name, value, expected) in [
        (none_match, "\"a\"", NotModified),
        (none_match, "W/\"a\"", NotModified),
        (none_match, "\"foo\"", Proceed),
        (none_match, "\"foo\", \"bar\", \"a\" , \"baz\"", NotModified),
        (none_match, "\"x,\\\", \"a\"", NotModified),
        (none_match, "*", NotModified),
        (none_match, "\"a", Proceed),
        (none_match, "", Proceed),
        (if_match, "\"a\"", Proceed),
        (if_match, "\"foo\"", Failed),
        (if_match, "\"foo\", \"bar\", \t\"a\" , \"baz\"", Proceed),
        (if_match, "*", Proceed),
        (if_match, "W/\"a\"", Failed),
    ] {
        check(&[(name, value)], IfModifiedSince::Exact, expected);
    }
    let both = |tag| [("If-None-Match", tag), ("If-Modified-Since", SAME)];
    check(&both("\"a\""), IfModifiedSince::Exact, NotModified);
    check(&both("\"b\""), IfModifiedSince::Exact, Proceed);
    check(&[], IfModifiedSince::Exact, Proceed);
}

#[test]
fn a_weak_tag_never_matches_strongly() {
    assert!(!matches_any(b"W/\"a\", \"a\"", Some(b"W/\"a\""), Comparison::Strong));
    assert!(matches_any(b"W/\"b\", \"a\"", Some(b"W/\"a\""), Comparison::Weak));
    assert!(!matches_any(b"\"a\"", None, Comparison::Weak));
}

#[test]
fn etags_are_hexadecimal() {
    let mut out = Vec::new();
    write_etag(0x59a5_401c, 8, &mut out);
    write_etag(0, 0, &mut out);
    write_etag(0x10, u64::MAX, &mut out);
    assert_eq!(out, b"\"59a5401c-8\"\"0-0\"\"10-ffffffffffffffff\"");
}

#[test]
fn entity_tags_go_before_dates_in_the_order_of_the_rfc() {
    use Condition::*;
    use IfModifiedSince::*;
    let (old, tag, other) = ("Thu, 01 Jan 1970 00:00:00 GMT", "\"a\"", "\"b\"");
    let both = [("If-None-Match", tag), ("If-Modified-Since", old)];
    check(&both, Before, Proceed);
    check(&both, Rfc9110, NotModified);
    check(&both[1..], Rfc9110, Proceed);
    check(&[("If-Modified-Since", SAME)], Rfc9110, NotModified);
    check(&[("If-None-Match", other), ("If-Modified-Since", SAME)], Rfc9110, Proceed);
    let both = [("If-Match", tag), ("If-Unmodified-Since", old)];
    check(&both, Before, Failed);
    check(&both, Rfc9110, Proceed);
    check(&both[1..], Rfc9110, Failed);
}
