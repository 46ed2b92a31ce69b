//! Cookies by name.
use super::find;
use crate::headers::Headers;

#[test]
fn cookies_are_found() {
    let mut headers = Headers::new();
    headers.push(b"Cookie", b"foo=1, qux=0; bar=2;empty=; noequals");
    headers.push(b"cookie", b"bazz = 3 ; foo=4; eq=a=b");
    for (name, expected) in [
        ("foo", Some("1, qux=0")),
        ("FOO", Some("1, qux=0")),
        ("bar", Some("2")),
        ("bazz", Some("3")),
        ("eq", Some("a=b")),
        ("empty", Some("")),
        ("qux", None),
        ("noequals", None),
        ("", None),
    ] {
        assert_eq!(find(&headers, name.as_bytes()), expected.map(str::as_bytes), "{name}");
    }
}
