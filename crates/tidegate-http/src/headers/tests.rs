//! Tables for names and the ordered list.
use super::{Headers, Known};

fn listed(headers: &Headers) -> String {
    let mut text = Vec::new();
    headers.write_to(&mut text);
    String::from_utf8(text).unwrap().replace("\r\n", "|")
}

#[test]
fn every_known_name_is_found_in_any_case() {
    for name in ["Host", "TE", "ETag", "X-Real-IP", "WWW-Authenticate", "HTTP2-Settings"] {
        let known = Known::of(name.as_bytes());
        assert_eq!(known.name(), name);
        assert_eq!(Known::of(name.to_lowercase().as_bytes()), known);
        assert_eq!(Known::of(name.to_uppercase().as_bytes()), known);
    }
    for name in ["", "Hos", "Hostt", "X-Foo", "content_length", "Other"] {
        assert_eq!(Known::of(name.as_bytes()), Known::Other, "{name}");
    }
    assert_eq!(Known::Other.name(), "");
}

#[test]
fn fields_keep_order_and_spelling() {
    let mut headers = Headers::new();
    headers.push(b"hOST", b"a");
    headers.push(b"X-One", b"1");
    headers.push(b"x-one", b"2");
    headers.push_known(Known::ContentLength, b"5");
    assert_eq!(listed(&headers), "hOST: a|X-One: 1|x-one: 2|Content-Length: 5|");
    assert_eq!(headers.first(Known::Host), Some(&b"a"[..]));
    assert_eq!(headers.first(Known::Date), None);
    assert_eq!(headers.all_named(b"X-ONE").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(headers.first_named(b"host"), Some(&b"a"[..]));
    headers.remove_named(b"X-one");
    assert_eq!(listed(&headers), "hOST: a|Content-Length: 5|");
    headers.remove(Known::Host);
    assert!(!headers.contains(Known::Host));
    assert_eq!(headers.len(), 1);
    headers.clear();
    assert!(headers.is_empty() && headers.text().is_empty());
}

#[test]
fn setting_replaces_all_in_the_first_place() {
    let mut headers = Headers::new();
    for (name, value) in [("Via", "1"), ("Age", "2"), ("Via", "3"), ("A", "4"), ("via", "5")] {
        headers.push(name.as_bytes(), value.as_bytes());
    }
    headers.set_known(Known::Via, b"new");
    assert_eq!(listed(&headers), "Via: new|Age: 2|A: 4|");
    headers.set_known(Known::Server, b"t");
    assert_eq!(listed(&headers), "Via: new|Age: 2|A: 4|Server: t|");
    headers.set_known(Known::Server, b"u");
    assert_eq!(listed(&headers), "Via: new|Age: 2|A: 4|Server: u|");
    headers.set_named(b"a", b"5");
    assert_eq!(listed(&headers), "Via: new|Age: 2|Server: u|a: 5|");
}
