//! Tables and properties of target normalisation and escapes.
use super::{Escape, escape, escaped_len, normalise, unescape};
use proptest::prelude::*;

fn check(target: &str, merge_slashes: bool, expected: Option<(&str, &str)>) {
    let mut decoded = Vec::new();
    let uri = normalise(target.as_bytes(), merge_slashes, &mut decoded).ok();
    let found = uri.map(|uri| {
        let path = uri.path(target.as_bytes(), &decoded).to_vec();
        let args = uri.args(target.as_bytes()).to_vec();
        (String::from_utf8(path).unwrap(), String::from_utf8(args).unwrap())
    });
    let found = found.as_ref().map(|(path, args)| (path.as_str(), args.as_str()));
    assert_eq!(found, expected, "{target}");
}

#[test]
fn targets_become_paths_and_arguments() {
    for (target, path, args) in [
        ("/", "/", ""),
        ("/a/b.html", "/a/b.html", ""),
        ("/foo/bar/.?args", "/foo/bar/", "args"),
        ("/foo/bar/.#frag", "/foo/bar/", ""),
        ("/foo/bar/..?args", "/foo/", "args"),
        ("/foo/bar/..#frag", "/foo/", ""),
        ("/foo/bar/.", "/foo/bar/", ""),
        ("/foo/bar/..", "/foo/", ""),
        ("/a/../b/./c//d", "/b/c/d", ""),
        ("/a/...", "/a/...", ""),
        ("/a/..b/.c", "/a/..b/.c", ""),
        ("?args#frag", "/", "args"),
        ("", "/", ""),
        ("/%02", "/\u{2}", ""),
        ("/a%2Fb%2f..%2Fc", "/a/c", ""),
        ("/%2e%2E/", "!", ""),
        ("/a/%2e%2E/b", "/b", ""),
        ("/a%3Fb%23c?d?e#f?g", "/a?b#c", "d?e"),
        ("/a+b%20c", "/a+b c", ""),
        ("/a?b%zz", "/a", "b%zz"),
        ("/a#b?c", "/a", ""),
        ("/%", "!", ""),
        ("/foo/bar%1", "!", ""),
        ("/%g0", "!", ""),
        ("/%00", "!", ""),
        ("/..", "!", ""),
        ("/a/../..", "!", ""),
        ("//../a", "!", ""),
    ] {
        check(target, true, (path != "!").then_some((path, args)));
    }
}

#[test]
fn slashes_stay_without_merge_slashes() {
    for (target, path) in [
        ("/foo//../bar", "/foo/bar"),
        ("/foo///../bar", "/foo//bar"),
        ("/a//b", "/a//b"),
        ("/a//./b/.", "/a//b/"),
        ("//../a", "/a"),
    ] {
        check(target, false, Some((path, "")));
    }
}

#[test]
fn modes_encode_what_they_must() {
    for (mode, expected) in [
        (Escape::Uri, "a%20/%3F&+;%25%7B%22~%FF"),
        (Escape::Args, "a%20/%3F%26%2B%3B%25%7B%22~%FF"),
        (Escape::Component, "a%20%2F%3F%26%2B%3B%25%7B%22~%FF"),
        (Escape::Html, "a%20/?&+;%25{%22~%FF"),
        (Escape::Redirect, "a%20/?&+;%25{%22~%FF"),
    ] {
        let mut out = Vec::new();
        let input = b"a /?&+;%{\"~\xff";
        escape(input, mode, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(escaped_len(input, mode), expected.len());
    }
    let mut out = Vec::new();
    escape(b"a b%\xff\x7f\x01", Escape::Memcached, &mut out);
    assert_eq!(out, b"a%20b%25\xff\x7f%01");
    out.clear();
    unescape(b"%41%4g%+%2", &mut out);
    assert_eq!(out, b"A%4g%+%2");
    out.clear();
    super::escape_html(b"<a href=\"x&y\">", &mut out);
    assert_eq!(out, b"&lt;a href=&quot;x&amp;y&quot;&gt;");
}

proptest! {
    #[test]
    fn a_normalised_path_is_stable(target in "/[a.%/2eEF?#]{0,24}", merge in any::<bool>()) {
        let mut decoded = Vec::new();
        if let Ok(uri) = normalise(target.as_bytes(), merge, &mut decoded) {
            let path = uri.path(target.as_bytes(), &decoded).to_vec();
            prop_assert_eq!(path[0], b'/');
            prop_assert!(!path.split(|byte| *byte == b'/').any(|part| part == b".." || part == b"."));
            let mut escaped = Vec::new();
            escape(&path, Escape::Uri, &mut escaped);
            let mut again = Vec::new();
            let uri = normalise(&escaped, merge, &mut again).unwrap();
            prop_assert_eq!(uri.path(&escaped, &again), &path[..]);
        }
    }

    #[test]
    fn plain_targets_are_their_own_paths(target in "(/[a-z.%?#/]{0,3}){1,20}") {
        // Decoding gives the same: an empty argument part makes it take the other path.
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for merge in [false, true] {
            let short = normalise(target.as_bytes(), merge, &mut one);
            let with_end = format!("{target}#");
            let long = normalise(with_end.as_bytes(), merge, &mut other);
            prop_assert_eq!(short.is_ok(), long.is_ok());
            if let (Ok(short), Ok(long)) = (short, long) {
                let path = short.path(target.as_bytes(), &one);
                prop_assert_eq!(path, long.path(with_end.as_bytes(), &other));
                prop_assert_eq!(short.args(target.as_bytes()), long.args(with_end.as_bytes()));
            }
        }
    }

    #[test]
    fn escapes_are_undone(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        for mode in [Escape::Uri, Escape::Args, Escape::Component, Escape::Html] {
            let (mut escaped, mut back) = (Vec::new(), Vec::new());
            escape(&bytes, mode, &mut escaped);
            unescape(&escaped, &mut back);
            prop_assert_eq!(&back, &bytes);
        }
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        crate::fuzzing::fuzz_uri(&bytes);
    }
}
