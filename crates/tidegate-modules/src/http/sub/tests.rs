//! `sub`: responses with replaced text, whole and in chunks.

use super::search::{Pair, Replacer};
use crate::testing::Bench;

fn replaced(pairs: &[(&str, &str)], once: bool, pieces: &[&[u8]]) -> String {
    let pair = |(pattern, replacement): &(&str, &str)| Pair {
        pattern: pattern.as_bytes().to_vec(),
        replacement: replacement.as_bytes().to_vec(),
    };
    let mut replacer = Replacer::new(pairs.iter().map(pair).collect(), once);
    let mut out = Vec::new();
    pieces.iter().for_each(|piece| replacer.push(piece, &mut out));
    replacer.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// Checks a text in one chunk, split in two at each offset, and byte by byte.
fn check(pairs: &[(&str, &str)], once: bool, text: &str, expected: &str) {
    let bytes = text.as_bytes();
    assert_eq!(replaced(pairs, once, &[bytes]), expected, "{text}");
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(replaced(pairs, once, &[first, second]), expected, "{text} cut at {cut}");
    }
    let single: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(replaced(pairs, once, &single), expected, "{text} byte by byte");
}

#[test]
fn strings_are_replaced_wherever_the_text_is_cut() {
    check(&[("foo", "bar")], true, "foofoo", "barfoo");
    check(&[("foo", "bar")], false, "FOOfoOfo", "barbarfo");
    check(&[("aab", "+")], false, "aaaab aab ab", "aa+ + ab");
    check(&[("abac", "+")], true, "ababac", "ab+");
    check(&[("AAB", "+"), ("yyz", "-")], false, "aabXyYzaab", "+X-+");
    check(&[("aab", "+"), ("yyz", "-")], true, "aabyyzaabyyz", "+-aabyyz");
    check(&[("aabb", "+"), ("aaabb", "-")], false, "aaabbaabb", "-+");
    check(&[("a", ""), ("b", "a")], false, "aabba", "aa");
    check(&[("x", "xx")], false, "axbx", "axxbxx");
    check(&[("паттерн", "r"), ("模様", "s")], false, "-模様паттерн模-", "-sr模-");
}

#[test]
fn the_first_of_several_at_a_place_is_taken() {
    check(&[("ab", "1"), ("abc", "2")], false, "abcab", "1c1");
    check(&[("abc", "2"), ("ab", "1")], false, "abcab", "21");
    // The beginning of a longer pattern that does not match is searched for shorter ones.
    check(&[("abcd", "2"), ("bc", "1")], false, "abcx abc", "a1x a1");
}

#[test]
fn a_response_with_replacements_has_no_length_and_no_validators() {
    let bench = Bench::with_files(
        "server { root {dir}; default_type text/html; sub_filter $arg_a '<$arg_b>';
            location /keep { sub_filter_last_modified on; try_files /a.html =404; } }",
        &[("a.html", "one two two"), ("a.txt", "two")],
    );
    let reply = bench.get("/a.html?a=TWO&b=2");
    assert_eq!(reply.text(), "one <2> two");
    for name in ["Last-Modified", "ETag", "Accept-Ranges"] {
        assert_eq!(reply.field(name), "-", "{name}");
    }
    assert_eq!(reply.x.response.content_length, None);
    let kept = bench.get("/keep?a=two&b=2");
    assert!(kept.field("ETag").starts_with("W/") && kept.field("Last-Modified") != "-");
    let other = bench.get("/a.html?a=&b=2");
    assert_eq!((other.text(), other.field("ETag").starts_with('"')), ("one two two", true));
}

#[test]
fn only_responses_of_the_types() {
    let bench = Bench::new(
        "sub_filter a b; server {
            location /html { default_type text/html; return 200 a; }
            location /plain { default_type text/plain; return 200 a; }
            location /types { sub_filter_types text/plain; default_type text/plain; return 200 a; }
            location /encoded { default_type text/html; add_header Content-Encoding br; return 200 a; }
        }",
    );
    for (path, expected) in [("/html", "b"), ("/plain", "a"), ("/types", "b"), ("/encoded", "a")] {
        assert_eq!(bench.text(path), expected, "{path}");
    }
    assert_eq!(Bench::errors("sub_filter '' x; server { }"), ["empty search pattern"]);
}
