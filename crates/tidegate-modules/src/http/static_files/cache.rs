//! The open-file cache: coherent, shared by all threads, on by default.
//!
//! A hit costs one system call that asks whether any change waits to be looked at (see
//! [`tidegate_os::watch::Pending`]; about 0.1 µs, at any depth of folders), a look-up in a table of the
//! thread's own, and no lock. The kernel queues a change before the call that made it returns, so a request
//! that comes after a write has ended never sees the old file. Where nothing tells of changes (network
//! file systems, no watches left, folders that may not be read) the name is looked at for each request.
//! Writing through a memory mapping is told of when the mapping ends, not before.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_os::error::NO_ENTRY;
use tidegate_os::open::HOLDS_NAME;
use tidegate_os::watch::{Pending, Watcher};

use super::entry::{Entry, LinkRule, Links, What, look};
use super::places::{Kind, PlaceId, Places};

/// Files of at most so many bytes are kept in memory. Above, `sendfile` of a kept descriptor is no slower.
pub const MEMORY_FILE_MAX: u64 = 256 * 1024;
/// Bytes of all files in memory.
const MEMORY_MAX: usize = 64 * 1024 * 1024;
/// Answers kept.
const ENTRIES_MAX: usize = 16 * 1024;
/// Watched places; folders outlive the files in them until this is reached.
const PLACES_MAX: usize = 2 * ENTRIES_MAX;
/// Descriptors kept, at most; and at most this part of the process's limit.
const OPEN_MAX: usize = 4096;
const OPEN_PART: u64 = 4;
/// Answers in a thread's own table.
const FRONT_MAX: usize = 8 * 1024;
/// Paths remembered as asked for once. What is asked for once only is not worth a watch.
const SEEN_SLOTS: usize = 4096;

/// What is at `path`, up to date. With `window` (`open_file_cache_valid`) a look of so long ago will do.
pub fn find(path: &[u8], rule: LinkRule, window: Option<Duration>) -> Arc<Entry> {
    THREAD.with(|front| match front.try_borrow_mut() {
        Ok(mut front) => front.find(path, rule, window),
        Err(_) => Arc::new(Entry::load(path, rule, 0)),
    })
}

/// The same for whoever does not want a file's content: a file that is not known is not opened.
pub fn test(path: &[u8], rule: LinkRule, window: Option<Duration>) -> std::io::Result<Tested> {
    let found = THREAD.with(|front| match front.try_borrow_mut() {
        Ok(mut front) => front.test(path, rule, window),
        Err(_) => None,
    });
    match found {
        Some(entry) => Tested::of(&entry),
        None => look(path, rule)
            .map(|stat| Tested { kind: stat.kind, executable: stat.mode & 0o100 != 0 }),
    }
}

/// What a test tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested {
    pub kind: tidegate_os::FileKind,
    pub executable: bool,
}

impl Tested {
    fn of(entry: &Entry) -> std::io::Result<Tested> {
        use tidegate_os::FileKind;
        let kind = match &entry.what {
            What::File(_) => FileKind::File,
            What::Directory => FileKind::Directory,
            What::Other => FileKind::Other,
            What::Failed(errno) => return Err(std::io::Error::from_raw_os_error(*errno)),
        };
        Ok(Tested { kind, executable: entry.executable })
    }
}

thread_local! {
    static THREAD: RefCell<Front> = RefCell::new(Front::new());
}

/// A thread's own table, which needs no lock. It holds nothing open: what the shared cache lets go is gone.
struct Front {
    entries: HashMap<Box<[u8]>, Weak<Entry>, RandomState>,
    pending: Option<Pending>,
    hasher: RandomState,
    seen: Box<[u64]>,
    key: Vec<u8>,
}

impl Front {
    fn new() -> Front {
        let watcher = shared().watcher.as_ref();
        Front {
            entries: HashMap::default(),
            pending: watcher.and_then(|watcher| Pending::new(watcher).ok()),
            hasher: RandomState::default(),
            seen: vec![0; SEEN_SLOTS].into(),
            key: Vec::new(),
        }
    }

    fn find(&mut self, path: &[u8], rule: LinkRule, window: Option<Duration>) -> Arc<Entry> {
        let mut key = std::mem::take(&mut self.key);
        write_key(path, rule, &mut key);
        let entry = match self.known(&key, path, rule, window) {
            Some(entry) => entry,
            None if !self.asked_before(&key) => Arc::new(Entry::load(path, rule, 0)),
            None => {
                let (entry, kept) = shared().admit(&key, path, rule, self.pending.is_some());
                if kept {
                    self.remember(&key, &entry);
                }
                entry
            }
        };
        self.key = key;
        entry
    }

    fn test(
        &mut self,
        path: &[u8],
        rule: LinkRule,
        window: Option<Duration>,
    ) -> Option<Arc<Entry>> {
        let mut key = std::mem::take(&mut self.key);
        write_key(path, rule, &mut key);
        let mut entry = self.known(&key, path, rule, window);
        if entry.is_none() && self.asked_before(&key) {
            // Files come into the cache when they are asked for as such.
            if !look(path, rule).is_ok_and(|stat| stat.kind == tidegate_os::FileKind::File) {
                let (made, kept) = shared().admit(&key, path, rule, self.pending.is_some());
                if kept {
                    self.remember(&key, &made);
                }
                entry = Some(made);
            }
        }
        self.key = key;
        entry
    }

    /// The cached answer, if it is known to hold still.
    fn known(
        &mut self,
        key: &[u8],
        path: &[u8],
        rule: LinkRule,
        window: Option<Duration>,
    ) -> Option<Arc<Entry>> {
        if window.is_none() {
            self.settle();
        }
        let entry = self.entries.get(key).and_then(Weak::upgrade).filter(|entry| entry.is_valid());
        let entry = match entry {
            Some(entry) => entry,
            None => {
                let entry = shared().get(key)?;
                self.remember(key, &entry);
                entry
            }
        };
        if !entry.watched && !checked(&entry, path, rule, window) {
            shared().remove(key, &entry);
            return None;
        }
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Some(entry)
    }

    /// Makes sure that all changes made until now are applied.
    fn settle(&self) {
        let Some(pending) = &self.pending else { return };
        match pending.check() {
            Ok(waiting) if waiting.mounts => shared().flush(),
            Ok(waiting) if waiting.events => shared().drain(),
            Ok(_) => shared().await_drain(),
            Err(_) => shared().flush(),
        }
    }

    fn remember(&mut self, key: &[u8], entry: &Arc<Entry>) {
        if self.entries.len() >= FRONT_MAX {
            self.entries.retain(|_, entry| entry.strong_count() > 0);
            if self.entries.len() >= FRONT_MAX {
                self.entries.clear();
            }
        }
        self.entries.insert(key.into(), Arc::downgrade(entry));
    }

    /// Whether this thread was asked for it lately; notes that it was now.
    fn asked_before(&mut self, key: &[u8]) -> bool {
        use std::hash::BuildHasher;
        let hash = self.hasher.hash_one(key);
        let slot = hash as usize % self.seen.len().max(1);
        match self.seen.get_mut(slot) {
            Some(seen) => std::mem::replace(seen, hash) == hash,
            None => true,
        }
    }
}

/// Looks at the name of an answer of which nothing tells when it changes.
fn checked(entry: &Entry, path: &[u8], rule: LinkRule, window: Option<Duration>) -> bool {
    let now = tidegate_rt::clock::unix_millis();
    if let Some(window) = window {
        let age = u128::from(now.saturating_sub(entry.checked.load(Ordering::Relaxed)));
        if age < window.as_millis() {
            return true;
        }
    }
    entry.checked.store(now, Ordering::Relaxed);
    match (entry.file(), look(path, rule)) {
        (Some(file), Ok(stat)) => file.is_same(&stat),
        _ => false,
    }
}

/// The key of a path under a rule: the path itself for the common rule, which holds no zero byte.
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

/// What all threads share.
struct Shared {
    watcher: Option<Watcher>,
    inner: Mutex<Inner>,
    /// Threads that have read events and not applied them yet.
    draining: AtomicUsize,
    open_max: usize,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Box<[u8]>, Kept, RandomState>,
    places: Places,
    /// Keys in the order in which they are looked at for eviction.
    clock: VecDeque<Box<[u8]>>,
    memory: usize,
    open: usize,
}

struct Kept {
    entry: Arc<Entry>,
    place: Option<PlaceId>,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let limit = tidegate_os::process::nofile_limit() / OPEN_PART;
        Shared {
            watcher: Watcher::new().ok(),
            inner: Mutex::default(),
            draining: AtomicUsize::new(0),
            open_max: usize::try_from(limit).unwrap_or(OPEN_MAX).min(OPEN_MAX),
        }
    });
    STARTED.get_or_init(|| {
        // Only tidies up while no request comes: without it freshness is the same.
        let thread = std::thread::Builder::new().name("file watches".to_owned());
        let _ = thread.spawn(move || watch(shared));
    });
    shared
}

/// Applies changes while nobody asks, so that files that were removed are not held open.
fn watch(shared: &'static Shared) {
    let Some(watcher) = &shared.watcher else { return };
    let Ok(pending) = Pending::new(watcher) else { return };
    while let Ok(waiting) = pending.wait() {
        match waiting.mounts {
            true => shared.flush(),
            false => shared.drain(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.lock().entries.get(key).map(|kept| kept.entry.clone())
    }

    /// Loads an answer and keeps it, if it can be known when it changes. Whether it is kept is told.
    fn admit(
        &self,
        key: &[u8],
        path: &[u8],
        rule: LinkRule,
        may_watch: bool,
    ) -> (Arc<Entry>, bool) {
        // The watch comes first: whatever changes after it is told.
        let place = match &self.watcher {
            Some(watcher) if may_watch => {
                let mut inner = self.lock();
                if inner.places.len() >= PLACES_MAX {
                    inner.clear(watcher);
                }
                inner.places.ensure(watcher, path).ok()
            }
            _ => None,
        };
        let mut entry = Entry::load(path, rule, MEMORY_FILE_MAX);
        let id = match (place, &entry.what) {
            (Some((id, Kind::File)), What::File(_)) => Some(id),
            (Some((id, Kind::Directory)), What::Directory) => Some(id),
            (Some((id, Kind::Missing)), What::Failed(NO_ENTRY)) => Some(id),
            (None, What::File(file)) if rule.links == Links::Follow => {
                let now = tidegate_rt::clock::unix_millis();
                if !file.is_settled(now) || (HOLDS_NAME && file.is_open()) {
                    return (Arc::new(entry), false);
                }
                *entry.checked.get_mut() = now;
                None
            }
            _ => return (Arc::new(entry), false),
        };
        entry.watched = id.is_some();
        let entry = Arc::new(entry);
        let kept = self.keep(key, &entry, id);
        (entry, kept)
    }

    fn keep(&self, key: &[u8], entry: &Arc<Entry>, place: Option<PlaceId>) -> bool {
        let mut inner = self.lock();
        if let Some(id) = place
            && !inner.places.attach(id, key)
        {
            return false;
        }
        if let Some(old) = inner.entries.remove(key) {
            // Another thread was as quick; both answers stand on the same place.
            inner.uncount(&old.entry);
            if let (Some(id), Some(watcher)) = (old.place, &self.watcher)
                && old.place != place
            {
                inner.places.detach(watcher, id, key);
            }
        } else {
            inner.clock.push_back(key.into());
        }
        if let Some(file) = entry.file() {
            inner.memory += file.memory();
            inner.open += usize::from(file.is_open());
        }
        inner.entries.insert(key.into(), Kept { entry: entry.clone(), place });
        inner.evict(self.watcher.as_ref(), self.open_max);
        true
    }

    /// Forgets an answer that a check found outdated.
    fn remove(&self, key: &[u8], entry: &Arc<Entry>) {
        let mut inner = self.lock();
        if inner.entries.get(key).is_some_and(|kept| Arc::ptr_eq(&kept.entry, entry)) {
            inner.drop_entry(self.watcher.as_ref(), key);
        }
    }

    /// Reads and applies all events. They are read under the lock; whoever finds none waiting asks
    /// `await_drain` whether somebody has them in hand.
    fn drain(&self) {
        let Some(watcher) = &self.watcher else { return };
        self.draining.fetch_add(1, Ordering::SeqCst);
        {
            let mut inner = self.lock();
            let mut gone = Vec::new();
            for round in 0.. {
                let events = watcher.read().ok().filter(|_| round < READS_MAX);
                let Some(events) = events else {
                    inner.clear(watcher);
                    break;
                };
                if events.is_empty() {
                    break;
                }
                if !events.iter().all(|event| inner.places.apply(watcher, event, &mut gone)) {
                    inner.clear(watcher);
                }
                for key in gone.drain(..) {
                    inner.drop_entry(None, &key);
                }
            }
        }
        self.draining.fetch_sub(1, Ordering::SeqCst);
    }

    /// Forgets everything: file systems were mounted, or events were lost.
    fn flush(&self) {
        if let Some(watcher) = &self.watcher {
            self.lock().clear(watcher);
        }
        self.drain();
    }

    /// Waits while another thread applies events that it has read.
    fn await_drain(&self) {
        fence(Ordering::SeqCst);
        if self.draining.load(Ordering::SeqCst) != 0 {
            drop(self.lock());
        }
    }
}

impl Inner {
    /// Takes an answer out. Its watch is ended if a watcher is given (else it is gone already).
    fn drop_entry(&mut self, watcher: Option<&Watcher>, key: &[u8]) {
        let Some(kept) = self.entries.remove(key) else { return };
        kept.entry.valid.store(false, Ordering::Release);
        self.uncount(&kept.entry);
        if let (Some(id), Some(watcher)) = (kept.place, watcher) {
            self.places.detach(watcher, id, key);
        }
        // Its key in the clock finds nothing when its turn comes; too many of these are swept here.
        if self.clock.len() > 2 * self.entries.len() + CLOCK_SLACK {
            let entries = &self.entries;
            let mut kept = std::collections::HashSet::new();
            self.clock.retain(|key| entries.contains_key(key) && kept.insert(key.clone()));
        }
    }

    fn uncount(&mut self, entry: &Entry) {
        if let Some(file) = entry.file() {
            self.memory = self.memory.saturating_sub(file.memory());
            self.open = self.open.saturating_sub(usize::from(file.is_open()));
        }
    }

    /// Second chance: what was asked for since its last turn goes to the end once more.
    fn evict(&mut self, watcher: Option<&Watcher>, open_max: usize) {
        let mut turns = 2 * self.clock.len();
        while turns > 0
            && (self.entries.len() > ENTRIES_MAX
                || self.memory > MEMORY_MAX
                || self.open > open_max.max(1))
        {
            turns -= 1;
            let Some(key) = self.clock.pop_front() else { return };
            let Some(kept) = self.entries.get(&key) else { continue };
            match kept.entry.used.swap(false, Ordering::Relaxed) {
                true => self.clock.push_back(key),
                false => self.drop_entry(watcher, &key),
            }
        }
    }

    fn clear(&mut self, watcher: &Watcher) {
        self.places.clear(watcher);
        for (_, kept) in self.entries.drain() {
            kept.entry.valid.store(false, Ordering::Release);
        }
        self.clock.clear();
        self.memory = 0;
        self.open = 0;
    }
}

/// Reads of events in one go. So many changes at once are answered by forgetting everything, which makes
/// what is left in the queue meaningless.
const READS_MAX: usize = 64;
/// Keys of dropped answers that may stay in the clock.
const CLOCK_SLACK: usize = 1024;

#[cfg(test)]
pub(super) fn held() -> (usize, usize) {
    let inner = shared().lock();
    (inner.entries.len(), inner.places.len())
}
