//! Printed words are read as the same words.

use super::print_word;
use crate::source::Span;
use crate::tree::Word;

#[test]
fn words() {
    let table: &[(&str, bool, &str)] = &[
        ("a", false, "a"),
        ("a", true, "\"a\""),
        ("", false, "\"\""),
        ("a b", false, "\"a b\""),
        ("a\"b", false, "a\"b"),
        ("\"b", false, "\"\\\"b\""),
        ("a{2}", false, "\"a{2}\""),
        ("\\.php$", false, "\\.php$"),
        ("\\", false, "\\\\"),
        ("\\n", false, "\\\\n"),
        ("a\nb", false, "\"a\\nb\""),
        ("#a", false, "\"#a\""),
        ("a#", false, "a#"),
    ];
    for (bytes, quoted, expected) in table {
        let word = Word { bytes: bytes.as_bytes().to_vec(), span: Span::NONE, quoted: *quoted };
        let mut out = Vec::new();
        print_word(&word, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), *expected);
    }
}
