//! The open-file cache: coherent, shared by all threads, on by default.
//!
//! A hit costs a lookup in a table of the thread's own and no lock. Before the first request of a batch of received
//! ones, one system call checks whether any change is pending (see [`tidegate_os::watch::Pending`]; about 0.1 µs,
//! at any depth of directories). The kernel queues a change before the call that made it returns, so a request that
//! is received after a write has ended never gets the old file. Where changes are not reported (network file
//! systems, no watches left, directories that may not be read) the name is checked for each request, by a
//! [`PathStamp`] where there is such a thing (Windows). Writing through a memory mapping is reported when the mapping
//! ends, not before.
//!
//! New entries are loaded and watched by a thread of their own (`admission.rs`): beginning a watch can take the
//! kernel milliseconds for a directory in which many names have been looked up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_os::path_stamp::PathStamp;
use tidegate_os::watch::Pending;
use tidegate_os::{FileKind, Seen, Stat};

use super::entry::{Entry, EntryKind, LinkRule, Links, query_nonblocking, query_path};

mod admission;
mod shared;
#[cfg(test)]
mod tests;

use admission::Admission;
#[cfg(test)]
pub(super) use admission::admitted;
use shared::shared;

/// How a location uses the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// `open_file_cache_valid`: age up to which a check is valid. `None`: entries are always current.
    pub window: Option<Duration>,
    /// `open_file_cache_errors`: whether `window` applies to absent files and other errors, too.
    pub errors: bool,
    /// `open_file_cache_min_uses`: requests before an entry is kept.
    pub uses_min: u32,
    pub memory: Memory,
}

/// The limits of file contents in memory (`open_file_cache_memory`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Bytes of all files.
    pub bytes_max: usize,
    /// Bytes of one file.
    pub file_max: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { window: None, errors: true, uses_min: 2, memory: Memory::default() }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { bytes_max: 64 * 1024 * 1024, file_max: 256 * 1024 }
    }
}

impl Policy {
    /// Returns whether an entry must be current although others may be stale.
    fn is_strict_on(&self, entry: &Entry) -> bool {
        self.window.is_some() && !self.errors && matches!(entry.what, EntryKind::Failed(_))
    }
}

/// Entries in a thread's own table.
const THREAD_ENTRIES_MAX: usize = 8 * 1024;
/// Paths whose requests are counted. A path that is requested only once is not worth a watch.
const SEEN_SLOTS: usize = 4096;

/// Does the same as [`find`], but returns `None` where it might block on a disk.
pub(super) fn find_nonblocking(path: &[u8], rule: LinkRule, policy: &Policy) -> Option<Arc<Entry>> {
    let query = CacheQuery { path, rule, policy, nonblocking: true };
    THREAD.with(|table| table.try_borrow_mut().ok()?.find(&query))
}

/// Returns the entry of `path`, as current as the policy demands.
pub(super) fn find(path: &[u8], rule: LinkRule, policy: &Policy) -> Arc<Entry> {
    let query = CacheQuery { path, rule, policy, nonblocking: false };
    let found = THREAD.with(|table| table.try_borrow_mut().ok()?.find(&query));
    found.unwrap_or_else(|| Arc::new(Entry::load(path, rule, 0)))
}

/// Does the same as [`test()`], but returns `None` where it might block on a disk.
pub(super) fn test_nonblocking(
    path: &[u8],
    rule: LinkRule,
    policy: &Policy,
) -> Option<io::Result<PathInfo>> {
    let query = CacheQuery { path, rule, policy, nonblocking: true };
    THREAD.with(|table| table.try_borrow_mut().ok()?.test(&query))
}

/// Does the same as [`find`] for callers that do not need a file's contents: a file that is not cached is not
/// opened.
pub(super) fn test(path: &[u8], rule: LinkRule, policy: &Policy) -> io::Result<PathInfo> {
    let query = CacheQuery { path, rule, policy, nonblocking: false };
    let path_info = THREAD.with(|table| table.try_borrow_mut().ok()?.test(&query));
    path_info.unwrap_or_else(|| query_path(path, rule).map(|stat| PathInfo::seen(&stat)))
}

/// A lookup in the cache.
struct CacheQuery<'a> {
    path: &'a [u8],
    rule: LinkRule,
    policy: &'a Policy,
    /// Whether it must not block on a disk.
    nonblocking: bool,
}

impl CacheQuery<'_> {
    /// Queries the file system; `None` where that might block on a disk and must not.
    fn query_path(&self) -> Option<io::Result<Stat>> {
        match self.nonblocking {
            true => query_nonblocking(self.path, self.rule),
            false => Some(query_path(self.path, self.rule)),
        }
    }

    fn may_load(&self) -> bool {
        !self.nonblocking || tidegate_os::open::is_name_cached(tidegate_os::path::of(self.path))
    }

    fn admission(&self, key: &[u8]) -> Admission {
        Admission::new(key, self.path, self.rule, self.policy.memory)
    }
}

/// The lookup might block on a disk.
struct DiskNeeded;

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathInfo {
    pub kind: FileKind,
    pub executable: bool,
}

impl PathInfo {
    fn seen(stat: &Stat) -> PathInfo {
        PathInfo { kind: stat.kind, executable: stat.mode & 0o100 != 0 }
    }

    fn of(entry: &Entry) -> io::Result<PathInfo> {
        let kind = match &entry.what {
            EntryKind::File(_) => FileKind::File,
            EntryKind::Directory => FileKind::Directory,
            EntryKind::Other => FileKind::Other,
            EntryKind::Failed(errno) => return Err(io::Error::from_raw_os_error(*errno)),
        };
        Ok(PathInfo { kind, executable: entry.executable })
    }
}

thread_local! {
    static THREAD: RefCell<ThreadTable> = RefCell::new(ThreadTable::new());
}

/// A thread's own table, which needs no lock. It keeps nothing open: an entry that the shared cache drops is freed.
struct ThreadTable {
    entries: HashMap<Box<[u8]>, Weak<Entry>, RandomState>,
    pending: Option<Pending>,
    /// When `pending` was last checked; see [`tidegate_rt::batch_epoch`].
    settled: Option<u64>,
    hasher: RandomState,
    /// Hashes of keys that were not found, with the number of requests.
    seen: Box<[(u64, u32)]>,
    key: Vec<u8>,
}

impl ThreadTable {
    fn new() -> ThreadTable {
        let watcher = shared().watcher.as_ref();
        ThreadTable {
            entries: HashMap::default(),
            pending: watcher.and_then(|watcher| Pending::new(watcher).ok()),
            settled: None,
            hasher: RandomState::default(),
            seen: vec![(0, 0); SEEN_SLOTS].into(),
            key: Vec::new(),
        }
    }

    fn find(&mut self, query: &CacheQuery<'_>) -> Option<Arc<Entry>> {
        let mut key = std::mem::take(&mut self.key);
        write_key(query.path, query.rule, &mut key);
        let entry = match self.known(&key, query) {
            Ok(None) => query.may_load().then(|| self.loaded(&key, query)),
            known => known.ok().flatten(),
        };
        self.key = key;
        entry
    }

    /// Loads an entry that is not in the cache; it is added if it is requested often enough.
    fn loaded(&mut self, key: &[u8], query: &CacheQuery<'_>) -> Arc<Entry> {
        if self.is_worth_keeping(key, query.policy.uses_min) {
            shared().admit(query.admission(key));
        }
        Arc::new(Entry::load(query.path, query.rule, 0))
    }

    fn test(&mut self, query: &CacheQuery<'_>) -> Option<io::Result<PathInfo>> {
        let mut key = std::mem::take(&mut self.key);
        write_key(query.path, query.rule, &mut key);
        let path_info = match self.known(&key, query) {
            Ok(Some(entry)) => Some(PathInfo::of(&entry)),
            Ok(None) => query.query_path().map(|found| self.path_info(&key, query, found)),
            Err(DiskNeeded) => None,
        };
        self.key = key;
        path_info
    }

    /// Returns the result of a test of a path that is not in the cache. Files are added to the cache when they are
    /// opened.
    fn path_info(
        &mut self,
        key: &[u8],
        query: &CacheQuery<'_>,
        found: io::Result<Stat>,
    ) -> io::Result<PathInfo> {
        let path_info = found.map(|stat| PathInfo::seen(&stat));
        let file = path_info.as_ref().is_ok_and(|it| it.kind == FileKind::File);
        if !file && self.is_worth_keeping(key, query.policy.uses_min) {
            shared().admit(query.admission(key));
        }
        path_info
    }

    /// Returns the cached entry, if it is known to be current.
    fn known(
        &mut self,
        key: &[u8],
        query: &CacheQuery<'_>,
    ) -> Result<Option<Arc<Entry>>, DiskNeeded> {
        let mut window = query.policy.window;
        if window.is_none() {
            self.settle();
        }
        let Some(mut entry) = self.kept(key) else { return Ok(None) };
        if query.policy.is_strict_on(&entry) {
            window = None;
            self.settle();
            let Some(again) = self.kept(key) else { return Ok(None) };
            entry = again;
        }
        if entry.watched {
            // Without the means to check for changes no entry is known to be current.
            if self.pending.is_none() {
                return Ok(None);
            }
        } else if !checked(&entry, query, window, tidegate_rt::clock::unix_millis())? {
            shared().remove(key, &entry);
            return Ok(None);
        }
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Ok(Some(entry))
    }

    /// Returns the entry of a key in the cache.
    fn kept(&mut self, key: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.entries.get(key).and_then(Weak::upgrade).filter(|entry| entry.is_valid());
        entry.or_else(|| {
            let entry = shared().get(key)?;
            self.remember(key, &entry);
            Some(entry)
        })
    }

    /// Makes sure that all changes made until the request was received are applied.
    fn settle(&mut self) {
        let Some(pending) = &self.pending else { return };
        let moment = tidegate_rt::batch_epoch::current();
        if moment.is_some() && moment == self.settled {
            return;
        }
        self.settled = moment;
        match pending.check() {
            Ok(waiting) if waiting.mounts => shared().flush(),
            Ok(waiting) if waiting.events => shared().drain(),
            Ok(_) => shared().await_drain(),
            Err(_) => shared().flush(),
        }
    }

    fn remember(&mut self, key: &[u8], entry: &Arc<Entry>) {
        if self.entries.len() >= THREAD_ENTRIES_MAX {
            self.entries.retain(|_, entry| entry.strong_count() > 0);
            if self.entries.len() >= THREAD_ENTRIES_MAX {
                self.entries.clear();
            }
        }
        self.entries.insert(key.into(), Arc::downgrade(entry));
        // Once the path has changed, its requests are counted from the start.
        if let (hash, Some(seen)) = self.counted(key)
            && seen.0 == hash
        {
            *seen = (0, 0);
        }
    }

    /// Counts a request for a path that is not in the cache; returns whether it is worth keeping by now. A path
    /// that could not be kept is tried again, but more and more seldom.
    fn is_worth_keeping(&mut self, key: &[u8], uses_min: u32) -> bool {
        let (hash, seen) = self.counted(key);
        let Some(seen) = seen else { return false };
        let count = if seen.0 == hash { seen.1.saturating_add(1) } else { 1 };
        *seen = (hash, count);
        let least = uses_min.max(1);
        count == least || (count > least && count.is_power_of_two())
    }

    fn counted(&mut self, key: &[u8]) -> (u64, Option<&mut (u64, u32)>) {
        use std::hash::BuildHasher;
        let hash = self.hasher.hash_one(key);
        let slot = hash as usize % self.seen.len().max(1);
        (hash, self.seen.get_mut(slot))
    }
}

/// Checks an entry whose changes are not reported, unless it was checked within `window` of `now`, milliseconds
/// since 1970.
fn checked(
    entry: &Entry,
    query: &CacheQuery<'_>,
    window: Option<Duration>,
    now: u64,
) -> Result<bool, DiskNeeded> {
    if let Some(window) = window {
        let age = u128::from(now.saturating_sub(entry.checked.load(Ordering::Relaxed)));
        if age < window.as_millis() {
            return Ok(true);
        }
    }
    // Opening the file again is expensive, at some depths more than all else: it is done only where a path stamp does
    // not show that the file is the same.
    let renamed = match entry.path_stamp.as_ref().map(PathStamp::check) {
        Some(Seen::Same) => {
            entry.checked.store(now, Ordering::Relaxed);
            return Ok(true);
        }
        Some(Seen::Changed) => return Ok(false),
        Some(Seen::Renamed(names)) => Some(names),
        None => None,
    };
    let holds = match (&entry.what, query.query_path().ok_or(DiskNeeded)?) {
        (EntryKind::File(file), Ok(stat)) => file.is_same(&stat),
        (EntryKind::Directory, Ok(stat)) => stat.kind == FileKind::Directory,
        _ => false,
    };
    if let (true, Some(names), Some(path_stamp)) = (holds, renamed, &entry.path_stamp) {
        path_stamp.confirm(names);
    }
    entry.checked.store(now, Ordering::Relaxed);
    Ok(holds)
}

/// Writes the key of a path under a rule: the path itself for the common rule, which contains no zero byte.
fn write_key(path: &[u8], rule: LinkRule, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(path);
    let mark = match rule.links {
        Links::Follow if rule.from == 0 => return,
        Links::Follow => 0,
        Links::Refuse => 1,
        Links::SameOwner => 2,
    };
    key.extend_from_slice(&[0, mark]);
    key.extend_from_slice(&rule.from.to_le_bytes());
}
