//! Pages of what is stored.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::support::*;
use crate::fake::MemoryDisk;
use crate::{Committed, ListPosition, PageLimits, Purge, PurgeMetadata, Scope, Store, Times};

fn reader(_: &[u8]) -> Option<PurgeMetadata<'_>> {
    Some(PurgeMetadata { requested_at: 1, tags: b"" })
}

fn put(store: &Store, name: &str) {
    let writer = begin(store, &key(name), 1);
    let times = Times { created: 1, valid_until: 100, updating_until: 110, error_until: 120 };
    writer.publish_head(Bytes::from_static(b"head"), times, None, 1);
    writer.append(Bytes::from_static(b"body"), 1);
    assert!(matches!(writer.commit(1), Committed::Stored), "{name}");
}

/// Reads all pages; returns the keys, and the number of pages.
fn read_all(store: &Store, prefix: &str, limits: PageLimits) -> (Vec<String>, usize) {
    let (mut keys, mut pages, mut from) = (Vec::new(), 0, ListPosition::default());
    loop {
        let page = store.list(from, prefix.as_bytes(), limits);
        pages += 1;
        assert!(page.entries.len() <= limits.entries);
        for entry in &page.entries {
            assert_eq!((&*entry.metadata, entry.body_bytes), (&b"head"[..], 4));
            keys.push(String::from_utf8_lossy(&entry.key).into_owned());
        }
        let Some(next) = page.next else { return (keys, pages) };
        from = ListPosition::parse(&next.to_string()).expect("as it was written");
        assert_eq!(from, next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Pages of any size have each entry once.
    #[test]
    fn pages_have_each_entry_once(count in 0..60_usize, entries in 1..9_usize, files in 1..9_usize) {
        let store = loaded(&MemoryDisk::default(), options());
        let names: BTreeSet<String> =
            (0..count).map(|number| format!("/{}/{number}", number % 3)).collect();
        names.iter().for_each(|name| put(&store, name));
        let (keys, pages) = read_all(&store, "", PageLimits { entries, files });
        prop_assert_eq!(keys.len(), count);
        prop_assert_eq!(&keys.into_iter().collect::<BTreeSet<_>>(), &names);
        prop_assert!(pages * entries.min(files) >= count);
        let (some, _) = read_all(&store, "/1/", PageLimits { entries, files });
        prop_assert!(some.iter().all(|name| name.starts_with("/1/")));
        prop_assert_eq!(some.len(), names.iter().filter(|name| name.starts_with("/1/")).count());
    }
}

#[test]
fn purged_entries_are_left_out_and_stale_ones_have_their_times() {
    let store = loaded(&MemoryDisk::default(), options());
    store.read_metadata_by(reader);
    for name in ["/a", "/b", "/c"] {
        put(&store, name);
    }
    store.purge(Purge { scope: Scope::Prefix(b"/a"[..].into()), soft: false }, 5).expect("purged");
    store.purge(Purge { scope: Scope::Prefix(b"/b"[..].into()), soft: true }, 6).expect("purged");
    let page = store.list(ListPosition::default(), b"", PageLimits { entries: 9, files: 9 });
    let mut times: Vec<_> =
        page.entries.iter().map(|entry| (&*entry.key, entry.times.valid_until)).collect();
    times.sort_unstable();
    assert_eq!(times, [(&b"/b"[..], 6), (b"/c", 100)]);
}

#[test]
fn positions_are_parsed_or_refused() {
    for text in [
        "",
        "1",
        "-",
        "a-",
        "0-zz",
        "0-00",
        "-00112233445566778899aabbccddeeff",
        "99999999999999999999-",
    ] {
        assert_eq!(ListPosition::parse(text), None, "{text}");
    }
    let store = loaded(&MemoryDisk::default(), options());
    put(&store, "/a");
    let limits = PageLimits { entries: 9, files: 9 };
    let behind = ListPosition::parse("4000000000-").expect("a position");
    assert!(store.list(behind, b"", limits).entries.is_empty());
}
