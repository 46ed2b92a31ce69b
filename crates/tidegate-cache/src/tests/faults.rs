//! The disk fails, or the machine crashes, at each call of a scenario: nothing torn is ever served.

use bytes::Bytes;

use super::support::*;
use crate::Store;
use crate::fake::{Faults, MemoryDisk};

/// No scenario makes more disk calls than this.
const CALLS_MAX: u64 = 500;

/// Versions of the key that a scenario stores: metadata and body.
type Versions = Vec<(Vec<u8>, Vec<u8>)>;

fn versions() -> Versions {
    vec![
        (b"one".to_vec(), body(700, 1)),
        (b"two".to_vec(), body(20, 2)),
        (b"renewed".to_vec(), body(20, 2)),
        ("long".repeat(200).into_bytes(), body(20, 2)),
        (b"three".to_vec(), body(400, 3)),
    ]
}

/// Fills, refills, renews in place, renews by copy, refills; errors are ignored.
fn scenario(store: &Store) {
    let versions = versions();
    let text = |at: usize| String::from_utf8(versions[at].0.clone()).expect("text");
    fill(store, &key("a"), &text(0), &versions[0].1, 1);
    let _ = store.open_entry(&key("a"), 1);
    fill(store, &key("a"), &text(1), &versions[1].1, 2);
    for at in [2, 3] {
        let metadata = Bytes::from(versions[at].0.clone());
        let _ = renew(store, &key("a"), metadata, times(3));
        let _ = store.open_entry(&key("a"), 3);
    }
    fill(store, &key("a"), &text(4), &versions[4].1, 4);
    fill(store, &key("gone"), "m", b"removed below", 4);
    let _ = store.remove(&key("gone"));
    store.manage_step(4, 100);
}

fn small_memory() -> crate::Options {
    let mut settings = options();
    settings.memory_bytes = 0;
    settings
}

/// Runs the scenario with the n-th call failing, for n = 1, 2, … until none fails any more.
fn every_fault(fail_on: bool, torn_writes: bool, check: impl Fn(&MemoryDisk, &Store, u64)) {
    for fail_at in 1..CALLS_MAX {
        let disk = MemoryDisk::default();
        let store = loaded(&disk, small_memory());
        disk.set_faults(Faults { fail_at: Some(fail_at), fail_on, torn_writes, bytes_max: 90 });
        scenario(&store);
        let calls = disk.calls();
        check(&disk, &store, fail_at);
        if calls < fail_at {
            return;
        }
    }
    panic!("the scenario makes more calls than expected");
}

fn assert_whole(store: &Store, fail_at: u64) {
    if let Some(found) = served(store, &key("a")) {
        assert!(versions().contains(&found), "call {fail_at}: served something torn");
    }
}

#[test]
fn a_failing_call_tears_nothing() {
    for torn_writes in [false, true] {
        every_fault(false, torn_writes, |disk, store, fail_at| {
            disk.set_faults(Faults::default());
            assert_whole(store, fail_at);
            // The store works afterwards, and leaves no files behind.
            fill(store, &key("a"), "three", &body(400, 3), 5);
            assert_eq!(served(store, &key("a")), versions().pop());
            store.manage_step(6, 100);
            let stats = store.stats();
            // A removal that failed may leave its file to the next start; nothing else may remain.
            assert!(disk.paths().len() <= stats.entries + 1, "call {fail_at}: {:?}", disk.paths());
        });
    }
}

#[test]
fn a_disk_that_stays_full_tears_nothing() {
    every_fault(true, true, |disk, store, fail_at| {
        disk.set_faults(Faults::default());
        assert_whole(store, fail_at);
    });
}

#[test]
fn a_crash_at_any_call_leaves_only_whole_objects() {
    for torn_writes in [false, true] {
        every_fault(true, torn_writes, |disk, _, fail_at| {
            let after = disk.after_crash();
            let mut settings = small_memory();
            settings.started_at = 10;
            let store = loaded(&after, settings);
            assert_whole(&store, fail_at);
            let gone = served(&store, &key("gone")).map(|(_, body)| body);
            assert!(gone.is_none_or(|body| body == b"removed below"));
            let stats = store.stats();
            assert_eq!(after.paths().len(), stats.entries, "call {fail_at}: leftovers");
            fill(&store, &key("a"), "three", &body(400, 3), 20);
            assert_eq!(served(&store, &key("a")), versions().pop());
        });
    }
}

#[test]
fn readers_of_a_failing_fill_get_all_or_a_break() {
    for fail_at in 1..CALLS_MAX {
        let disk = MemoryDisk::default();
        let store = loaded(&disk, small_memory());
        let whole = body(2000, 9);
        let writer = begin(&store, &key("a"), 1);
        let mut reader = writer.fill().reader(0);
        writer.publish_head(Bytes::new(), times(1), Some(2000), 1);
        disk.set_faults(Faults { fail_at: Some(fail_at), fail_on: true, ..Faults::default() });
        for part in whole.chunks(40) {
            if !writer.append(Bytes::copy_from_slice(part), 1).has_room {
                writer.flush_step();
            }
        }
        let calls = disk.calls();
        writer.commit(2);
        disk.set_faults(Faults::default());
        let (got, end) = drain(&mut reader, 1000);
        assert!(whole.starts_with(&got));
        assert!(end.is_err() || got == whole);
        if calls < fail_at {
            assert_eq!(end, Ok(()));
            return;
        }
    }
    panic!("the fill makes more calls than expected");
}
