//! The hash and the shares, compared with a running nginx.

use super::parse_percent;
use crate::testing::Bench;

#[test]
fn texts_fall_into_the_shares_that_nginx_puts_them_into() {
    let bench = Bench::new(
        "split_clients $arg_s $v { 12.5% a; 0.01% z; 30% b; 25.55% c; * d; }
         split_clients $arg_s $w { 100% a; }
         split_clients $arg_s $y { .01% a$uri; }
         server { location / { return 200 \"$v$w[$y]\"; } }",
    );
    let words = [
        ("a", "c"),
        ("b", "c"),
        ("c", "b"),
        ("abc", "a"),
        ("abcd", "b"),
        ("abcde", "b"),
        ("hello", "d"),
        ("x1", "c"),
        ("x2", "a"),
        ("x3", "d"),
        ("x4", "d"),
        ("x5", "c"),
    ];
    for (text, expected) in words {
        assert_eq!(bench.text(&format!("/?s={text}")), format!("{expected}a[]"), "{text}");
    }
    // The empty text's hash is zero: it is in the first share. Values are no templates.
    assert_eq!(bench.text("/"), "aa[a$uri]");
}

#[test]
fn percentages_are_read() {
    for (text, expected) in [
        ("100%", Some(10_000)),
        ("0.01%", Some(1)),
        ("51.2%", Some(5120)),
        ("7%", Some(700)),
        (".5%", Some(50)),
        ("0%", None),
        ("0.001%", None),
        ("100.01%", None),
        ("50", None),
        ("%", None),
        ("-1%", None),
        ("1.2.3%", None),
    ] {
        assert_eq!(parse_percent(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn errors() {
    for (config, expected) in [
        ("split_clients $uri $x { 50% a; 51% b; }", "percent total is greater than 100%"),
        ("split_clients $uri $x { * a; 1% b; }", "percent total is greater than 100%"),
        ("split_clients $uri $x { 50 a; }", "invalid percent value \"50\""),
        ("split_clients $uri $x { 50%; }", "invalid number of parameters"),
        ("split_clients $uri x { 10% a; }", "invalid variable name \"x\""),
        ("split_clients $uri $uri { 10% a; }", "the duplicate \"uri\" variable"),
        ("split_clients $nope $x { 10% a; }", "unknown \"nope\" variable"),
    ] {
        assert_eq!(Bench::errors(config)[0], expected, "{config}");
    }
    Bench::new("split_clients $uri $x { * a; * b; } split_clients $uri $y { 100% a; * b; }");
}
