//! Keys, paths and the file header.

use std::path::Path;

use bytes::Bytes;
use proptest::prelude::*;

use super::support::{key, times};
use crate::format::{FormatError, Header, Layout, encode, fuzz_header};
use crate::key::{is_temporary_name, temporary_name};
use crate::{Key, KeyHash, Levels, Times};

#[test]
fn paths_are_as_documented() {
    // The example of `proxy_cache_path` in nginx's manual.
    let hash = KeyHash::from_hexadecimal("b7f54b2df7773722d382f4809d65029c").expect("hash");
    let check = |levels: Levels, expected: &str| {
        assert_eq!(levels.path(Path::new("/data/nginx/cache"), &hash), Path::new(expected));
    };
    let parse = |text| Levels::parse(text).expect("levels");
    check(parse("1:2"), "/data/nginx/cache/c/29/b7f54b2df7773722d382f4809d65029c");
    check(parse("2:2:1"), "/data/nginx/cache/9c/02/5/b7f54b2df7773722d382f4809d65029c");
    check(Levels::default(), "/data/nginx/cache/b7f54b2df7773722d382f4809d65029c");
    assert_eq!(key("http://localhost/").hash().hexadecimal().len(), 32);
    assert_eq!(key("").hash().hexadecimal(), "d41d8cd98f00b204e9800998ecf8427e");
}

#[test]
fn levels_refuse_what_the_directive_does_not_allow() {
    for wrong in ["", "3", "0", "1:", "1:2:1:1", "1:2:x", ":1", "12"] {
        assert_eq!(Levels::parse(wrong), None, "{wrong}");
    }
    let levels = Levels::parse("1:2").expect("levels");
    let check = |depth, name, expected| assert_eq!(levels.is_directory(depth, name), expected);
    check(0, "a", true);
    check(0, "ab", false);
    check(1, "ab", true);
    check(1, "AB", false);
    check(2, "ab", false);
}

#[test]
fn temporary_names_are_recognised() {
    let name = temporary_name(key("x").hash(), 7);
    assert!(is_temporary_name(&name), "{name}");
    let hash = key("x").hash().hexadecimal();
    for other in [hash.as_str(), "0000000001", &format!("{hash}.1"), &format!("{hash}.000000000x")]
    {
        assert!(!is_temporary_name(other), "{other}");
    }
}

fn file(key: &Key, metadata: &[u8], body: &[u8]) -> Vec<u8> {
    let layout = Layout::for_new(key, metadata).expect("layout");
    let mut bytes = encode(key, layout, metadata, times(5), body.len() as u64);
    bytes.extend_from_slice(body);
    bytes
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written(
        text in prop::collection::vec(any::<u8>(), 0..200),
        metadata in prop::collection::vec(any::<u8>(), 0..2000),
        body in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let key = Key::new(text);
        let bytes = Bytes::from(file(&key, &metadata, &body));
        let header = Header::parse(&bytes).expect("header");
        prop_assert_eq!(header.hash, *key.hash());
        prop_assert_eq!(&header.key_text[..], &key.text()[..]);
        prop_assert_eq!(&header.metadata[..], &metadata[..]);
        prop_assert_eq!(header.times, times(5));
        prop_assert_eq!(&bytes[header.body_start as usize..], &body[..]);
        let sums = crate::sums::sums_bytes(body.len() as u64);
        prop_assert_eq!(header.file_bytes(), Some(bytes.len() as u64 + sums));
        fuzz_header(&bytes);
    }

    #[test]
    fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), change in 1u8..) {
        let key = key("GET example.org/");
        let mut bytes = file(&key, b"metadata", b"");
        let at = at.index(bytes.len());
        let before = Header::parse(&bytes.clone().into()).expect("header");
        bytes[at] ^= change;
        fuzz_header(&bytes);
        // The second slot and the padding have no effect; everything else counts.
        if let Ok(after) = Header::parse(&bytes.into()) {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn any_bytes_are_read_safely(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_header(&bytes);
    }

    /// However a renewal is torn, the old or the new metadata are found.
    #[test]
    fn a_torn_renewal_leaves_a_whole_header(
        first in prop::collection::vec(any::<u8>(), 0..100),
        renewals in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..100), any::<prop::sample::Index>()), 1..6),
    ) {
        let key = key("k");
        let mut bytes = file(&key, &first, b"body");
        let (mut metadata, mut known) = (first, times(5));
        for (at, (next, cut)) in renewals.into_iter().enumerate() {
            let header = Header::parse(&bytes.clone().into()).expect("header");
            let next_times = times(100 + at as u64);
            let Some((offset, slot)) = header.renewal(&next, next_times) else { continue };
            let cut = cut.index(slot.len() + 1);
            bytes[offset as usize..offset as usize + cut].copy_from_slice(&slot[..cut]);
            let found = Header::parse(&bytes.clone().into()).expect("header");
            let now: (&[u8], Times) = (&found.metadata, found.times);
            prop_assert!(now == (&metadata, known) || now == (&next, next_times));
            if cut == slot.len() {
                prop_assert_eq!(now, (&next[..], next_times));
            }
            (metadata, known) = (now.0.to_vec(), now.1);
        }
    }
}

#[test]
fn short_headers_say_what_they_need() {
    let bytes = Bytes::from(file(&key("k"), b"metadata", b""));
    for length in 0..bytes.len() {
        match Header::parse(&bytes.slice(..length)) {
            Err(FormatError::Short(needed)) => assert!(needed > length && needed <= bytes.len()),
            other => panic!("{length}: {other:?}"),
        }
    }
}
