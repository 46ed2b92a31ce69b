//! Texts with variables: their syntax and their values.

use proptest::prelude::*;
use tidegate_conf::{Diagnostic, Span};
use tidegate_core::template::{Template, any_is_true};
use tidegate_core::variables::VariableTable;

use crate::tests::Bench;

/// Returns the value of a text with the core's variables for `GET /p/ab?x=1&y=`.
fn value(text: &str) -> String {
    let bench = Bench::new(&format!(
        "server {{ location ~ ^/p/(?<name>.)(.)(z)? {{ do own respond \"{text}\"; }} }}"
    ));
    bench.get("/p/ab?x=1&y=").text().to_owned()
}

#[test]
fn names_end_where_no_name_byte_follows() {
    for (text, expected) in [
        ("plain", "plain"),
        ("$uri", "/p/ab"),
        ("$URI", "/p/ab"),
        ("$uri$args", "/p/abx=1&y="),
        ("a$uri.b", "a/p/ab.b"),
        ("${arg_x}0", "10"),
        ("$arg_x", "1"),
        ("[$arg_x0]", "[]"),
        ("[$arg_y]", "[]"),
        ("$arg_x-$is_args", "1-?"),
        // One digit is a group of the last regular expression; further digits are text.
        ("$1$2", "ab"),
        ("$10", "a0"),
        ("${1}0", "a0"),
        ("$0", "/p/ab"),
        ("[$3][$9]", "[][]"),
        ("$1uri", "auri"),
        ("$name", "a"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn a_dollar_without_a_name_is_an_error() {
    for text in
        ["$", "a$", "$-", "$ a", "${", "${}", "${a", "${a-b}", "${a b}", "$$uri", "a $", "${ uri}"]
    {
        let errors =
            Bench::errors(&format!("server {{ location / {{ do own respond \"{text}\"; }} }}"));
        assert_eq!(errors, ["invalid variable name"], "{text}");
    }
}

fn compiled(text: &str) -> Result<Template, Diagnostic> {
    Template::compile(text.as_bytes(), Span::NONE, &mut VariableTable::new([].into_iter()))
}

#[test]
fn a_text_without_variables_is_a_literal() {
    for (text, literal, is_empty) in [
        ("", Some(""), true),
        ("a b", Some("a b"), false),
        ("a$b", None, false),
        ("$1", None, false),
    ] {
        let template = compiled(text).unwrap();
        assert_eq!(template.literal(), literal.map(str::as_bytes), "{text}");
        assert_eq!(template.is_empty(), is_empty, "{text}");
    }
    assert_eq!(Template::constant(b"$a").literal(), Some(&b"$a"[..]));
    assert!(Template::constant(b"").is_empty() && Template::default().is_empty());
}

#[test]
fn captures_can_be_encoded_and_values_escaped() {
    let bench = Bench::new("server { location ~ ^/(.*)-(x)?$ { do own respond $uri; } }");
    let mut reply = bench.get("/a%20%3f%26+b-");
    let x = &mut reply.x;
    let table = [("$1", "a%20%3F%26%2Bb"), ("[$2]", "[]"), ("a b?$1", "a b?a%20%3F%26%2Bb")];
    for (text, expected) in table {
        let mut out = b"> ".to_vec();
        compiled(text).unwrap().write_encoding_captures(x, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), format!("> {expected}"), "{text}");
    }
    // Literal text is not escaped, and a missing value is distinguished from an empty one.
    for (text, expected) in
        [("a b", "a b"), ("-$1-", "-A ?&+B-"), ("$2|$3", "none|none"), ("$1$2", "A ?&+Bnone")]
    {
        let mut out = b"out ".to_vec();
        compiled(text).unwrap().write_escaped(x, &mut out, |out, start, found| {
            out[start..].make_ascii_uppercase();
            if !found {
                out.extend_from_slice(b"none");
            }
        });
        assert_eq!(String::from_utf8_lossy(&out), format!("out {expected}"), "{text}");
    }
    assert_eq!(compiled("$1").unwrap().body(x), &b"a ?&+b"[..]);
    assert_eq!(compiled("lit").unwrap().body(x), &b"lit"[..]);
}

#[test]
fn a_condition_holds_unless_empty_or_zero() {
    let bench = Bench::new("server { location ~ ^/(.*)$ { do own respond $uri; } }");
    for (target, expected) in
        [("/", false), ("/0", false), ("/00", true), ("/1", true), ("/a", true)]
    {
        let mut reply = bench.get(target);
        let only = [compiled("$1").unwrap()];
        assert_eq!(any_is_true(&only, &mut reply.x), expected, "{target}");
        let several = [compiled("").unwrap(), compiled("0").unwrap(), compiled("$1").unwrap()];
        assert_eq!(any_is_true(&several, &mut reply.x), expected, "{target}");
    }
    assert!(!any_is_true(&[], &mut bench.get("/1").x));
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Group(u8),
    Braced(u8),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        "[0-9a-z_]{0,1}[ -#%-z|~]{0,3}".prop_map(Piece::Text),
        (0..10_u8).prop_map(Piece::Group),
        (0..10_u8).prop_map(Piece::Braced),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each part yields its own value, independent of its neighbours.
    #[test]
    fn the_value_is_that_of_the_pieces(pieces in prop::collection::vec(piece(), 0..8)) {
        let bench = Bench::new("server { location ~ ^/(.)(.) { do own respond $uri; } }");
        let group = |index: u8| ["/ab", "a", "b"].get(usize::from(index)).copied().unwrap_or("");
        let (mut text, mut expected) = (String::new(), String::new());
        for piece in &pieces {
            let (written, value) = match piece {
                Piece::Text(plain) => (plain.clone(), plain.clone()),
                Piece::Group(index) => (format!("${index}"), group(*index).to_owned()),
                Piece::Braced(index) => (format!("${{{index}}}"), group(*index).to_owned()),
            };
            text.push_str(&written);
            expected.push_str(&value);
        }
        let mut reply = bench.get("/ab");
        let value = compiled(&text).unwrap().value(&mut reply.x);
        prop_assert_eq!(String::from_utf8_lossy(&value), expected);
    }

    /// Any bytes compile or are refused, and refused ones have a dollar.
    #[test]
    fn any_text_is_read_or_refused(text in prop::collection::vec(prop_oneof![Just(b'$'), Just(b'{'), Just(b'}'), any::<u8>()], 0..12)) {
        let read = Template::compile(&text, Span::NONE, &mut VariableTable::new([].into_iter()));
        prop_assert!(read.is_ok() || text.contains(&b'$'));
        if !text.contains(&b'$') {
            let read = read.unwrap();
            prop_assert_eq!(read.literal(), Some(&text[..]));
        }
    }
}
