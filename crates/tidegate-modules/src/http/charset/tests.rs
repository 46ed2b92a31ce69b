//! Names and conversions.

use super::*;
use crate::testing::Bench;

const MAPS: &str = "
    default_type text/html;
    charset_map B A { 58 59; }
    charset_map w utf-8 { C0 D090; C1 D091; }
";

/// Returns the response of a location with `directives` for the file's bytes: type, body and `Accept-Ranges`.
fn response(directives: &str, content: &[u8]) -> (String, Vec<u8>, String) {
    let config = format!("{MAPS} server {{ root {{dir}}; location / {{ {directives} }} }}");
    let bench = Bench::with_files(&config, &[("f", "")]);
    std::fs::write(bench.dir.path().join("f"), content).unwrap();
    let reply = bench.get("/f?c=utf-8");
    (reply.field("Content-Type"), reply.body.clone(), reply.field("Accept-Ranges"))
}

#[test]
fn bodies_are_recoded() {
    for (directives, content, content_type, body, ranges) in [
        ("", &b"X"[..], "text/html", &b"X"[..], "bytes"),
        ("charset utf-8;", b"X", "text/html; charset=utf-8", b"X", "bytes"),
        ("charset $arg_c;", b"X", "text/html; charset=utf-8", b"X", "bytes"),
        ("charset $arg_none;", b"X", "text/html", b"X", "bytes"),
        ("charset off;", b"X", "text/html", b"X", "bytes"),
        ("charset A; source_charset a;", b"X", "text/html; charset=A", b"X", "bytes"),
        ("charset A; source_charset B;", b"X\x80", "text/html; charset=A", b"Y?", "bytes"),
        ("charset B; source_charset A;", b"XY", "text/html; charset=B", b"XX", "bytes"),
        (
            "charset utf-8; source_charset w;",
            b"a\xc0\xc1\xc2",
            "text/html; charset=utf-8",
            "aАБ?".as_bytes(),
            "-",
        ),
        (
            "charset w; source_charset utf-8;",
            "aАБВ€😀".as_bytes(),
            "text/html; charset=w",
            b"a\xc0\xc1&#1042;&#8364;&#128512;",
            "-",
        ),
        ("charset w; source_charset utf-8;", b"\xffz\xd0", "text/html; charset=w", b"?z?", "-"),
        // Impossible conversions leave the body unchanged.
        ("charset w; source_charset $arg_c$arg_c;", b"X", "text/html", b"X", "bytes"),
        ("charset A; default_type a/b;", b"X", "a/b", b"X", "bytes"),
        ("charset A; default_type a/b; charset_types a/b;", b"X", "a/b; charset=A", b"X", "bytes"),
        ("charset A; default_type a/b; charset_types *;", b"X", "a/b; charset=A", b"X", "bytes"),
    ] {
        let found = response(directives, content);
        let expected = (content_type.to_owned(), body.to_vec(), ranges.to_owned());
        assert_eq!(found, expected, "{directives}");
    }
}

#[test]
fn errors() {
    for (config, message) in [
        ("charset_map a A { }", "\"charset_map\" between the same charsets \"a\" and \"a\""),
        (
            "charset_map a b { } charset_map b a { }",
            "duplicate \"charset_map\" between \"b\" and \"a\"",
        ),
        ("charset_map a b { xx 10; }", "invalid value \"xx\""),
        ("charset_map a b { 10 x; }", "invalid value \"x\""),
        ("charset_map a b { 10 11 12; }", "invalid parameters number"),
        ("charset_map a utf-8 { 10 D0; }", "invalid value \"D0\""),
        (
            "server { charset x; source_charset y; }",
            "no \"charset_map\" between the charsets \"y\" and \"x\"",
        ),
    ] {
        assert_eq!(Bench::errors(config)[0], message, "{config}");
    }
}

#[test]
fn characters_may_be_cut_anywhere() {
    let text = "aБ€😀z".as_bytes();
    let table = Recoder::FromUtf8([('Б', 0xC1)].into());
    let whole = b"a\xc1&#8364;&#128512;z".to_vec();
    for cut in 0..=text.len() {
        let (mut left, mut out) = (Vec::new(), Vec::new());
        table.recode(&text[..cut], &mut left, &mut out);
        table.recode(&text[cut..], &mut left, &mut out);
        table.finish(&mut left, &mut out);
        assert_eq!(out, whole, "cut at {cut}");
    }
    let (mut left, mut out) = (Vec::new(), Vec::new());
    text.iter().for_each(|byte| table.recode(&[*byte], &mut left, &mut out));
    assert_eq!(out, whole);
}
