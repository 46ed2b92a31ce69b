//! Strings and numbers: tables. Their validity for any bytes is a property of the log that uses them.

use super::{is_number, write_string};

#[test]
fn strings_are_escaped() {
    for (value, expected) in [
        (&b""[..], "\"\""),
        (b"plain /path?a=b", "\"plain /path?a=b\""),
        (b"\"\\\n\r\t\x08\x0c", "\"\\\"\\\\\\n\\r\\t\\b\\f\""),
        (b"\x00\x1b[31m\x7f", "\"\\u0000\\u001b[31m\\u007f\""),
        ("é\u{9b}\u{2028}\u{2029}😀".as_bytes(), "\"é\\u009b\\u2028\\u2029😀\""),
        (b"\xff\xfea\xc3", "\"\u{fffd}\u{fffd}a\u{fffd}\""),
    ] {
        let mut out = Vec::new();
        write_string(value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn numbers_are_those_of_json() {
    for text in ["0", "-0", "200", "0.005", "1e3", "1.5E-7", "18446744073709551615", "-1.0"] {
        assert!(is_number(text.as_bytes()), "{text}");
    }
    for text in [
        "",
        "-",
        "+1",
        "01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1e400",
        "0x10",
        "1 ",
        " 1",
        "NaN",
        "Infinity",
        "1,2",
        "0.001, 0.002",
        "1111111111111111111111111",
    ] {
        assert!(!is_number(text.as_bytes()), "{text}");
    }
}
