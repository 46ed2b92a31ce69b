//! The table is complete and its helpers are right.
use super::*;

#[test]
fn no_row_is_lost_or_twice() {
    let mut names: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!((names.len(), names.contains(&"")), (before, false));
}

#[test]
fn fields_are_found_by_suffix_and_joined() {
    let mut headers = tidegate_http::Headers::new();
    for (name, value) in
        [("X-Foo", "1"), ("Cookie", "a"), ("x-foo", "2"), ("Cookie", "b"), ("X_Bar", "3")]
    {
        headers.push(name.as_bytes(), value.as_bytes());
    }
    for (suffix, expected) in [
        ("x_foo", Some("1, 2")),
        ("cookie", Some("a; b")),
        ("x_bar", Some("3")),
        ("x", None),
        ("", None),
    ] {
        let mut out = Vec::new();
        let found = put_fields(&headers, suffix.as_bytes(), &mut out);
        assert_eq!(found.then_some(&out[..]), expected.map(str::as_bytes), "{suffix}");
    }
}

#[test]
fn seconds_have_three_decimals() {
    let mut out = Vec::new();
    put_seconds(1_234_005, &mut out);
    assert_eq!(out, b"1234.005");
}
