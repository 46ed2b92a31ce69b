//! Damage on disk and failing disks: no wrong byte is served, and the store continues to work.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::support::*;
use crate::disk::Stamp;
use crate::fake::{Faults, MemoryDisk};
use crate::fuzz::block_on;
use crate::{Committed, Options, Piece, RealDisk, Store, Sync};

/// Options that keep nothing in memory, so that every lookup opens the file.
fn forgetful() -> Options {
    let mut settings = options();
    settings.memory_bytes = 0;
    settings.fill_tail_bytes_max = 1 << 20;
    settings
}

/// Returns what a client would get: the whole body, nothing, or a part that ends broken.
fn read_verified(store: &Store, name: &str) -> Option<Result<Vec<u8>, Vec<u8>>> {
    let entry = store.open_entry(&key(name), 0).expect("disk")?;
    let (_, whole) = contents(&entry);
    let mut offset = 0;
    while offset < entry.body_bytes() {
        if entry.verified_to(offset, 0) == offset && !entry.verify(offset, 1, 0).expect("disk") {
            return Some(Err(whole[..offset as usize].to_vec()));
        }
        offset = match entry.verified_to(offset, 0) {
            same if same == offset => match entry.read_verified(offset, u64::MAX, 0).expect("disk")
            {
                Some(bytes) => offset + bytes.len() as u64,
                None => return Some(Err(whole[..offset as usize].to_vec())),
            },
            further => further,
        };
    }
    Some(Ok(whole))
}

#[test]
fn no_flipped_byte_is_served() {
    // In memory; in a file; compared at open as a whole; in parts.
    for length in [50usize, 300, 70_000, 1_300_000] {
        let disk = MemoryDisk::default();
        let whole = body(length, 5);
        let store = loaded(&disk, forgetful());
        fill(&store, &key("a"), "m", &whole, 1);
        assert_eq!(read_verified(&store, "a"), Some(Ok(whole.clone())));
        let path = disk.paths().remove(0);
        let good = disk.contents(&path).expect("file");
        let step = (good.len() / 200).max(1);
        for at in (0..good.len()).step_by(step).chain([good.len() - 1]) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            disk.put(&path, bytes);
            let store = loaded(&disk, forgetful());
            match read_verified(&store, "a") {
                // The padding and the metadata slot that is not in use have no effect.
                Some(Ok(found)) => assert!(found == whole && at < good.len() - length, "{at}"),
                Some(Err(part)) => {
                    assert!(whole.starts_with(&part) && part.len() >= 1 << 20, "{at}");
                    assert_eq!(store.open_entry(&key("a"), 0).expect("disk").map(|_| ()), None);
                    assert!(disk.paths().is_empty());
                }
                None => assert!(disk.paths().is_empty()),
            }
            disk.put(&path, good.clone());
        }
    }
}

#[test]
fn damage_in_one_file_makes_the_others_be_read_into_memory() {
    let disk = MemoryDisk::default();
    let store = loaded(&disk, forgetful());
    let whole = body(700_000, 5);
    fill(&store, &key("a"), "m", &whole, 1);
    let path = disk.paths().remove(0);
    fill(&store, &key("b"), "m", &whole, 1);
    let entry = store.open_entry(&key("b"), 0).expect("disk").expect("entry");
    assert_eq!((entry.verified_to_cached(0, 0), entry.is_suspect(0)), (700_000, false));
    let mut bytes = disk.contents(&path).expect("file");
    bytes[500_000] ^= 1;
    disk.put(&path, bytes);
    assert!(store.open_entry(&key("a"), 0).expect("disk").is_none());
    assert_eq!((entry.verified_to_cached(0, 0), entry.is_suspect(0)), (0, true));
    // Several blocks at a time, from the middle of one on, and no more than was requested.
    let part = |offset: u64, length: u64| entry.read_verified(offset, length, 0).expect("disk");
    assert_eq!(part(0, u64::MAX).as_deref(), Some(&whole[..4 << 16]));
    assert_eq!(part(70_000, 200_000).as_deref(), Some(&whole[70_000..270_000]));
    assert_eq!(part(690_000, 1 << 20).as_deref(), Some(&whole[690_000..]));
    assert_eq!(part(5, 1).as_deref(), Some(&whole[5..6]));
    assert_eq!(part(700_000, 1), None);
    // For a minute.
    for (now, suspect, known) in [(59_999, true, 0), (60_000, false, 700_000)] {
        assert_eq!(
            (entry.is_suspect(now), entry.verified_to_cached(0, now)),
            (suspect, known),
            "{now}"
        );
    }
}

#[test]
fn a_change_is_young_as_long_as_another_may_have_its_time() {
    // A file that changed a second after the epoch, by the moment when a look at it began. A change during
    // that look is young; one in an hour comes from a clock that was set back.
    let stamp = Stamp { changed: 1_000_000_000, ..Stamp::default() };
    for (now, young) in [(1_000, true), (1_049, true), (1_050, false), (900, true), (0, true)] {
        assert_eq!(stamp.is_young(now), young, "{now}");
    }
    let ahead = Stamp { changed: 3_600_000_000_000, ..Stamp::default() };
    assert!(!ahead.is_young(1_000) && ahead.is_young(3_599_000));
}

#[test]
fn changes_of_an_open_file_are_counted() {
    let disk = MemoryDisk::default();
    let store = loaded(&disk, forgetful());
    fill(&store, &key("a"), "m", &body(200_000, 5), 1);
    let entry = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
    assert_eq!((entry.changes(), entry.changes()), (0, 0));
    let path = disk.paths().remove(0);
    let good = disk.contents(&path).expect("file");
    let mut bytes = good.clone();
    bytes[100_000] ^= 1;
    disk.overwrite(&path, bytes);
    // Another caller may have detected the change before.
    assert_eq!(entry.verified_to(0, 0), 0);
    assert_eq!((entry.changes(), entry.changes()), (1, 1));
    disk.overwrite(&path, good);
    assert_eq!(entry.changes(), 2);
    assert!(entry.verify(0, 200_000, 0).expect("disk"));
}

#[test]
fn a_renewed_file_stays_verified_and_sound() {
    let disk = MemoryDisk::default();
    let whole = body(200_000, 5);
    let store = loaded(&disk, options());
    fill(&store, &key("a"), "m", &whole, 1);
    for metadata in ["renewed in place", &"by a copy".repeat(100)] {
        let bytes = Bytes::copy_from_slice(metadata.as_bytes());
        renew(&store, &key("a"), bytes, times(2)).expect("disk");
        assert_eq!(read_verified(&store, "a"), Some(Ok(whole.clone())));
        let restarted = loaded(&disk.after_crash(), forgetful());
        assert_eq!(read_verified(&restarted, "a"), Some(Ok(whole.clone())));
    }
}

#[test]
fn a_block_is_compared_once() {
    let disk = MemoryDisk::default();
    let store = loaded(&disk, options());
    fill(&store, &key("a"), "m", &body(2_000_000, 5), 1);
    let entry = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
    assert_eq!(entry.verified_to(0, 0), 2_000_000, "what this process wrote it trusts");
    let store = loaded(&disk.after_crash(), options());
    let entry = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
    assert_eq!(entry.verified_to(100, 0), 1 << 20, "the first megabyte is compared at open");
    assert_eq!(entry.verified_to(1 << 20, 0), 1 << 20);
    assert!(entry.verify((1 << 20) + 5, 70_000, 0).expect("disk"));
    assert_eq!(entry.verified_to(1 << 20, 0), (1 << 20) + 2 * 65_536);
    assert!(entry.verify(0, u64::MAX, 0).expect("disk"));
    assert_eq!(entry.verified_to(0, 0), 2_000_000);
    let again = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
    assert_eq!(again.verified_to(0, 0), 2_000_000);
}

#[test]
fn a_file_that_is_changed_while_it_is_open_is_compared_again() {
    for (length, renewed, at) in [
        (70_000usize, false, 69_000usize),
        (70_000, true, 3),
        (1_300_000, false, 1_200_000),
        (3_000_000, true, 2_900_000),
        (3_000_000, false, 10),
    ] {
        let disk = MemoryDisk::default();
        let store = loaded(&disk, options());
        fill(&store, &key("a"), "m", &body(length, 5), 1);
        if renewed {
            renew(&store, &key("a"), Bytes::from_static(b"n"), times(2)).expect("disk");
        }
        let entry = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
        assert_eq!(entry.verified_to(0, 0), length as u64);
        let path = disk.paths().remove(0);
        let mut bytes = disk.contents(&path).expect("file");
        bytes[entry.body_start() as usize + at] ^= 1;
        disk.overwrite(&path, bytes);
        // A client that has it open already.
        assert_eq!(entry.verified_to(0, 0), 0);
        let block = at as u64 / 65_536 * 65_536;
        if block > 0 {
            assert!(entry.verify(0, block, 0).expect("disk"));
            assert_eq!(entry.verified_to(0, 0), block);
        }
        assert!(entry.read_verified(0, 100, 0).expect("disk").is_some() == (block > 0));
        assert!(!entry.verify(block, 1, 0).expect("disk"));
        // A new client.
        assert_eq!(store.open_entry(&key("a"), 0).expect("disk").map(|_| ()), None);
        assert!(disk.paths().is_empty());
    }
}

#[test]
fn a_new_client_gets_no_damaged_entry_whose_change_another_response_has_noticed() {
    let disk = MemoryDisk::default();
    let store = loaded(&disk, options());
    fill(&store, &key("a"), "m", &body(200_000, 5), 1);
    let entry = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
    let path = disk.paths().remove(0);
    let mut bytes = disk.contents(&path).expect("file");
    bytes[entry.body_start() as usize + 10] ^= 1;
    disk.overwrite(&path, bytes);
    // The end of a response, which has nothing left to send.
    assert_eq!(entry.changes(), 1);
    assert_eq!(store.open_entry(&key("a"), 0).expect("disk").map(|_| ()), None);
    assert!(disk.paths().is_empty());
}

#[test]
fn a_file_that_is_written_over_with_its_own_bytes_stays() {
    let disk = MemoryDisk::default();
    let whole = body(200_000, 5);
    let store = loaded(&disk, options());
    fill(&store, &key("a"), "m", &whole, 1);
    let path = disk.paths().remove(0);
    let good = disk.contents(&path).expect("file");
    disk.overwrite(&path, vec![0; 10]);
    disk.overwrite(&path, good);
    assert_eq!(read_verified(&store, "a"), Some(Ok(whole)));
}

#[test]
fn the_scrubber_finds_damage_before_a_request_does() {
    let disk = MemoryDisk::default();
    let store = loaded(&disk, forgetful());
    for (name, length) in [("a", 50), ("b", 70_000), ("c", 3_000_000), ("d", 200)] {
        fill(&store, &key(name), "m", &body(length, 5), 1);
    }
    let mut rounds = 0;
    let mut round = |store: &Store| {
        let (mut sound, mut damaged) = (0, Vec::new());
        rounds += 1;
        loop {
            let report = store.scrub_step(100_000, 0);
            assert!(report.bytes < 300_000, "a step is short");
            sound += report.sound;
            damaged.extend(report.damaged);
            if report.round_ended {
                return (sound, damaged);
            }
        }
    };
    assert_eq!(round(&store), (4, Vec::new()));
    let large = |path: &std::path::PathBuf| disk.contents(path).is_some_and(|b| b.len() > 1 << 20);
    let paths = disk.paths();
    let (big, small) = (paths.iter().find(|p| large(p)), paths.iter().find(|p| !large(p)));
    let (big, small) = (big.expect("c").clone(), small.expect("another").clone());
    let mut bytes = disk.contents(&big).expect("file");
    bytes[2_500_000] ^= 1;
    disk.overwrite(&big, bytes);
    disk.overwrite(&small, b"not a cache file".to_vec());
    let (sound, mut damaged) = round(&store);
    damaged.sort();
    let mut expected = vec![big, small];
    expected.sort();
    assert_eq!((sound, damaged), (2, expected));
    assert_eq!(disk.paths().len(), 2);
    assert_eq!(round(&store), (2, Vec::new()));
    assert_eq!(store.stats().entries, 2);
}

#[test]
fn a_store_on_a_full_or_failing_disk_still_serves() {
    for error in [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::ReadOnlyFilesystem] {
        let disk = MemoryDisk::default();
        let store = loaded(&disk, forgetful());
        fill(&store, &key("before"), "m", b"stored before", 1);
        disk.set_error(error);
        disk.set_faults(Faults { fail_at: Some(1), fail_on: true, ..Faults::default() });
        let whole = body(30_000, 2);
        let writer = begin(&store, &key("a"), 2);
        let mut reader = writer.fill().reader(0);
        writer.publish_head(Bytes::new(), times(2), Some(30_000), 2);
        let mut got = Vec::new();
        for part in whole.chunks(5000) {
            writer.append(Bytes::copy_from_slice(part), 2);
            writer.flush_step();
            if let Piece::Bytes(bytes) = block_on(reader.next(5000)) {
                got.extend_from_slice(&bytes);
            }
        }
        assert!(matches!(writer.commit(3), Committed::NotStored(_)));
        let (rest, end) = drain(&mut reader, 5000);
        got.extend_from_slice(&rest);
        assert_eq!((got == whole, end), (true, Ok(())));
        assert!(store.open_entry(&key("before"), 3).is_err(), "known, and not to be had now");
        assert!(store.stats().disk_errors > 0);
        let reported =
            store.take_failures().map(|failures| (failures.count, failures.error.kind()));
        assert_eq!(reported, Some((store.stats().disk_errors, error)));
        assert!(store.take_failures().is_none());
        disk.set_faults(Faults::default());
        assert!(served(&store, &key("before")).is_some());
        assert!(matches!(fill(&store, &key("a"), "m", &whole, 4), Committed::Stored));
        store.manage_step(5, 100);
        assert_eq!(disk.paths().len(), 2);
        assert_eq!(store.stats().charged_bytes, store.stats().disk_bytes);
    }
}

#[test]
fn a_directory_that_gives_no_lock_is_used_by_a_guest() {
    let open_failing = |error, lock_is_there: bool| {
        let disk = MemoryDisk::default();
        // Without an owner the lock is not requested.
        drop(open(&disk));
        let calls_before = disk.calls();
        if lock_is_there {
            disk.put(Path::new("/cache/.lock"), b"other\n".to_vec());
        }
        disk.set_error(error);
        disk.set_faults(Faults { fail_at: Some(calls_before + 1), ..Faults::default() });
        let mut settings = options();
        settings.owner = Some("us".to_owned());
        Store::open(settings, Arc::new(disk)).map_err(|error| error.kind())
    };
    let cases = [
        (ErrorKind::ReadOnlyFilesystem, true),
        (ErrorKind::StorageFull, false),
        (ErrorKind::PermissionDenied, false),
    ];
    for (error, lock_is_there) in cases {
        let store = open_failing(error, lock_is_there).expect("served from");
        assert_eq!(store.take_failures().map(|failures| failures.count), Some(1));
        load(&store);
        assert!(matches!(fill(&store, &key("a"), "m", b"stored", 1), Committed::Stored));
    }
    let refused = open_failing(ErrorKind::PermissionDenied, true).map(drop);
    assert_eq!(refused, Err(ErrorKind::PermissionDenied), "it is another user's");
}

#[test]
fn an_unreadable_file_is_removed() {
    let disk = MemoryDisk::default();
    fill(&loaded(&disk, forgetful()), &key("a"), "m", &body(2_000_000, 5), 1);
    let store = loaded(&disk, forgetful());
    let entry = store.open_entry(&key("a"), 0).expect("disk").expect("entry");
    disk.set_faults(Faults { fail_at: Some(1), ..Faults::default() });
    assert!(entry.verify(1 << 20, 1, 0).is_err());
    assert!(store.open_entry(&key("a"), 0).expect("disk").is_none());
    assert!(disk.paths().is_empty());
}

#[test]
fn a_removed_directory_is_made_again() {
    let directory = tempfile::tempdir().expect("directory");
    let mut settings = forgetful();
    settings.path = directory.path().join("cache");
    settings.owner = Some("us".to_owned());
    let store = Store::open(settings.clone(), Arc::new(RealDisk::default())).expect("open");
    load(&store);
    fill(&store, &key("a"), "m", b"first", 1);
    std::fs::remove_dir_all(&settings.path).expect("removed");
    assert_eq!(served(&store, &key("a")), None);
    assert!(matches!(fill(&store, &key("a"), "m", b"second", 2), Committed::Stored));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(b"second".to_vec()));
    store.manage_step(3, 10);
    assert_eq!(store.stats().charged_bytes, 4096);
}

#[test]
fn fsync_synchronizes_files_and_names() {
    let check = |sync: Sync, at_least: u64, at_most: u64| {
        let disk = MemoryDisk::default();
        let mut settings = options();
        settings.sync = sync;
        let store = loaded(&disk, settings);
        fill(&store, &key("a"), "m", &body(3000, 0), 1);
        assert!((at_least..=at_most).contains(&disk.syncs()), "{sync:?}: {}", disk.syncs());
        // A disk that cannot synchronize stores nothing.
        for fail_at in 1..100 {
            disk.set_faults(Faults { fail_at: Some(fail_at), ..Faults::default() });
            fill(&store, &key("b"), "m", &body(3000, 0), 2);
            let done = disk.calls() < fail_at;
            disk.set_faults(Faults::default());
            let found = served(&store, &key("b"));
            assert!(found.is_none_or(|(_, found)| found == body(3000, 0)));
            if done {
                return;
            }
        }
    };
    check(Sync::Off, 0, 0);
    check(Sync::Data, 1, 1);
    check(Sync::All, 2, 3);
}
