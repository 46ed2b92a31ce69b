//! Purges: the rules alone, and their effect on entries and fills.

use std::sync::Weak;

use bytes::Bytes;
use proptest::prelude::*;

use super::support::*;
use crate::fake::{Faults, MemoryDisk};
use crate::purge::{PurgeEffect, RuleRefused, Rules};
use crate::{
    Committed, Disk, FillWriter, PURGE_RULES_MAX, Purge, PurgeError, PurgeMetadata, Scope, Store,
    Times,
};

pub(super) fn prefix(text: &str) -> Scope {
    Scope::Prefix(text.as_bytes().into())
}

fn tag(text: &str) -> Scope {
    Scope::Tag(text.as_bytes().into())
}

fn hard(scope: Scope) -> Purge {
    Purge { scope, soft: false }
}

fn soft(scope: Scope) -> Purge {
    Purge { scope, soft: true }
}

/// Reads the metadata of the tests: the moment of the request, then tags.
pub(super) fn reader(metadata: &[u8]) -> Option<PurgeMetadata<'_>> {
    let text = std::str::from_utf8(metadata).ok()?;
    let (requested_at, tags) = text.split_once(' ').unwrap_or((text, ""));
    Some(PurgeMetadata { requested_at: requested_at.parse().ok()?, tags: tags.as_bytes() })
}

fn store(disk: &MemoryDisk) -> Store {
    let store = loaded(disk, options());
    store.read_metadata_by(reader);
    store
}

/// Times of an object that is fresh as long as the tests last.
fn lasting(created: u64) -> Times {
    let valid_until = 1 << 40;
    let (updating_until, error_until) = (valid_until + 10, valid_until + 20);
    Times { created, valid_until, updating_until, error_until }
}

/// Fills a key as a caller does: with the moment that the fill returns.
pub(super) fn put(store: &Store, name: &str, tags: &str, now: u64) {
    let writer = begin(store, &key(name), now);
    let metadata = format!("{} {tags}", writer.fill().started_at());
    writer.publish_head(Bytes::from(metadata), lasting(now), None, now);
    writer.append(Bytes::from_static(b"body"), now);
    assert!(matches!(writer.commit(now), Committed::Stored), "{name}");
}

/// Returns `fresh`, `stale` or `none`, as a lookup and an opening see a key; they must agree.
pub(super) fn state(store: &Store, name: &str, now: u64) -> &'static str {
    let shown = |valid_until: Option<u64>| match valid_until {
        None => "none",
        Some(until) if now < until => "fresh",
        Some(_) => "stale",
    };
    let key = key(name);
    let looked = store.peek(&key);
    let opened = store.open_entry(&key, now).expect("disk");
    let opened = shown(opened.map(|entry| entry.times().valid_until));
    if let Some(open) = looked.open {
        assert_eq!(shown(Some(open.times().valid_until)), opened, "{name}");
    }
    let again = store.peek(&key);
    assert_eq!(shown(again.open.map(|open| open.times().valid_until)), opened, "{name} again");
    opened
}

fn rules(list: &[(Scope, bool, u64)]) -> Rules {
    let mut rules = Rules::default();
    for (scope, soft, at) in list {
        rules.add(scope.clone(), *soft, (*at, 0), Weak::new()).expect("room");
    }
    rules
}

#[test]
fn rules_concern_what_is_older() {
    let list = [(prefix("/a/"), false, 10), (tag("t"), true, 20), (tag("u"), true, 30)];
    let rules = rules(&list);
    for (key, requested_at, tags, expected) in [
        ("/a/b", 10, "", PurgeEffect::Gone),
        ("/a/b", 11, "", PurgeEffect::Kept),
        ("/a/b", 9, "t", PurgeEffect::Gone),
        ("/a", 9, "", PurgeEffect::Kept),
        ("/b", 20, "s t", PurgeEffect::Stale(20)),
        ("/b", 20, "u t", PurgeEffect::Stale(20)),
        ("/b", 21, "t u", PurgeEffect::Stale(30)),
        ("/b", 9, "tt", PurgeEffect::Kept),
        ("/b", 9, "", PurgeEffect::Kept),
    ] {
        let bearing = PurgeMetadata { requested_at, tags: tags.as_bytes() };
        assert_eq!(
            rules.effect_on(key.as_bytes(), bearing, 0),
            expected,
            "{key} {requested_at} {tags}"
        );
    }
    let bearing = PurgeMetadata { requested_at: 9, tags: b"t" };
    assert_eq!(rules.effect_on(b"/a/b", bearing, 1), PurgeEffect::Stale(20), "checked before");
    assert_eq!(rules.effect_on(b"/a/b", bearing, 3), PurgeEffect::Kept, "checked against all");
}

#[test]
fn later_rules_make_earlier_ones_superfluous() {
    for (list, left) in [
        (vec![(prefix("/a"), false, 1), (prefix("/a"), false, 2)], 1),
        (vec![(prefix("/a/b"), false, 1), (prefix("/a"), false, 2)], 1),
        (vec![(prefix("/a/b"), false, 1), (prefix("/a"), true, 2)], 2),
        (vec![(prefix("/a/b"), true, 1), (prefix("/a"), false, 2)], 1),
        (vec![(prefix("/a"), false, 1), (prefix("/a/b"), false, 2)], 2),
        (vec![(tag("t"), false, 1), (tag("u"), false, 2)], 2),
        (vec![(tag("t"), true, 1), (tag("t"), true, 2)], 1),
        (vec![(tag("t"), true, 1), (prefix(""), false, 2)], 1),
    ] {
        assert_eq!(rules(&list).list().len(), left, "{list:?}");
    }
}

#[test]
fn the_list_is_bounded() {
    let mut rules = Rules::default();
    for number in 0..PURGE_RULES_MAX {
        rules.add(tag(&number.to_string()), false, (1, 0), Weak::new()).expect("room");
    }
    assert_eq!(rules.add(tag("more"), false, (1, 0), Weak::new()), Err(RuleRefused));
    assert_eq!(
        rules.add(tag("7"), false, (1, 0), Weak::new()),
        Ok(()),
        "takes another one's place"
    );
    assert_eq!(rules.add(prefix(""), false, (1, 0), Weak::new()), Ok(()), "takes all places");
    assert_eq!(rules.list().len(), 1);
    let long = "x".repeat(crate::PURGE_TEXT_BYTES_MAX + 1);
    assert_eq!(rules.add(tag(&long), false, (1, 0), Weak::new()), Err(RuleRefused));
}

#[test]
fn prefixes_and_tags_take_effect_at_once() {
    let store = store(&MemoryDisk::default());
    for (name, tags) in [("/a/1", "red"), ("/a/2", "red blue"), ("/b/1", "blue"), ("/b/2", "")] {
        put(&store, name, tags, 1);
    }
    let states = |now| ["/a/1", "/a/2", "/b/1", "/b/2"].map(|name| state(&store, name, now));
    assert_eq!(states(5), ["fresh"; 4]);
    store.purge(soft(tag("blue")), 5).expect("purged");
    assert_eq!(states(5), ["fresh", "stale", "stale", "fresh"]);
    store.purge(hard(prefix("/a/")), 5).expect("purged");
    assert_eq!(states(5), ["none", "none", "stale", "fresh"]);
    // In the same moment, but later.
    put(&store, "/a/1", "red blue", 5);
    assert_eq!(states(5), ["fresh", "none", "stale", "fresh"]);
    let stale = store.open_entry(&key("/b/1"), 5).expect("disk").expect("entry").times();
    let expected = lasting(1);
    assert_eq!(stale.valid_until, 5);
    assert_eq!(stale.updating_until - 5, expected.updating_until - expected.valid_until);
    assert_eq!(stale.error_until - 5, expected.error_until - expected.valid_until);
}

#[test]
fn entries_that_are_not_in_memory_are_purged_all_the_same() {
    let disk = MemoryDisk::default();
    put(&store(&disk), "/a", "t", 1);
    for (loader_is_done, now) in [(true, 5), (false, 105)] {
        let store = open_with(&disk, options());
        store.read_metadata_by(reader);
        if loader_is_done {
            load(&store);
        }
        store.purge(hard(tag("t")), now).expect("purged");
        assert_eq!(state(&store, "/a", now), "none");
        assert_eq!(store.stats().entries, 0);
        load(&store);
        assert_eq!(state(&store, "/a", now), "none");
        assert_eq!(store.stats().disk_bytes, 0);
        put(&store, "/a", "t", now);
        assert_eq!(state(&store, "/a", now), "fresh");
    }
}

#[test]
fn an_object_of_a_clock_that_was_ahead_is_not_used_after_a_restart() {
    for (loader_is_done, name) in [(false, "/a"), (true, "/b")] {
        let disk = MemoryDisk::default();
        disk.set_now(1000);
        put(&store(&disk), name, "t", 1000);
        let store = open_with(&disk, options());
        store.read_metadata_by(reader);
        if loader_is_done {
            load(&store);
        }
        // By the moment of its request it is newer than the purge.
        store.purge(hard(tag("t")), 5).expect("purged");
        if !loader_is_done {
            assert_eq!(state(&store, name, 5), "none");
        }
        assert_eq!(state(&store, name, 2000), "none", "the time has come");
        assert_eq!((store.stats().entries, store.stats().disk_bytes), (0, 0));
        put(&store, name, "t", 6);
        assert_eq!(state(&store, name, 6), "fresh");
    }
}

#[test]
fn a_purge_by_a_clock_that_was_set_back_concerns_objects_of_before_the_start() {
    for is_open in [false, true] {
        let disk = MemoryDisk::default();
        put(&store(&disk), "/a", "t", 1000);
        let mut settings = options();
        settings.started_at = 2000;
        let store = loaded(&disk, settings);
        store.read_metadata_by(reader);
        if is_open {
            assert_eq!(state(&store, "/a", 2000), "fresh");
        }
        store.purge(hard(tag("t")), 5).expect("purged");
        assert_eq!(state(&store, "/a", 5), "none");
        put(&store, "/a", "t", 6);
        assert_eq!(state(&store, "/a", 6), "fresh");
    }
}

#[test]
fn rules_are_kept_over_a_restart() {
    let disk = MemoryDisk::default();
    let before = store(&disk);
    put(&before, "/a", "t", 1);
    put(&before, "/b", "t", 1);
    before.purge(hard(prefix("/a")), 5).expect("purged");
    before.purge(soft(tag("t")), 6).expect("purged");
    let after = store(&disk);
    assert_eq!(after.purges(), [(hard(prefix("/a")), 5), (soft(tag("t")), 6)]);
    assert_eq!((state(&after, "/a", 6), state(&after, "/b", 6)), ("none", "stale"));
    put(&after, "/a", "t", 6);
    assert_eq!(state(&after, "/a", 6), "fresh");
}

#[test]
fn a_torn_file_of_rules_purges_everything() {
    let disk = MemoryDisk::default();
    let before = store(&disk);
    put(&before, "/a", "", 1);
    before.purge(hard(prefix("/b")), 5).expect("purged");
    drop(before);
    let path = std::path::Path::new(ROOT).join(".purges");
    disk.open_for_update(&path).expect("rules").write_at(b"xx", 30).expect("write");
    let mut settings = options();
    settings.started_at = 8;
    let after = loaded(&disk, settings);
    after.read_metadata_by(reader);
    assert_eq!(state(&after, "/a", 8), "none");
    put(&after, "/a", "", 8);
    assert_eq!(state(&after, "/a", 8), "fresh");
}

#[test]
fn a_running_fill_is_not_stored_and_not_joined() {
    for (purge, joinable) in
        [(hard(prefix("/a")), false), (hard(tag("t")), false), (hard(tag("other")), true)]
    {
        let store = store(&MemoryDisk::default());
        let key = key("/a");
        store.lookup(&key, 1);
        let old = begin(&store, &key, 1);
        let metadata = format!("{} t", old.fill().started_at());
        old.publish_head(Bytes::from(metadata), times(1), None, 1);
        store.purge(purge.clone(), 1).expect("purged");
        assert_eq!(store.peek(&key).fill.is_some(), joinable, "{purge:?}");
        assert_eq!(store.begin_fill(&key, 1).is_err(), joinable, "{purge:?}");
        let stored = matches!(old.commit(2), Committed::Stored);
        assert_eq!(stored, joinable, "{purge:?}");
    }
}

#[test]
fn a_fill_that_became_stale_is_stored_unless_there_is_a_newer_one() {
    for newer in [false, true] {
        let store = store(&MemoryDisk::default());
        let key = key("/a");
        store.lookup(&key, 1);
        let old = begin(&store, &key, 1);
        let metadata = old.fill().started_at().to_string();
        old.publish_head(Bytes::from(metadata), lasting(1), None, 1);
        store.purge(soft(prefix("/a")), 1).expect("purged");
        let new = newer.then(|| begin(&store, &key, 1));
        assert_eq!(matches!(old.commit(1), Committed::Stored), !newer);
        assert_eq!(state(&store, "/a", 1), if newer { "none" } else { "stale" });
        drop(new);
    }
}

#[test]
fn a_fill_without_a_head_may_have_any_tag() {
    let store = store(&MemoryDisk::default());
    let key = key("/a");
    store.lookup(&key, 1);
    let old = begin(&store, &key, 1);
    store.purge(hard(tag("t")), 1).expect("purged");
    assert!(store.peek(&key).fill.is_none());
    let new = begin(&store, &key, 1);
    let metadata = format!("{} other", old.fill().started_at());
    old.publish_head(Bytes::from(metadata), times(1), None, 1);
    assert!(matches!(old.commit(1), Committed::Stored), "it does not bear the tag");
    let metadata = format!("{} t", new.fill().started_at());
    new.publish_head(Bytes::from(metadata), times(1), None, 1);
    assert!(matches!(new.commit(1), Committed::Stored));
    assert_eq!(state(&store, "/a", 2), "fresh");
}

#[test]
fn one_key_becomes_stale() {
    let store = store(&MemoryDisk::default());
    assert!(!store.make_stale(&key("/a"), 1).expect("disk"));
    put(&store, "/a", "", 1);
    assert!(store.make_stale(&key("/a"), 3).expect("disk"));
    assert_eq!(state(&store, "/a", 3), "stale");
}

#[test]
fn an_older_request_makes_nothing_fresh_again() {
    let store = store(&MemoryDisk::default());
    put(&store, "/a", "", 1);
    let seen = store.peek(&key("/a")).entry.expect("an entry").generation;
    assert!(store.make_stale(&key("/a"), 3).expect("disk"));
    let renew = |generation| {
        let metadata = Bytes::from_static(b"3");
        store.update_metadata(&key("/a"), generation, metadata, lasting(3)).expect("disk")
    };
    assert!(!renew(seen));
    assert_eq!(state(&store, "/a", 3), "stale");
    assert!(renew(store.peek(&key("/a")).entry.expect("an entry").generation));
    assert_eq!(state(&store, "/a", 3), "fresh");
}

/// A way to make the entry of `/a` stale.
type MakeStale = fn(&Store, u64);
const MAKE_STALE: [(&str, MakeStale); 3] = [
    ("key", |store, now| assert!(store.make_stale(&key("/a"), now).expect("disk"))),
    ("prefix", |store, now| store.purge(soft(prefix("/")), now).expect("purged")),
    ("tag", |store, now| store.purge(soft(tag("t")), now).expect("purged")),
];

/// Makes a fill of `/a` with its head and the first byte of two.
fn half(store: &Store, writer: FillWriter, length: Option<u64>) -> FillWriter {
    store.lookup(&key("/a"), 1);
    let metadata = format!("{} t", writer.fill().started_at());
    writer.publish_head(Bytes::from(metadata), lasting(1), length, 1);
    writer.append(Bytes::from_static(b"1"), 1);
    writer
}

#[test]
fn a_fill_made_stale_while_it_is_fetched_is_stored_as_stale() {
    for ((how, make_stale), replaced) in
        MAKE_STALE.iter().flat_map(|how| [(how, false), (how, true)])
    {
        let disk = MemoryDisk::default();
        let store_one = store(&disk);
        let old = half(&store_one, begin(&store_one, &key("/a"), 1), None);
        make_stale(&store_one, 2);
        let seen = store_one.peek(&key("/a"));
        assert!(seen.fill.is_none() && seen.placing.is_none(), "{how}: no new request joins it");
        let new = replaced.then(|| half(&store_one, begin(&store_one, &key("/a"), 2), None));
        let is_stored = matches!(old.commit(2), Committed::Stored);
        assert_eq!(is_stored, !replaced, "{how}: not in the place of a newer one");
        assert_eq!(state(&store_one, "/a", 2), if replaced { "none" } else { "stale" }, "{how}");
        if let Some(new) = new {
            assert!(matches!(new.commit(2), Committed::Stored), "{how}");
        }
        let expected = if replaced { "fresh" } else { "stale" };
        assert_eq!(state(&store_one, "/a", 2), expected, "{how}");
        drop(store_one);
        assert_eq!(state(&store(&disk), "/a", 2), expected, "{how}: after a restart");
    }
}

/// A client that has the last byte may purge before the object has its file.
#[test]
fn a_fill_made_stale_while_it_is_placed_is_waited_for() {
    for ((how, make_stale), (length, shared)) in MAKE_STALE
        .iter()
        .flat_map(|how| [(how, (None, true)), (how, (Some(2), true)), (how, (Some(2), false))])
    {
        let store = store(&MemoryDisk::default());
        let key = key("/a");
        store.lookup(&key, 1);
        let writer = if shared { begin(&store, &key, 1) } else { store.begin_fill_beside(&key, 1) };
        let writer = half(&store, writer, length);
        writer.append(Bytes::from_static(b"2"), 1);
        if length.is_none() {
            writer.finish().expect("whole");
        }
        make_stale(&store, 2);
        let seen = store.peek(&key);
        assert!(seen.fill.is_none() && seen.placing.is_some(), "{how}");
        assert!(matches!(writer.commit(2), Committed::Stored), "{how}");
        assert!(store.peek(&key).placing.is_none(), "{how}");
        assert_eq!(state(&store, "/a", 2), "stale", "{how}");
    }
}

#[test]
fn a_key_removed_while_its_file_is_placed_stays_removed() {
    for hard in [
        (|store| assert!(store.remove(&key("/a")).expect("disk"))) as fn(&Store),
        |store| store.purge(hard(prefix("/")), 2).expect("purged"),
        |store| store.purge(hard(tag("t")), 2).expect("purged"),
    ] {
        for first in [None, Some(MAKE_STALE[0].1), Some(MAKE_STALE[2].1)] {
            let store = store(&MemoryDisk::default());
            let writer = half(&store, begin(&store, &key("/a"), 1), None);
            writer.finish().expect("whole");
            if let Some(make_stale) = first {
                make_stale(&store, 2);
            }
            hard(&store);
            let seen = store.peek(&key("/a"));
            assert!(seen.fill.is_none() && seen.placing.is_none());
            assert!(matches!(writer.commit(2), Committed::NotStored(None)));
            assert_eq!(state(&store, "/a", 2), "none");
        }
    }
}

/// An unshared fill is offered when it is complete, unless a purge came before.
#[test]
fn a_fill_made_stale_before_its_end_replaces_nothing() {
    for (how, make_stale) in MAKE_STALE {
        let store = store(&MemoryDisk::default());
        store.lookup(&key("/a"), 1);
        put(&store, "/a", "t", 1);
        let beside = half(&store, store.begin_fill_beside(&key("/a"), 1), Some(2));
        make_stale(&store, 2);
        put(&store, "/a", "t", 2);
        beside.append(Bytes::from_static(b"2"), 2);
        let seen = store.peek(&key("/a"));
        assert!(seen.fill.is_none() && seen.placing.is_none(), "{how}");
        assert!(matches!(beside.commit(2), Committed::NotStored(None)), "{how}");
        assert_eq!(state(&store, "/a", 2), "fresh", "{how}");
    }
}

/// Sweeps to the end; returns the numbers of removed and of marked files.
fn sweep(store: &Store, now: u64, eager: bool) -> (usize, usize) {
    let (mut removed, mut staled) = (0, 0);
    loop {
        let report = store.purge_step(now, 2, eager);
        removed += report.removed;
        staled += report.staled;
        if !report.more {
            return (removed, staled);
        }
    }
}

#[test]
fn a_sweep_makes_rules_superfluous() {
    let disk = MemoryDisk::default();
    let store_one = store(&disk);
    for name in ["/a/1", "/a/2", "/b/1", "/b/2", "/c"] {
        put(&store_one, name, if name.ends_with('1') { "one" } else { "" }, 1);
    }
    store_one.purge(hard(prefix("/a/")), 5).expect("purged");
    store_one.purge(soft(tag("one")), 5).expect("purged");
    assert_eq!(sweep(&store_one, 5, false), (0, 0), "not wanted");
    assert_eq!(sweep(&store_one, 5, true), (2, 1));
    assert_eq!(store_one.purges(), []);
    assert_eq!(store_one.stats().entries, 3);
    assert_eq!(sweep(&store_one, 5, true), (0, 0));
    // The marks are on disk.
    let after = store(&disk);
    assert_eq!(after.purges(), []);
    let states = ["/a/1", "/a/2", "/b/1", "/b/2", "/c"].map(|name| state(&after, name, 5));
    assert_eq!(states, ["none", "none", "stale", "fresh", "fresh"]);
}

#[test]
fn rules_are_swept_when_they_are_old_or_many() {
    let store = store(&MemoryDisk::default());
    put(&store, "/a", "", 1);
    store.purge(hard(prefix("/a")), 5).expect("purged");
    let inactive = store.options().inactive;
    assert_eq!(sweep(&store, 5 + inactive, false), (0, 0));
    assert_eq!(sweep(&store, 6 + inactive, false), (1, 0));
    for number in 0..PURGE_RULES_MAX {
        let purge = hard(tag(&number.to_string()));
        store.purge(purge, 5).expect("purged");
    }
    let refused = store.purge(hard(tag("more")), 5);
    assert!(matches!(refused, Err(PurgeError::Refused)));
    sweep(&store, 5, false);
    assert_eq!(store.purges(), []);
    store.purge(hard(tag("more")), 5).expect("there is room again");
}

#[test]
fn a_rule_outlives_the_fills_that_began_before() {
    let store = store(&MemoryDisk::default());
    let old = begin(&store, &key("/a"), 1);
    store.purge(hard(tag("t")), 5).expect("purged");
    sweep(&store, 6, true);
    assert_eq!(store.purges().len(), 1);
    let metadata = format!("{} t", old.fill().started_at());
    old.publish_head(Bytes::from(metadata), times(6), None, 6);
    assert!(matches!(old.commit(6), Committed::NotStored(None)));
    sweep(&store, 6, true);
    assert_eq!(store.purges(), []);
}

#[test]
fn a_failing_disk_is_reported_and_the_purge_holds() {
    let disk = MemoryDisk::default();
    let store = store(&disk);
    put(&store, "/a", "", 1);
    disk.set_faults(Faults { fail_at: Some(0), fail_on: true, ..Faults::default() });
    let result = store.purge(hard(prefix("/a")), 5);
    disk.set_faults(Faults::default());
    assert!(matches!(result, Err(PurgeError::Disk(_))));
    assert_eq!(state(&store, "/a", 5), "none");
}

proptest! {
    #[test]
    fn rules_are_read_as_they_were_written(
        list in proptest::collection::vec((any::<bool>(), any::<bool>(), "[a-c]{0,3}", 0u64..9), 0..9),
    ) {
        let mut rules = Rules::default();
        for (is_tag, soft, text, at) in list {
            let scope = if is_tag { tag(&text) } else { prefix(&text) };
            rules.add(scope, soft, (at, 0), Weak::new()).expect("room");
        }
        let read = Rules::decode(&rules.encode()).expect("readable");
        let plain = |rules: &Rules| {
            let list = rules.list().iter();
            list.map(|rule| (rule.scope.clone(), rule.soft, rule.at, rule.through)).collect::<Vec<_>>()
        };
        prop_assert_eq!(plain(&read), plain(&rules));
        prop_assert_eq!(read.latest(), rules.list().last().map_or(0, |rule| rule.through));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        crate::fuzz_purge_rules(&bytes);
    }
}

/// No entry is served that was requested before a purge of it, in any order of events.
#[test]
fn operations_against_a_model() {
    let mut runner = proptest::test_runner::TestRunner::default();
    let operations = proptest::collection::vec((0u8..7, 0u8..3, 0u8..2), 1..40);
    let run = runner.run(&operations, |operations| {
        let disk = MemoryDisk::default();
        let mut store = store(&disk);
        let mut model = [None::<bool>; 3];
        let mut now = 1;
        for (step, (operation, at, other)) in operations.into_iter().enumerate() {
            let name = ["/a/1", "/a/2", "/b/1"][usize::from(at)];
            let shared = ["/a/", "/"][usize::from(other)];
            let concerned = |index: usize| ["/a/1", "/a/2", "/b/1"][index].starts_with(shared);
            match operation {
                0 | 1 => {
                    put(&store, name, "t", now);
                    model[usize::from(at)] = Some(true);
                }
                2 => {
                    store.purge(hard(prefix(shared)), now).expect("purged");
                    (0..3).filter(|i| concerned(*i)).for_each(|i| model[i] = None);
                }
                3 => {
                    store.purge(soft(prefix(shared)), now).expect("purged");
                    (0..3).filter(|i| concerned(*i)).for_each(|i| {
                        model[i] = model[i].map(|_| false);
                    });
                }
                4 => drop(store.remove(&key(name)).map(|_| model[usize::from(at)] = None)),
                5 => drop(sweep(&store, now, true)),
                _ => {
                    store = self::store(&disk);
                    // A restart takes longer than a purge: the clock advances.
                    now += 100;
                }
            }
            for (index, known) in model.iter().enumerate() {
                let name = ["/a/1", "/a/2", "/b/1"][index];
                let expected = match known {
                    None => "none",
                    Some(true) => "fresh",
                    Some(false) => "stale",
                };
                prop_assert_eq!(state(&store, name, now), expected, "step {}: {}", step, name);
            }
        }
        Ok(())
    });
    run.expect("the model");
}

#[test]
fn a_position_outlasts_a_kill() {
    let disk = MemoryDisk::default();
    let path = std::path::Path::new(ROOT).join(".purges.position");
    let owned = || {
        let mut settings = options();
        settings.owner = Some("us".to_owned());
        loaded(&disk, settings)
    };
    let first = owned();
    assert_eq!(first.purge_position(), None);
    first.keep_purge_position(b"5-0 abc").unwrap();
    assert!(first.keep_purge_position(&[b'x'; 4097]).is_err());
    drop(first);
    assert_eq!(owned().purge_position().as_deref(), Some(&b"5-0 abc"[..]));
    // One that is damaged is none.
    disk.open_for_update(&path).unwrap().write_at(b"6", 16).unwrap();
    assert_eq!(owned().purge_position(), None);
}

#[test]
fn rules_are_added_together_up_to_one_that_is_refused() {
    let store = store(&MemoryDisk::default());
    for name in ["a", "b", "c"] {
        put(&store, name, "", 1);
    }
    store.purge_all(["a", "b"].map(|name| hard(prefix(name))), 2).unwrap();
    let is_there = |name: &str| store.open_entry(&key(name), 3).unwrap().is_some();
    assert_eq!(["a", "b", "c"].map(is_there), [false, false, true]);
    let many = (0..PURGE_RULES_MAX).map(|number| hard(tag(&number.to_string())));
    assert!(matches!(store.purge_all(many, 3), Err(PurgeError::Refused)));
    assert_eq!(store.purges().len(), PURGE_RULES_MAX);
    // One about everything makes all of them superfluous.
    store.purge(hard(prefix("")), 4).unwrap();
    assert_eq!(store.purges().len(), 1);
    assert!(!is_there("c"));
}
