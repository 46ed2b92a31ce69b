//! The store: index, limits, loader, renewal, the memory tier.

use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::support::*;
use crate::fake::MemoryDisk;
use crate::{Committed, FillWriter, Key, Levels, Options, RealDisk, ReconfigureError, Store};

const BLOCK: u64 = 4096;

#[test]
fn uses_count_without_a_file() {
    let store = loaded(&MemoryDisk::default(), options());
    for expected in 1..4 {
        let found = store.lookup(&key("a"), expected);
        assert_eq!((found.uses as u64, found.entry.is_none(), found.cold), (expected, true, false));
    }
    assert_eq!(store.peek(&key("a")).uses, 3);
    fill(&store, &key("a"), "m", b"body", 5);
    let found = store.lookup(&key("a"), 6);
    let entry = found.entry.expect("entry");
    assert_eq!((found.uses, entry.body_bytes), (4, 4));
    assert_eq!(entry.disk_bytes, BLOCK);
    let open = found.open.expect("kept open by the commit");
    assert_eq!(open.body_in_memory(), Some(Bytes::from_static(b"body")));
}

#[test]
fn the_largest_zone_of_keys_makes_room() {
    let mut settings = options();
    settings.keys_bytes = 8192 + 128 * 10;
    let disk = MemoryDisk::default();
    let store = loaded(&disk, settings);
    for number in 0..30 {
        fill(&store, &key(&number.to_string()), "m", b"body", number);
    }
    assert_eq!((store.stats().keys, store.stats().keys_max), (10, 10));
    store.manage_step(30, 100);
    assert_eq!(store.stats().keys, 9, "the manager makes an eighth free");
    assert_eq!(disk.paths().len(), store.stats().entries);
    assert!(served(&store, &key("29")).is_some());
    assert!(served(&store, &key("0")).is_none());
}

#[test]
fn an_evicted_key_that_was_added_again_keeps_its_file() {
    let mut settings = options();
    settings.keys_bytes = 8192 + 128;
    let disk = MemoryDisk::default();
    let store = loaded(&disk, settings);
    for (now, name) in ["a", "b", "a"].into_iter().enumerate() {
        fill(&store, &key(name), "m", name.as_bytes(), now as u64);
    }
    store.manage_step(5, 100);
    assert_eq!(served(&store, &key("a")), Some((b"m".to_vec(), b"a".to_vec())));
    assert_eq!(disk.paths().len(), 1);
    let writer = begin(&store, &key("a"), 6);
    assert_eq!(store.lookup(&key("c"), 6).uses, 1, "no room, since the only key is being filled");
    assert!(matches!(fill(&store, &key("c"), "m", b"c", 6), Committed::NotStored(None)));
    drop(writer);
}

/// Else the next start would find it.
#[test]
fn a_removal_reaches_a_file_that_waits_for_its_own() {
    let mut settings = options();
    settings.keys_bytes = 8192 + 128;
    let disk = MemoryDisk::default();
    let store = loaded(&disk, settings);
    fill(&store, &key("a"), "m", b"a", 1);
    fill(&store, &key("b"), "m", b"b", 2);
    assert_eq!(disk.paths().len(), 2, "the manager has not run");
    store.remove(&key("a")).expect("a disk");
    assert_eq!(disk.paths().len(), 1);
    store.manage_step(5, 100);
    assert_eq!(served(&store, &key("b")), Some((b"m".to_vec(), b"b".to_vec())));
}

#[test]
fn a_fill_in_place_of_another_has_its_beginning() {
    let store = loaded(&MemoryDisk::default(), options());
    store.lookup(&key("a"), 1);
    let shared = begin(&store, &key("a"), 1);
    store.remove(&key("a")).expect("a disk");
    store.lookup(&key("a"), 2);
    let own = store.begin_fill_beside_for(shared.fill());
    assert_eq!(own.fill().started_at(), shared.fill().started_at());
    shared.release();
    own.publish_head(Bytes::from_static(b"m"), times(3), Some(0), 3);
    assert!(matches!(own.commit(3), Committed::NotStored(_)), "it was removed meanwhile");
}

#[test]
fn uncacheable_keys_are_remembered_for_a_while() {
    let store = loaded(&MemoryDisk::default(), options());
    let writer = begin(&store, &key("a"), 1);
    store.mark_uncacheable(&key("a"), 500);
    writer.release();
    assert_eq!(store.lookup(&key("a"), 2).uncacheable_until, 500);
    fill(&store, &key("a"), "m", b"body", 3);
    assert_eq!(store.lookup(&key("a"), 4).uncacheable_until, 0);
}

#[test]
fn the_oldest_unused_files_are_removed_first() {
    let mut settings = options();
    settings.size_max = Some(3 * BLOCK);
    settings.inactive = 1000;
    let disk = MemoryDisk::default();
    let store = loaded(&disk, settings);
    for (now, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        fill(&store, &key(name), "m", b"body", now as u64);
        if *name == "c" {
            store.touch(&key("a"), 2);
        }
        assert!(store.stats().charged_bytes <= 3 * BLOCK);
        assert!(disk.paths().len() <= 3);
    }
    let report = store.manage_step(11, 10);
    assert_eq!((report.removed_files, report.more), (0, false));
    let kept = |name| served(&store, &key(name)).is_some();
    assert_eq!(["a", "b", "c", "d", "e"].map(kept), [true, false, false, true, true]);
    assert_eq!(store.stats().disk_bytes, 3 * BLOCK);
    // `a` was used at 2: it is removed at 1002 and not before.
    assert_eq!(store.manage_step(1001, 10).next_step_in, 1);
    assert_eq!(store.manage_step(1002, 10).removed_files, 1);
    assert_eq!(store.manage_step(2000, 10).removed_files, 2);
    assert_eq!(store.stats().charged_bytes, 0);
    assert!(disk.paths().is_empty());
    assert_eq!(store.stats().disk_bytes, 0);
}

#[test]
fn free_space_is_kept() {
    let mut settings = options();
    settings.free_min = Some(5000);
    let disk = MemoryDisk::default();
    disk.set_free_bytes(Some(10_000));
    let free = || crate::Disk::free_bytes(&disk, ROOT.as_ref()).expect("free");
    let store = loaded(&disk, settings);
    for now in 0..6 {
        fill(&store, &key(&now.to_string()), "m", &body(1500, 0), now);
        assert!(free() >= 5000 && store.stats().entries > 0);
    }
    assert!(served(&store, &key("5")).is_some());
    assert!(store.stats().evicted > 0);
    // A write that would leave less is not made, whatever is evicted for it.
    assert!(matches!(fill(&store, &key("a"), "m", &body(6000, 0), 6), Committed::NotStored(_)));
    assert!(free() >= 4500, "one step of writing at most");
    store.manage_step(6, 100);
    assert!(matches!(fill(&store, &key("b"), "m", &body(1500, 0), 6), Committed::Stored));
    // Other programs fill the disk.
    disk.set_free_bytes(Some(6000));
    let report = store.manage_step(7, 100);
    assert!(report.removed_files > 0 && !report.more, "{report:?}");
    disk.set_free_bytes(Some(0));
    let report = store.manage_step(8, 100);
    assert!(!report.more, "nothing is left that could be removed: {report:?}");
}

#[test]
fn a_restart_finds_complete_files() {
    let disk = MemoryDisk::default();
    let store = open(&disk);
    fill(&store, &key("small"), "m", b"body", 1);
    fill(&store, &key("large"), "n", &body(9000, 1), 1);
    let writer = begin(&store, &key("torn"), 1);
    writer.publish_head(Bytes::new(), times(1), None, 1);
    writer.append(body(500, 0).into(), 1);
    writer.flush_step();
    let after = disk.after_crash();
    let foreign = "/cache/9/00/00000000000000000000000000000009";
    let misplaced = "/cache/1/00/00000000000000000000000000000009";
    let others = ["/cache/readme", "/cache/9/notes.txt"];
    for path in [foreign, misplaced, others[0], others[1]] {
        after.put(path.as_ref(), b"not ours".to_vec());
    }
    let mut settings = options();
    settings.started_at = 10;
    let store = open_with(&after, settings);
    assert!(store.lookup(&key("small"), 1).cold);
    assert_eq!(served(&store, &key("small")), Some((b"m".to_vec(), b"body".to_vec())));
    assert_eq!(load(&store), 1, "one was found before by asking for it");
    assert_eq!(served(&store, &key("large")), Some((b"n".to_vec(), body(9000, 1))));
    assert!(!store.lookup(&key("torn"), 1).cold);
    assert_eq!(served(&store, &key("torn")), None);
    let left: Vec<_> =
        after.paths().into_iter().filter(|path| path.starts_with("/cache")).collect();
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(others.iter().all(|other| left.iter().any(|path| path.ends_with(other))));
    assert_eq!((store.stats().entries, store.stats().torn), (2, 1));
}

#[test]
fn damaged_files_are_misses() {
    let check = |damage: fn(&mut Vec<u8>)| {
        let disk = MemoryDisk::default();
        let mut settings = options();
        settings.memory_bytes = 0;
        let store = loaded(&disk, settings);
        fill(&store, &key("a"), "m", &body(300, 0), 1);
        let path = disk.paths().remove(0);
        let mut bytes = disk.contents(&path).expect("file");
        damage(&mut bytes);
        disk.put(&path, bytes);
        assert_eq!(served(&store, &key("a")), None);
        assert!(store.lookup(&key("a"), 2).entry.is_none());
        assert!(disk.paths().is_empty());
        assert_eq!((store.stats().torn, store.stats().disk_bytes), (1, 0));
    };
    check(|bytes| bytes.truncate(10));
    check(|bytes| bytes.truncate(400));
    check(|bytes| bytes.push(0));
    check(|bytes| bytes[9] ^= 1);
    check(|bytes| bytes[20] ^= 1);
    check(Vec::clear);
}

#[test]
fn colliding_keys_never_get_each_others_bytes() {
    let store = loaded(&MemoryDisk::default(), options());
    let one = key("one");
    let two = Key::with_hash(&b"two"[..], *one.hash());
    fill(&store, &one, "m", b"body of one", 1);
    assert_eq!(served(&store, &two), None);
    assert!(store.lookup(&two, 2).open.is_none());
    assert!(served(&store, &one).is_some(), "a collision is no damage");
    let writer = begin(&store, &one, 3);
    assert!(store.lookup(&two, 3).fill.is_none());
    let other = begin(&store, &two, 3);
    other.publish_head(Bytes::new(), times(3), None, 3);
    assert!(matches!(other.commit(4), Committed::NotStored(None)));
    drop(writer);
    fill(&store, &two, "m", b"body of two", 5);
    assert_eq!(served(&store, &one), None);
    assert_eq!(served(&store, &two), Some((b"m".to_vec(), b"body of two".to_vec())));
}

#[test]
fn renewed_metadata_replace_the_old() {
    for length in [60, 900] {
        let disk = MemoryDisk::default();
        let store = loaded(&disk, options());
        let text = body(length, 0);
        fill(&store, &key("a"), "first", &text, 1);
        for metadata in ["second", "", &"long".repeat(300), "short again"] {
            let bytes = Bytes::copy_from_slice(metadata.as_bytes());
            assert!(renew(&store, &key("a"), bytes, times(50)).expect("disk"));
            assert_eq!(served(&store, &key("a")), Some((metadata.into(), text.clone())));
            let restarted = loaded(&disk.after_crash(), options());
            assert_eq!(served(&restarted, &key("a")), Some((metadata.into(), text.clone())));
            let known = restarted.open_entry(&key("a"), 60).expect("disk").expect("entry");
            assert_eq!(known.times(), times(50));
        }
        assert_eq!(disk.paths().len(), 1);
        assert!(!renew(&store, &key("b"), Bytes::new(), times(1)).expect("disk"));
    }
}

#[test]
fn removal_reaches_running_fills() {
    let disk = MemoryDisk::default();
    let store = loaded(&disk, options());
    fill(&store, &key("a"), "m", b"old", 1);
    let writer = begin(&store, &key("a"), 2);
    let mut reader = writer.fill().reader(0);
    writer.publish_head(Bytes::new(), times(2), None, 2);
    writer.append(Bytes::from_static(b"read before the purge"), 2);
    assert!(store.remove(&key("a")).expect("disk"));
    assert!(!store.remove(&key("a")).expect("disk"));
    let newer = begin(&store, &key("a"), 3);
    assert!(matches!(writer.commit(4), Committed::NotStored(None)));
    assert_eq!(drain(&mut reader, 99), (b"read before the purge".to_vec(), Ok(())));
    assert!(store.lookup(&key("a"), 4).fill.is_some(), "the newer fill goes on");
    drop(newer);
    assert_eq!(served(&store, &key("a")), None);
    store.manage_step(5, 10);
    assert!(disk.paths().is_empty());
}

#[test]
fn a_stuck_fill_can_be_taken_over() {
    let store = loaded(&MemoryDisk::default(), options());
    let stuck = begin(&store, &key("a"), 1);
    stuck.publish_head(Bytes::new(), times(1), None, 1);
    let next = store.take_over_fill(&key("a"), 100);
    next.publish_head(Bytes::new(), times(100), None, 100);
    next.append(Bytes::from_static(b"new"), 100);
    stuck.append(Bytes::from_static(b"old"), 100);
    assert!(matches!(next.commit(101), Committed::Stored));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(b"new".to_vec()));
    assert!(matches!(stuck.commit(102), Committed::Stored));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(b"old".to_vec()));
    let late = begin(&store, &key("a"), 200);
    late.publish_head(Bytes::new(), times(1), None, 200);
    drop(store.take_over_fill(&key("a"), 300));
    store.remove(&key("a")).expect("disk");
    assert!(matches!(late.commit(301), Committed::NotStored(None)));
    assert_eq!(served(&store, &key("a")), None);
}

/// Lets a fill have its last byte.
fn receive(writer: &FillWriter, at: u64, body: &'static [u8]) {
    writer.publish_head(Bytes::new(), times(at), Some(body.len() as u64), at);
    writer.append(Bytes::from_static(body), at);
}

fn finds(store: &Store, expected: &FillWriter) -> bool {
    store.lookup(&key("a"), 1).fill.is_some_and(|found| Arc::ptr_eq(&found, expected.fill()))
}

fn stored_body(store: &Store) -> Vec<u8> {
    served(store, &key("a")).map(|(_, body)| body).unwrap_or_default()
}

#[test]
fn a_refill_hides_no_complete_fill() {
    let check = |is_slow: bool| {
        let store = loaded(&MemoryDisk::default(), options());
        let first = store.refill(&key("a"), 1);
        let second = store.refill(&key("a"), 2);
        assert!(finds(&store, &second));
        receive(&second, 2, b"second");
        // A client may have the whole of it: another one must not get an older object now.
        let third = store.refill(&key("a"), 3);
        assert!(finds(&store, &second));
        if is_slow {
            receive(&third, 4, b"third");
            assert!(finds(&store, &third));
            assert!(matches!(second.commit(5), Committed::NotStored(None)));
            assert!(finds(&store, &third));
        } else {
            assert!(matches!(second.commit(4), Committed::Stored));
            assert_eq!(stored_body(&store), b"second");
            receive(&third, 5, b"third");
            assert!(finds(&store, &third));
        }
        assert!(matches!(third.commit(6), Committed::Stored));
        assert_eq!(stored_body(&store), b"third");
        first.abort("the test is over");
    };
    check(false);
    check(true);
}

#[test]
fn a_response_is_not_stored_behind_one_that_was_complete_later() {
    let check = |later: fn(&Store, &Key, u64) -> FillWriter| {
        let store = loaded(&MemoryDisk::default(), options());
        let first = begin(&store, &key("a"), 1);
        receive(&first, 1, b"first");
        let later = later(&store, &key("a"), 2);
        receive(&later, 3, b"later");
        assert!(matches!(later.commit(4), Committed::Stored));
        assert!(matches!(first.commit(5), Committed::NotStored(None)));
        assert_eq!(stored_body(&store), b"later");
    };
    check(Store::refill);
    check(Store::begin_fill_beside);
}

#[test]
fn a_response_that_was_superseded_is_not_offered_again() {
    let store = loaded(&MemoryDisk::default(), options());
    let first = begin(&store, &key("a"), 1);
    receive(&first, 1, b"first");
    let (second, third) = (store.refill(&key("a"), 2), store.refill(&key("a"), 2));
    receive(&second, 3, b"second");
    receive(&third, 4, b"third");
    // As at the end of a body whose length was announced.
    second.offer();
    assert!(finds(&store, &third));
    assert!(matches!(second.commit(5), Committed::NotStored(None)));
    assert!(matches!(third.commit(6), Committed::Stored));
    assert!(matches!(first.commit(7), Committed::NotStored(None)));
    assert_eq!(stored_body(&store), b"third");
}

#[test]
fn a_response_is_not_stored_behind_the_refill_that_hid_it() {
    let store = loaded(&MemoryDisk::default(), options());
    let hidden = begin(&store, &key("a"), 1);
    let refill = store.refill(&key("a"), 2);
    receive(&hidden, 3, b"hidden");
    receive(&refill, 4, b"newer");
    assert!(matches!(refill.commit(5), Committed::Stored));
    assert!(matches!(hidden.commit(6), Committed::NotStored(None)));
    assert_eq!(stored_body(&store), b"newer");
}

#[test]
fn a_refill_that_fails_shows_the_fill_that_it_hid() {
    let store = loaded(&MemoryDisk::default(), options());
    let running = begin(&store, &key("a"), 1);
    running.publish_head(Bytes::new(), times(1), None, 1);
    let refill = store.refill(&key("a"), 2);
    assert!(finds(&store, &refill));
    let mut task = Context::from_waker(Waker::noop());
    assert!(running.poll_successor(&mut task).is_pending(), "its readers stay");
    refill.release();
    assert!(finds(&store, &running));
    running.append(Bytes::from_static(b"first"), 3);
    assert!(matches!(running.commit(4), Committed::Stored));
    assert_eq!(stored_body(&store), b"first");

    let gone = begin(&store, &key("a"), 5);
    let refill = store.refill(&key("a"), 6);
    drop(gone);
    drop(refill);
    assert!(store.lookup(&key("a"), 7).fill.is_none());
}

#[test]
fn the_last_of_several_unshared_fills_stays() {
    let store = loaded(&MemoryDisk::default(), options());
    store.lookup(&key("a"), 1);
    let writers = [store.begin_fill_beside(&key("a"), 1), store.begin_fill_beside(&key("a"), 1)];
    assert!(store.lookup(&key("a"), 1).fill.is_none());
    for (writer, body) in writers.into_iter().zip(["first", "second"]) {
        writer.publish_head(Bytes::new(), times(1), None, 1);
        writer.append(Bytes::from(body), 1);
        assert!(matches!(writer.commit(2), Committed::Stored));
        assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(body.into()));
    }
}

#[test]
fn memory_and_descriptors_are_bounded() {
    let mut settings = options();
    (settings.memory_bytes, settings.open_files_max) = (40_000, 16);
    let store = loaded(&MemoryDisk::default(), settings);
    for number in 0..200 {
        let length = if number % 2 == 0 { 80 } else { 800 };
        fill(&store, &key(&number.to_string()), "m", &body(length, 0), number);
    }
    let stats = store.stats();
    assert!(stats.memory_bytes > 0 && stats.memory_bytes <= 40_000, "{stats:?}");
    assert!(stats.open_files > 0 && stats.open_files <= 16, "{stats:?}");
    for number in 0..200 {
        assert!(served(&store, &key(&number.to_string())).is_some());
    }
    let stats = store.stats();
    assert!(stats.memory_bytes <= 40_000 && stats.open_files <= 16, "{stats:?}");
}

#[test]
fn reconfiguration_keeps_the_contents() {
    let store = loaded(&MemoryDisk::default(), options());
    fill(&store, &key("a"), "m", b"body", 1);
    let mut settings = options();
    settings.path = "/other".into();
    assert_eq!(store.reconfigure(settings.clone()), Err(ReconfigureError::Path));
    settings = options();
    settings.levels = Levels::default();
    assert_eq!(store.reconfigure(settings.clone()), Err(ReconfigureError::Levels));
    settings = options();
    settings.size_max = Some(0);
    assert_eq!(store.reconfigure(settings), Ok(()));
    assert!(served(&store, &key("a")).is_some());
    assert_eq!(store.manage_step(2, 10).removed_files, 1);
    assert_eq!(served(&store, &key("a")), None);
}

#[test]
fn keys_and_metadata_too_long_are_not_stored() {
    let store = loaded(&MemoryDisk::default(), options());
    let long = key(&"k".repeat(crate::KEY_BYTES_MAX + 1));
    assert!(matches!(fill(&store, &long, "m", b"body", 1), Committed::NotStored(None)));
    let metadata = "m".repeat(crate::METADATA_BYTES_MAX + 1);
    assert!(matches!(fill(&store, &key("a"), &metadata, b"b", 1), Committed::NotStored(None)));
}

#[test]
fn the_real_disk_does_the_same() {
    let directory = tempfile::tempdir().expect("directory");
    for temporary in [None, Some(directory.path().join("temporary"))] {
        let mut settings = Options::new(directory.path().join("cache"));
        settings.levels = Levels::parse("1:2").expect("levels");
        settings.temporary_directory = temporary;
        settings.memory_body_bytes_max = 100;
        let disk = || std::sync::Arc::new(RealDisk::default());
        let store = Store::open(settings.clone(), disk()).expect("open");
        for (name, length) in [("small", 10), ("large", 100_000), ("empty", 0)] {
            let text = body(length, 1);
            assert!(matches!(fill(&store, &key(name), "m", &text, 1), Committed::Stored));
            assert_eq!(served(&store, &key(name)), Some((b"m".to_vec(), text)));
        }
        let open = store.open_entry(&key("large"), 1).expect("disk").expect("entry");
        assert!(open.file().is_some_and(|file| file.system_file().is_some()));
        drop(begin(&store, &key("dropped"), 1));
        let store = Store::open(settings, disk()).expect("open");
        assert_eq!(load(&store), 3);
        let renewed = Bytes::from_static(b"renewed");
        assert!(renew(&store, &key("large"), renewed, times(9)).expect("disk"));
        let expected = Some((b"renewed".to_vec(), body(100_000, 1)));
        assert_eq!(served(&store, &key("large")), expected);
        for name in ["small", "large", "empty"] {
            assert!(store.remove(&key(name)).expect("disk"));
            assert_eq!(served(&store, &key(name)), None);
        }
    }
}

/// Followers of a fill rely on its file: the room of fills is reserved when their heads are known.
#[test]
fn fills_in_flight_claim_their_room() {
    let block = BLOCK as usize;
    let mut settings = options();
    settings.size_max = Some(5 * BLOCK);
    let store = loaded(&MemoryDisk::default(), settings);
    fill(&store, &key("old"), "m", &body(3 * block, 1), 1);
    let publish = |name, length| {
        let writer = begin(&store, &key(name), 2);
        writer.publish_head(Bytes::from_static(b"m"), times(2), length, 2);
        writer
    };
    let first = publish("first", Some(3 * BLOCK));
    assert!(first.fill().has_file(), "there is room once the old one has gone");
    let second = publish("second", Some(2 * BLOCK));
    assert!(!second.fill().has_file(), "header and checksums make it three blocks");
    assert!(store.peek(&key("second")).fill.is_none(), "no other request finds it");
    let unknown = publish("unknown", None);
    assert!(unknown.fill().has_file());
    unknown.append(body(block, 2).into(), 2);
    assert!(!unknown.flush_step().storing, "it has grown into what is claimed");
    first.abort("enough");
    let third = publish("third", Some(4 * BLOCK - 200));
    assert!(third.fill().has_file(), "claims end with their fills");
    third.append(body(4 * block - 200, 4).into(), 2);
    assert!(matches!(third.commit(3), Committed::Stored));
    let fourth = publish("fourth", Some(4 * BLOCK));
    assert!(fourth.fill().has_file(), "what is stored can be evicted");
}
