//! The scope of purge requests, and the tags of responses.

use tidegate_cache::{Key, Scope};
use tidegate_codec::Headers;

use crate::cache::meta::{Meta, bearing, tags_of};
use crate::cache::purge::target::{PurgeTarget, target_of};
use crate::testing::Bench;

#[test]
fn keys_prefixes_and_tags() {
    let key = |text: &str| Some(PurgeTarget::Key(Key::new(text.as_bytes())));
    let prefix = |text: &str| Some(PurgeTarget::All(vec![Scope::Prefix(text.as_bytes().into())]));
    let tags = |list: &[&str]| {
        Some(PurgeTarget::All(list.iter().map(|tag| Scope::Tag(tag.as_bytes().into())).collect()))
    };
    for (text, named, expected) in [
        ("/a", "", key("/a")),
        ("/a/*", "", prefix("/a/")),
        ("*", "", prefix("")),
        ("/a*b", "", key("/a*b")),
        ("/a*", " ", prefix("/a")),
        ("/a", "t", tags(&["t"])),
        ("/a*", " t,u  v, ", tags(&["t", "u", "v"])),
    ] {
        assert_eq!(
            target_of(text.as_bytes().to_vec(), named.as_bytes()),
            expected,
            "{text} {named}"
        );
    }
    assert_eq!(target_of(b"/a".to_vec(), "t ".repeat(101).as_bytes()), None);
}

#[test]
fn tags_of_responses() {
    let names: Vec<Box<[u8]>> = vec![b"Cache-Tag"[..].into(), b"surrogate-key"[..].into()];
    for (fields, expected) in [
        (vec![], ""),
        (vec![("Cache-Tag", "a,b"), ("Surrogate-Key", "c d")], "a b c d"),
        (vec![("cache-tag", " a ,, b")], "a b"),
        (vec![("Surrogate-Key", "c"), ("Surrogate-Key", "d"), ("X-Key", "e")], "c d"),
    ] {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(name.as_bytes(), value.as_bytes()));
        assert_eq!(tags_of(&headers, &names), expected.as_bytes(), "{fields:?}");
    }
    let mut headers = Headers::new();
    (0..4000).for_each(|_| headers.push(b"Cache-Tag", b"12345"));
    assert!(tags_of(&headers, &names).len() <= 16 * 1024);
}

#[test]
fn metadata_contain_the_terms_of_purges() {
    let mut meta = Meta::of(200, b"OK", &Headers::new(), vec![], vec![], None);
    meta.requested_at = 7;
    meta.tags = b"a b".to_vec();
    let encoded = meta.encode();
    let read = bearing(&encoded).expect("readable");
    assert_eq!((read.requested_at, read.tags), (7, &b"a b"[..]));
    let decoded = Meta::decode(&encoded).expect("readable");
    assert_eq!((decoded.requested_at, &decoded.tags[..]), (7, &b"a b"[..]));
    assert_eq!(bearing(&encoded[..20]), None);
}

#[test]
fn parameters_of_the_purger() {
    let path =
        |more: &str| format!("proxy_cache_path {{dir}}/c keys_zone=z:1m {more}; server {{ }}");
    Bench::new(&path("purger=on purger_files=5 purger_sleep=1s purger_threshold=10ms"));
    for (more, error) in [
        ("purger=yes", "invalid purger value \"purger=yes\", it must be \"on\" or \"off\""),
        ("purger_files=x", "invalid purger_files value \"purger_files=x\""),
        ("purger_sleep=x", "invalid purger_sleep value \"purger_sleep=x\""),
    ] {
        assert_eq!(Bench::errors(&path(more)), [error], "{more}");
    }
}
