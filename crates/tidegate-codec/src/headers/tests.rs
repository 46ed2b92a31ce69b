//! Tables for names and the ordered list.
use super::{Headers, Known};
use proptest::prelude::*;

fn listed(headers: &Headers) -> String {
    let mut text = Vec::new();
    headers.write_to(&mut text);
    String::from_utf8(text).unwrap().replace("\r\n", "|")
}

#[test]
fn every_known_name_is_found_in_any_case() {
    for name in ["Host", "TE", "ETag", "X-Real-IP", "WWW-Authenticate", "HTTP2-Settings"] {
        assert_eq!(Known::of(name.as_bytes()).name(), name);
    }
    for known in Known::all() {
        let name = known.name();
        assert_eq!(Known::of(name.as_bytes()), known);
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
fn text_between_fields_belongs_to_none() {
    let mut headers = Headers::new();
    let line = headers.push_text(b"GET / HTTP/2.0");
    headers.push_as(Known::Host, b"host", b"a");
    assert_eq!(headers.first(Known::Host), Some(&b"a"[..]));
    assert_eq!(line.of(headers.text()), b"GET / HTTP/2.0");
    assert_eq!(listed(&headers), "host: a|");
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
    headers.remove_named(b"a");
    assert_eq!(listed(&headers), "Via: new|Age: 2|Server: u|");
}

#[test]
fn a_known_name_is_recognised_before_its_colon() {
    for known in Known::all() {
        let line = format!("{}: some value: more", known.name().to_lowercase());
        let seen = Known::before_colon(line.as_bytes());
        assert_eq!(seen, Some((known, known.name().len())), "{line}");
    }
    for line in
        [": no name at all", "Hos: is no name", "Host : is odd", "X-Other: 0123456", "TE: x"]
    {
        assert_eq!(Known::before_colon(line.as_bytes()), None, "{line}");
    }
}

proptest! {
    /// Reading by words gives the same as reading by bytes.
    #[test]
    fn names_by_words_are_names_by_bytes(line in "((Host|te|ETAG|Content-Length|X)[ :a\u{1}\r-]{0,3}){0,4}") {
        let line = line.as_bytes();
        if let Some((known, len)) = Known::before_colon(line) {
            prop_assert_eq!(Some(len), line.iter().position(|byte| *byte == b':'));
            prop_assert_eq!(known, Known::of(&line[..len]));
        }
    }

    #[test]
    fn the_list_is_a_plain_list(
        steps in proptest::collection::vec((0u8..4, "(Via|via|Age|X|x|Y)", "[a-z]{0,3}"), 0..12),
    ) {
        let mut headers = Headers::new();
        let mut model: Vec<(String, String)> = Vec::new();
        for (step, name, value) in steps {
            let same = |other: &str| other.eq_ignore_ascii_case(&name);
            match step {
                0 | 1 => {
                    headers.push(name.as_bytes(), value.as_bytes());
                    model.push((name, value));
                }
                2 => {
                    headers.remove_named(name.as_bytes());
                    model.retain(|(other, _)| !same(other));
                }
                _ => {
                    headers.set_known(Known::of(name.as_bytes()), value.as_bytes());
                    let known = Known::of(name.as_bytes());
                    if known != Known::Other {
                        let at = model.iter().position(|(other, _)| same(other));
                        let at = at.unwrap_or(model.len());
                        let entry = (known.name().to_owned(), value);
                        if at < model.len() { model[at] = entry } else { model.push(entry) }
                        let mut index = 0;
                        model.retain(|(other, _)| {
                            index += 1;
                            !same(other) || index == at + 1
                        });
                    }
                }
            }
        }
        let expected: Vec<String> = model.iter().map(|(n, v)| format!("{n}: {v}|")).collect();
        prop_assert_eq!(listed(&headers), expected.concat());
        for name in ["via", "AGE", "x", "y"] {
            let first = model.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            let first = first.map(|(_, value)| value.as_bytes());
            prop_assert_eq!(headers.first_named(name.as_bytes()), first);
            prop_assert_eq!(headers.all_named(name.as_bytes()).next(), first);
        }
    }
}
