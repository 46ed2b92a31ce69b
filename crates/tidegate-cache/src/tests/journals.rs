//! The index over a restart: snapshot, journal, the lock of the directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::support::*;
use crate::fake::{Faults, MemoryDisk};
use crate::{Key, Levels, Options, Store, fuzz_journal};

fn owned() -> Options {
    let mut settings = options();
    settings.owner = Some("us".to_owned());
    settings.memory_bytes = 0;
    settings
}

/// Returns a store that has restored its index and not yet walked the directory.
fn restored(disk: &MemoryDisk, settings: Options, now: u64) -> Store {
    let store = open_with(disk, settings);
    while store.load_step(now, 1).restoring {}
    store
}

fn walk(store: &Store, now: u64) {
    while !store.load_step(now, 10).done {}
}

fn numbered(number: usize) -> Key {
    key(&format!("number {number}"))
}

fn fill_numbers(store: &Store, numbers: std::ops::Range<usize>, now: u64) {
    for number in numbers {
        fill(store, &numbered(number), "m", &body(number, 1), now);
    }
}

/// Returns the numbered keys that the index has, without a disk call.
fn known(store: &Store, numbers: std::ops::Range<usize>) -> Vec<usize> {
    numbers.filter(|number| store.peek(&numbered(*number)).entry.is_some()).collect()
}

fn assert_serves_right(store: &Store, numbers: std::ops::Range<usize>) {
    for number in numbers {
        if let Some((_, found)) = served(store, &numbered(number)) {
            assert!(found == body(number, 1), "wrong bytes of {number}");
        }
    }
}

fn own_files(disk: &MemoryDisk) -> Vec<PathBuf> {
    let names = [".index".to_owned(), ".index.new".to_owned()].into_iter();
    let journals = (0..200).map(|number| format!(".journal.{number}"));
    let paths = names.chain(journals).map(|name| Path::new(ROOT).join(name));
    paths.filter(|path| disk.contents(path).is_some()).collect()
}

#[test]
fn a_restart_restores_the_whole_index_at_once() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 100);
    walk(&store, 100);
    fill_numbers(&store, 0..20, 1000);
    fill_numbers(&store, 20..40, 60_000);
    store.remove(&numbered(7)).expect("disk");
    let before = store.stats();
    store.finish(100_000);
    drop(store);
    assert_eq!(own_files(&disk).len(), 2, "{:?}", own_files(&disk));
    // Two minutes during which no server ran do not count as unused.
    let store = restored(&disk.after_crash(), owned(), 220_000);
    let stats = store.stats();
    assert!(!stats.loaded);
    assert_eq!((stats.entries, stats.disk_bytes), (39, before.disk_bytes));
    assert_eq!(stats.charged_bytes, stats.disk_bytes);
    assert_eq!(known(&store, 0..40).len(), 39);
    assert_serves_right(&store, 0..40);
    walk(&store, 220_000);
    assert_eq!(store.stats().entries, 39);
    // The order of use is the one before the restart: `inactive` is ten minutes.
    assert_eq!(store.manage_step(121_000 + 600_000 - 1, 100).removed_files, 0);
    assert_eq!(store.manage_step(121_000 + 600_000, 100).removed_files, 19);
}

#[test]
fn a_restart_after_a_crash_restores_the_journal() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 1);
    fill_numbers(&store, 0..10, 1);
    let report = store.manage_step(2, 10);
    assert!(report.next_step_in <= 10_000);
    fill_numbers(&store, 10..15, 3);
    store.remove(&numbered(3)).expect("disk");
    assert!(store.manage_step(4, 10).next_step_in <= 10_000);
    // Not written any more:
    fill_numbers(&store, 15..20, 5);
    store.remove(&numbered(4)).expect("disk");
    let after = disk.after_crash();
    let store = restored(&after, owned(), 10);
    let expected: Vec<usize> = (0..15).filter(|number| *number != 3).collect();
    assert_eq!(known(&store, 0..20), expected);
    // A key that the journal lacks is found by its file name; a removed file is a miss.
    assert!(served(&store, &numbered(17)).is_some());
    assert!(served(&store, &numbered(4)).is_none());
    walk(&store, 10);
    assert_eq!(known(&store, 0..20).len(), 18);
    assert_eq!(after.paths().len(), 18);
    assert_eq!(store.stats().charged_bytes, 18 * 4096);
}

#[test]
fn files_changed_by_other_programs_are_detected() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 1);
    fill_numbers(&store, 0..6, 1);
    fill(&store, &key("large"), "m", &body(9000, 3), 1);
    store.finish(2);
    let paths = |number: usize| {
        let levels = Levels::parse("1:2").expect("levels");
        levels.path(Path::new(ROOT), numbered(number).hash())
    };
    let after = disk.after_crash();
    let large = disk
        .paths()
        .into_iter()
        .find(|path| disk.contents(path).is_some_and(|bytes| bytes.len() > 9000));
    let large = disk.contents(&large.expect("large")).expect("contents");
    after.put(&paths(1), b"foreign".to_vec());
    after.put(&paths(2), large);
    after.put(&paths(3), vec![0; 10_000]);
    let hidden = Path::new("/elsewhere");
    crate::Disk::create_directory(&after, hidden).expect("directory");
    crate::Disk::rename(&after, &paths(4), &hidden.join("4")).expect("rename");
    crate::Disk::rename(&after, &paths(5), &hidden.join("5")).expect("rename");
    let store = restored(&after, owned(), 3);
    assert_eq!(known(&store, 0..6).len(), 6);
    for number in [1, 2, 3, 4] {
        assert_eq!(served(&store, &numbered(number)), None, "{number}");
    }
    assert!(served(&store, &numbered(0)).is_some());
    walk(&store, 3);
    assert_eq!(known(&store, 0..6), [0]);
    assert_eq!(store.stats().disk_bytes, 4096 + 12_288);
    assert_eq!(store.stats().charged_bytes, 4096 + 12_288);
}

#[test]
fn damage_loses_no_more_than_itself() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 1);
    fill_numbers(&store, 0..8, 1);
    store.finish(1);
    fill_numbers(&store, 8..16, 2);
    store.manage_step(2, 10);
    drop(store);
    let whole = |damaged: &Path, bytes: Vec<u8>| {
        let after = disk.after_crash();
        after.put(damaged, bytes);
        let store = restored(&after, owned(), 3);
        let found = known(&store, 0..16).len();
        assert_serves_right(&store, 0..16);
        walk(&store, 3);
        assert_eq!(known(&store, 0..16).len(), 16);
        assert_eq!(store.stats().charged_bytes, 16 * 4096);
        // The next start works as well.
        store.finish(4);
        drop(store);
        assert_eq!(known(&restored(&after, owned(), 5), 0..16).len(), 16);
        found
    };
    let [snapshot, journal] = &own_files(&disk)[..] else { panic!("two files") };
    let bytes = disk.contents(snapshot).expect("snapshot");
    assert_eq!(whole(snapshot, bytes.clone()), 16);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x40;
        assert!(whole(snapshot, flipped) <= 8);
        assert!(whole(snapshot, bytes[..at].to_vec()) <= 8);
    }
    let bytes = disk.contents(journal).expect("journal");
    for at in 0..bytes.len() {
        let found = 8 + at.saturating_sub(32) / 40;
        assert_eq!(whole(journal, bytes[..at].to_vec()), found);
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x40;
        assert_eq!(whole(journal, flipped), found);
    }
}

#[test]
fn other_levels_mean_another_directory() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 1);
    fill_numbers(&store, 0..4, 1);
    store.finish(1);
    drop(store);
    let mut settings = owned();
    settings.levels = Levels::parse("2").expect("levels");
    let store = restored(&disk, settings, 2);
    assert_eq!(known(&store, 0..4), []);
}

#[test]
fn the_journal_does_not_grow_for_ever() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 1);
    let mut now = 1;
    let mut largest = 0;
    for round in 0..300 {
        for _ in 0..300 {
            fill(&store, &numbered(round % 5), "m", b"body", now);
        }
        now += 20_000;
        store.manage_step(now, 10);
        let sizes =
            own_files(&disk).into_iter().map(|path| disk.contents(&path).map_or(0, |b| b.len()));
        largest = largest.max(sizes.sum::<usize>());
        assert!(own_files(&disk).len() <= 2);
    }
    // 90000 changes would be 3.6 MB if all were kept.
    assert!(largest < 1 << 20, "{largest}");
}

#[test]
fn a_failing_disk_costs_the_index_and_nothing_else() {
    for fail_at in 1..300 {
        let disk = MemoryDisk::default();
        let store = restored(&disk, owned(), 1);
        disk.set_faults(Faults {
            fail_at: Some(fail_at),
            fail_on: fail_at % 2 == 0,
            torn_writes: true,
            bytes_max: 0,
        });
        for step in 0..6u64 {
            let number = step as usize;
            fill_numbers(&store, number * 2..number * 2 + 2, step);
            let _ = store.remove(&numbered(number));
            store.manage_step(step * 400_000, 10);
        }
        store.finish(3_000_000);
        let calls = disk.calls();
        drop(store);
        let after = disk.after_crash();
        let mut settings = owned();
        settings.started_at = 10;
        let store = restored(&after, settings, 3_000_000);
        assert_serves_right(&store, 0..12);
        walk(&store, 3_000_000);
        assert_serves_right(&store, 0..12);
        assert_eq!(after.paths().len(), store.stats().entries, "call {fail_at}");
        assert_eq!(store.stats().charged_bytes, store.stats().disk_bytes);
        store.finish(3_000_001);
        if calls < fail_at {
            return;
        }
    }
    panic!("more calls than expected");
}

#[test]
fn a_directory_has_one_owner_and_guests_of_its_instance() {
    let disk = MemoryDisk::default();
    let store = restored(&disk, owned(), 1);
    fill_numbers(&store, 0..3, 1);
    store.manage_step(1, 10);
    let mut other = owned();
    other.owner = Some("others".to_owned());
    let refused = Store::open(other.clone(), std::sync::Arc::new(disk.clone()));
    let error = refused.err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("us"), "{error}");
    // The new process of a binary upgrade finds files and writes no index.
    let before = own_files(&disk).iter().map(|path| disk.contents(path)).collect::<Vec<_>>();
    let guest = restored(&disk, owned(), 2);
    assert!(served(&guest, &numbered(1)).is_some());
    fill_numbers(&guest, 3..5, 2);
    walk(&guest, 2);
    guest.manage_step(2, 10);
    guest.finish(2);
    let now = own_files(&disk).iter().map(|path| disk.contents(path)).collect::<Vec<_>>();
    assert_eq!(before, now);
    // The old process stores some more and ends.
    fill_numbers(&store, 5..7, 3);
    store.finish(3);
    drop(store);
    assert!(guest.stats().loaded);
    guest.manage_step(4, 10);
    assert!(!guest.stats().loaded, "the directory is walked once more");
    walk(&guest, 4);
    assert_eq!(known(&guest, 0..7).len(), 7);
    guest.finish(5);
    drop(guest);
    assert_eq!(known(&restored(&disk, other, 6), 0..7).len(), 7, "free for others now");
}

#[test]
fn an_entry_takes_less_than_160_bytes() {
    // The table has one number and one byte of control for each of its places, of which at least
    // 7 of 16 are in use; vectors double.
    let table = 5 * 16 / 7 + 1;
    assert!(2 * crate::index::ENTRY_BYTES + table <= 160);
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(input in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_journal(&input);
    }
}
