//! The state that all clones of a store share.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

use super::failures::Failures;
use super::options::Options;
use super::ownership::Ownership;
use super::rules::Purges;
use super::scrubber::Scrubber;
use super::walk::Loader;
use crate::disk::Disk;
use crate::hot::HotEntries;
use crate::index::Index;
use crate::key::KeyHash;
use crate::sync::{Mutex, RwLock};
use crate::verify::Alarm;

/// Locks for names in the cache directory; each is held across a few disk calls.
const PATH_LOCKS: usize = 64;

/// The most files that wait for removal by `manage_step`. Others stay on disk until the next start finds
/// them, which is better than memory without limit.
pub(super) const GARBAGE_MAX: usize = 64 * 1024;

pub(crate) struct StoreInner {
    /// A reference to itself, for entries that outlive it.
    pub(super) this: Weak<StoreInner>,
    pub index: Index,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: RwLock<Arc<Options>>,
    pub(super) hot: HotEntries,
    pub(super) path_locks: Box<[Mutex<()>]>,
    pub(super) garbage: Mutex<VecDeque<Garbage>>,
    pub(super) failures: Failures,
    /// Bytes of disk that running fills may take.
    pub(super) claimed: AtomicU64,
    pub(super) ownership: Ownership,
    pub(super) loader: Mutex<Loader>,
    pub(super) scrubber: Mutex<Scrubber>,
    pub(super) alarm: Arc<Alarm>,
    pub(crate) purges: Purges,
    pub(super) counters: Counters,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) temporaries: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) torn: AtomicU64,
    /// Files left on disk because too many waited for removal.
    pub(super) abandoned: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) disk_errors: AtomicU64,
    pub(super) loaded: AtomicBool,
}

/// A file to be removed by `manage_step`, and the bytes that are charged until then.
pub(super) enum Garbage {
    Temporary(PathBuf, u64),
    /// The file of a key that was removed from the index; it is kept if the key has been added again.
    Entry(KeyHash, u64),
}

impl StoreInner {
    /// Makes a store with an empty index. Reads the purge rules; blocks.
    pub(super) fn new(options: Options, disk: Arc<dyn Disk>) -> Arc<StoreInner> {
        Arc::new_cyclic(|this| StoreInner {
            this: this.clone(),
            index: Index::new(options.keys_bytes),
            purges: Purges::load(&options.path, &*disk, options.started_at),
            disk,
            hot: HotEntries::new(options.memory_bytes, options.open_files_max),
            path_locks: (0..PATH_LOCKS).map(|_| Mutex::new(())).collect(),
            garbage: Mutex::new(VecDeque::new()),
            failures: Failures::default(),
            claimed: AtomicU64::new(0),
            ownership: Ownership::default(),
            loader: Mutex::new(Loader::new(&options, false)),
            scrubber: Mutex::default(),
            alarm: Arc::default(),
            counters: Counters::default(),
            options: RwLock::new(Arc::new(options)),
        })
    }

    pub(crate) fn options(&self) -> Arc<Options> {
        self.options.read().clone()
    }

    pub(super) fn lock_path(&self, hash: &KeyHash) -> MutexGuard<'_, ()> {
        let [first, ..] = hash.0;
        self.path_locks[usize::from(first) % PATH_LOCKS].lock()
    }

    /// Leaves a temporary file, for which bytes are charged, to `manage_step`. Never blocks.
    pub(crate) fn discard_temporary(&self, path: PathBuf, bytes: u64) {
        self.discard(Garbage::Temporary(path, bytes), bytes);
    }

    pub(super) fn discard_entry(&self, hash: KeyHash, bytes: u64) {
        self.hot.forget(&hash);
        self.note_removed(&hash);
        self.discard(Garbage::Entry(hash, bytes), bytes);
    }

    fn discard(&self, garbage: Garbage, bytes: u64) {
        let mut waiting = self.garbage.lock();
        if waiting.len() < GARBAGE_MAX {
            waiting.push_back(garbage);
        } else {
            self.index.uncharge(bytes);
            self.counters.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an error of the disk, and keeps it for the log.
    pub(crate) fn disk_failed(&self, doing: &'static str, error: &io::Error) {
        self.counters.disk_errors.fetch_add(1, Ordering::Relaxed);
        self.failures.note(doing, error);
    }

    /// Counts an error and returns it.
    pub(crate) fn counted(&self, doing: &'static str, error: io::Error) -> io::Error {
        self.disk_failed(doing, &error);
        error
    }
}
