//! Events between two disk calls: a disk with callbacks in the middle of a call.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::purges;
use super::support::*;
use crate::fake::MemoryDisk;
use crate::index::Index;
use crate::sync::Mutex;
use crate::{Committed, DirectoryItem, Disk, FileHandle, Purge, Store};

type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Calls back once before a file is created, and once after one is opened or renamed.
#[derive(Default)]
struct HookedDisk {
    inner: MemoryDisk,
    before_create: Hook,
    after_rename: Hook,
    after_open: Hook,
    /// The error of the next such call.
    open_error: Mutex<Option<io::ErrorKind>>,
    rename_error: Mutex<Option<io::ErrorKind>>,
    /// A directory on another file system.
    elsewhere: Option<&'static str>,
}

impl Disk for HookedDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn create(&self, path: &Path) -> io::Result<FileHandle> {
        call(&self.before_create);
        self.inner.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        match self.open_error.lock().take() {
            Some(error) => Err(error.into()),
            None => {
                let opened = self.inner.open(path);
                call(&self.after_open);
                opened
            }
        }
    }

    fn open_for_update(&self, path: &Path) -> io::Result<FileHandle> {
        self.inner.open_for_update(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Some(error) = self.rename_error.lock().take() {
            return Err(error.into());
        }
        let is_elsewhere =
            |path: &Path| self.elsewhere.is_some_and(|other| path.starts_with(other));
        if is_elsewhere(from) != is_elsewhere(to) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let result = self.inner.rename(from, to);
        call(&self.after_rename);
        result
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryItem>> {
        self.inner.list(path)
    }

    fn modified_at(&self, path: &Path) -> io::Result<u64> {
        self.inner.modified_at(path)
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.file_bytes(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<FileHandle>> {
        self.inner.try_lock(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_directory(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }
}

fn call(hook: &Hook) {
    let taken = hook.lock().take();
    if let Some(hook) = taken {
        hook();
    }
}

fn hooked() -> (Arc<HookedDisk>, Store) {
    let disk = Arc::new(HookedDisk::default());
    let store = Store::open(options(), disk.clone()).expect("open");
    load(&store);
    (disk, store)
}

#[test]
fn a_fill_taken_over_while_it_is_renamed_is_stored() {
    let (disk, store) = hooked();
    fill(&store, &key("a"), "old", b"old body", 1);
    let writer = begin(&store, &key("a"), 2);
    writer.publish_head(Bytes::from_static(b"new"), times(2), None, 2);
    let (other, other_key) = (store.clone(), key("a"));
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    *disk.after_rename.lock() =
        Some(Box::new(move || *keep.lock() = Some(other.take_over_fill(&other_key, 3))));
    assert!(matches!(writer.commit(4), Committed::Stored));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(Vec::new()));
    assert!(store.lookup(&key("a"), 5).fill.is_some());
    assert_eq!(disk.inner.paths().len(), 1);
    drop(kept.lock().take());
}

#[test]
fn a_fill_aborted_while_its_file_is_created_leaves_none() {
    let (disk, store) = hooked();
    let writer = begin(&store, &key("a"), 1);
    writer.publish_head(Bytes::new(), times(1), None, 1);
    writer.append(Bytes::from_static(b"bytes"), 1);
    let flusher = writer.flusher();
    *disk.before_create.lock() = Some(Box::new(move || writer.abort("client left")));
    assert!(!flusher.flush_step().storing);
    assert_eq!(disk.inner.paths().len(), 1);
    store.manage_step(2, 10);
    assert!(disk.inner.paths().is_empty());
}

#[test]
fn a_temporary_directory_elsewhere_means_copying() {
    let disk = Arc::new(HookedDisk { elsewhere: Some("/elsewhere"), ..HookedDisk::default() });
    let mut settings = options();
    settings.temporary_directory = Some("/elsewhere/temporary".into());
    let store = Store::open(settings, disk.clone()).expect("open");
    load(&store);
    let text = body(600_000, 2);
    assert!(matches!(fill(&store, &key("a"), "m", &text, 1), Committed::Stored));
    assert!(served(&store, &key("a")).is_some_and(|(_, body)| body == text));
    let paths = disk.inner.paths();
    assert!(paths.len() == 1 && paths[0].starts_with(ROOT), "{paths:?}");
}

#[test]
fn a_failed_renaming_leaves_nothing() {
    let (disk, store) = hooked();
    *disk.rename_error.lock() = Some(io::ErrorKind::PermissionDenied);
    assert!(matches!(fill(&store, &key("a"), "m", b"body", 1), Committed::NotStored(Some(_))));
    store.manage_step(2, 10);
    assert!(disk.inner.paths().is_empty());
    assert!(store.lookup(&key("a"), 3).entry.is_none());
}

/// A file that is being replaced may seem to be missing: it is looked up once more under the path lock before
/// it is removed from the index.
#[test]
fn a_file_missed_once_is_not_forgotten() {
    let disk = Arc::new(HookedDisk::default());
    let mut settings = options();
    settings.memory_bytes = 0;
    let store = Store::open(settings, disk.clone()).expect("open");
    load(&store);
    fill(&store, &key("a"), "m", b"body", 1);
    *disk.open_error.lock() = Some(io::ErrorKind::NotFound);
    assert!(served(&store, &key("a")).is_some());
    *disk.open_error.lock() = Some(io::ErrorKind::Other);
    assert!(store.open_entry(&key("a"), 2).is_err(), "a failing disk is no miss");
    assert!(served(&store, &key("a")).is_some());
}

/// The object that a purge concerns is replaced while it is opened.
#[test]
fn a_purge_leaves_an_object_that_is_stored_meanwhile() {
    for soft in [false, true] {
        let (disk, store) = hooked();
        purges::put(&store, "a", "", 1);
        // After a restart it is not open.
        drop(store);
        let store = Store::open(options(), disk.clone()).expect("open");
        load(&store);
        store.read_metadata_by(purges::reader);
        let purge = Purge { scope: purges::prefix("a"), soft };
        store.purge(purge, 2).expect("purged");
        let other = store.clone();
        *disk.after_open.lock() = Some(Box::new(move || purges::put(&other, "a", "", 3)));
        let opened = store.open_entry(&key("a"), 4).expect("disk");
        assert_eq!(opened.is_some(), soft, "the older one is purged");
        assert_eq!(purges::state(&store, "a", 5), "fresh");
        assert_eq!(disk.inner.paths().len(), 1);
    }
}

#[test]
fn the_removal_of_another_key_concerns_no_unshared_fill() {
    let store = loaded(&MemoryDisk::default(), options());
    fill(&store, &key("a"), "m", b"old", 1);
    let writer = store.begin_fill_beside(&key("a"), 2);
    writer.publish_head(Bytes::new(), times(2), None, 2);
    store.remove(&key("b")).expect("disk");
    assert!(matches!(writer.commit(3), Committed::Stored));
    let writer = store.begin_fill_beside(&key("a"), 4);
    writer.publish_head(Bytes::new(), times(4), None, 4);
    store.remove(&key("a")).expect("disk");
    assert!(matches!(writer.commit(5), Committed::NotStored(None)));
}

#[test]
fn a_removal_by_generation_leaves_what_was_stored_since() {
    let store = loaded(&MemoryDisk::default(), options());
    fill(&store, &key("a"), "m", b"old", 1);
    let old = store.lookup(&key("a"), 2).entry.expect("an object").generation;
    fill(&store, &key("a"), "m", b"new", 3);
    assert!(!store.remove_generation(&key("a"), old).expect("disk"));
    assert_eq!(served(&store, &key("a")).map(|(_, body)| body), Some(b"new".to_vec()));
    let new = store.lookup(&key("a"), 4).entry.expect("an object").generation;
    let running = begin(&store, &key("a"), 5);
    assert!(store.remove_generation(&key("a"), new).expect("disk"));
    let found = store.lookup(&key("a"), 6);
    assert!(found.entry.is_none() && found.fill.is_some());
    assert_eq!(store.stats().disk_bytes, 0);
    drop(running);
}

#[test]
fn an_entry_used_meanwhile_is_not_evicted() {
    let index = Index::new(1 << 20);
    index.count_use(key("a").hash(), 1, |_, _| ());
    let victim = index.oldest().expect("victim");
    index.touch(key("a").hash(), 2);
    assert_eq!(index.evict(&victim), None);
    assert_eq!(index.evict(&index.oldest().expect("victim")), Some(0));
    assert_eq!(index.keys(), 0);
}
