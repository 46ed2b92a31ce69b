//! Fields of responses.

use super::Response;
use crate::limits::{LINKS_MAX, NONCE_BYTES_MAX};

#[test]
fn fields_that_are_used() {
    let fields = [
        ("LOCATION", " https://ca.test/order/1 "),
        ("Replay-Nonce", "abc_-9"),
        ("retry-after", "5"),
        ("Link", "<https://ca.test/dir>;rel=\"index\""),
        (
            "link",
            "<https://ca.test/a>; rel=alternate, <https://ca.test/b,c>; title=\"x, y\"; Rel=\"up ALTERNATE\"",
        ),
        ("server", "x"),
    ];
    let response = Response::new(201, fields, Vec::new());
    assert!(response.is_success());
    assert_eq!(response.location(), Some("https://ca.test/order/1"));
    assert_eq!(response.nonce(), Some("abc_-9"));
    assert_eq!(response.retry_after(), Some("5"));
    let alternates: Vec<_> = response.links("alternate").collect();
    assert_eq!(alternates, ["https://ca.test/a", "https://ca.test/b,c"]);
    assert_eq!(response.links("index").count(), 1);
}

#[test]
fn strange_fields_are_dropped() {
    let long = "a".repeat(NONCE_BYTES_MAX + 1);
    for nonce in ["", "a b", "a\"", "a=", "ä", long.as_str()] {
        assert_eq!(Response::new(200, [("replay-nonce", nonce)], Vec::new()).nonce(), None);
    }
    let huge = format!("<https://ca.test/{}>; rel=next", "a".repeat(4000));
    let many = "<a>;rel=next,".repeat(LINKS_MAX + 9);
    let cases = [
        (huge.as_str(), 0),
        (many.as_str(), LINKS_MAX),
        ("<", 0),
        ("<a", 0),
        ("<a>", 0),
        ("<a>;rel", 0),
        ("a; rel=next", 0),
        ("<a>; rel=\"next", 1),
        (",,<a>;rel=next", 1),
        ("<a>;rel=next;é=\"é,", 1),
    ];
    for (value, count) in cases {
        let response = Response::new(200, [("link", value)], Vec::new());
        assert_eq!(response.links("next").count(), count, "{value:.60}");
    }
}
