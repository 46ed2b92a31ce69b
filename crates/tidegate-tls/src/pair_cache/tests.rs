//! The rules of the cache, by the certificates that are loaded through it.

use std::time::Duration;

use tidegate_rt::clock;

use proptest::prelude::*;

use super::PairCache;
use crate::pair_files::tests::{Scratch, loaded, own};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn objects_are_used_again_until_they_are_too_old() {
    let scratch = Scratch::new("valid");
    let cache = PairCache::new(4, Duration::MAX, 10 * SECOND);
    let start = clock::now();
    let load = |after: u32| loaded(&scratch, Some(&cache), "a", start + after * SECOND);
    scratch.put("a", &own("a"));
    let first = load(0);
    assert_eq!(load(11), first, "the file is unchanged");
    scratch.put("a", &own("a"));
    assert_eq!(load(21), first, "compared with its file at 11");
    assert_ne!(load(22), first);
}

#[test]
fn objects_that_are_not_used_are_removed() {
    let scratch = Scratch::new("inactive");
    let cache = PairCache::new(4, 10 * SECOND, Duration::MAX);
    let start = clock::now();
    let load = |after: u32| loaded(&scratch, Some(&cache), "a", start + after * SECOND);
    scratch.put("a", &own("a"));
    let first = load(0);
    scratch.put("a", &own("a"));
    assert_eq!(load(10), first);
    assert_eq!(load(20), first);
    assert_ne!(load(31), first);
}

#[test]
fn the_least_recently_used_objects_make_room() {
    let scratch = Scratch::new("room");
    let cache = PairCache::new(4, Duration::MAX, Duration::MAX);
    let now = clock::now();
    for name in ["a", "b", "c"] {
        scratch.put(name, &own(name));
    }
    let load = |name| loaded(&scratch, Some(&cache), name, now);
    let (a, b) = (load("a"), load("b"));
    assert_eq!(load("a"), a);
    let c = load("c");
    for name in ["a", "b", "c"] {
        scratch.put(name, &own(name));
    }
    assert_eq!((load("a"), load("c")), (a, c));
    assert_ne!(load("b"), b);
}

#[test]
fn event_loops_find_whole_pairs_without_files() {
    let scratch = Scratch::new("find");
    let cache = PairCache::new(4, Duration::MAX, 10 * SECOND);
    let now = clock::now();
    let (certificate, key) = scratch.sources("a");
    scratch.put("a", &own("a"));
    assert!(cache.find(&certificate, &key, now).is_none());
    assert!(loaded(&scratch, Some(&cache), "a", now).is_ok());
    assert!(cache.find(&certificate, &key, now + 10 * SECOND).is_some());
    assert!(cache.find(&certificate, &key, now + 11 * SECOND).is_none(), "to be compared first");
}

proptest! {
    /// Whatever is used in whichever order, no more objects are kept than allowed, and both lists are of the same.
    #[test]
    fn no_more_objects_are_kept_than_allowed(
        max in 1..6_usize,
        uses in prop::collection::vec((0..8_u8, 0..20_u32), 0..60),
    ) {
        let cache = PairCache::new(max, 5 * SECOND, 5 * SECOND);
        let start = clock::now();
        let mut time = 0;
        for (name, pause) in uses {
            time += pause / 10;
            let now = start + time * SECOND;
            let source = crate::pair_files::PemSource::Text(vec![name]);
            if cache.chain(&source, now, true).is_none() {
                cache.keep_chain(&source, std::sync::Arc::default(), None, now);
            }
            let entries = cache.entries();
            prop_assert!(entries.by_place.len() <= max);
            prop_assert_eq!(entries.by_place.len(), entries.by_use.len());
        }
    }
}
