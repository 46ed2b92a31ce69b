//! Braces that belong to a word.

use super::length;

#[test]
fn lengths() {
    let cases = [
        ("a{2}", Some(3)),
        ("a{2}/ {", Some(3)),
        ("a{2,}", Some(4)),
        ("a{1,3}$", Some(5)),
        ("a{,3}", Some(4)),
        (r"\p{L}", Some(3)),
        (r"\x{1f600}", Some(7)),
        ("a{", None),
        ("a{}", None),
        ("a{2", None),
        ("a{,}", None),
        ("a{1,2,3}", None),
        ("a{ 2}", None),
        ("a{L}", None),
        ("a{return 200;}", None),
        ("{2}", None),
        ("a{111111111122222222223333333333444}", None),
    ];
    for (text, expected) in cases {
        let at = text.find('{').unwrap();
        assert_eq!(length(text.as_bytes(), 0, at), expected, "{text}");
    }
}
