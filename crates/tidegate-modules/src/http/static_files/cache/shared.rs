//! What all threads share: the entries, the watches that they depend on, and eviction.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::fast::RandomState;
use tidegate_os::watch::{Pending, Watcher};

use super::Memory;
use super::admission::{self, Admission, Command};
use crate::http::static_files::entry::Entry;
use crate::http::static_files::watch_tree::{NodeId, NodeKind, WatchTree};

/// Entries that are kept.
const ENTRIES_MAX: usize = 16 * 1024;
/// Watched nodes; directories outlive the files in them until this is reached.
const NODES_MAX: usize = 2 * ENTRIES_MAX;
/// Descriptors that are kept open, at most; and at most this part of the process's limit.
const OPEN_MAX: usize = 4096;
const OPEN_PART: u64 = 4;

/// The part of the cache that all threads share.
pub(super) struct Shared {
    pub watcher: Option<Watcher>,
    inner: Mutex<State>,
    /// Threads that have read events and not applied them yet.
    draining: AtomicUsize,
    open_max: usize,
    commands: SyncSender<Command>,
}

/// The state under the lock.
#[derive(Default)]
struct State {
    entries: HashMap<Box<[u8]>, KeptEntry, RandomState>,
    nodes: WatchTree,
    /// Keys in the order in which they are considered for eviction.
    clock: VecDeque<Box<[u8]>>,
    memory: usize,
    open: usize,
}

struct KeptEntry {
    entry: Arc<Entry>,
    node: Option<NodeId>,
}

/// Returns the process's cache; the first call starts its threads.
pub(super) fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let mut fresh = None;
    let shared = SHARED.get_or_init(|| {
        let (commands, taken) = admission::queue();
        fresh = Some(taken);
        Shared::new(Watcher::new().ok(), commands)
    });
    if let Some(taken) = fresh {
        STARTED.get_or_init(|| {
            let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
            // This thread only releases files while no request arrives: without it entries are as current.
            let _ = thread("file watches").spawn(move || watch(shared));
            // Without this thread nothing is kept.
            let _ = thread("file cache").spawn(move || admission::serve(shared, &taken));
        });
    }
    shared
}

/// Applies changes while no request arrives, so that removed files are not kept open.
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
    fn new(watcher: Option<Watcher>, commands: SyncSender<Command>) -> Shared {
        let open_max = tidegate_os::process::nofile_limit() / OPEN_PART;
        Shared {
            watcher,
            inner: Mutex::default(),
            draining: AtomicUsize::new(0),
            open_max: usize::try_from(open_max).unwrap_or(OPEN_MAX).min(OPEN_MAX),
            commands,
        }
    }

    /// Makes a cache without threads.
    #[cfg(test)]
    pub(super) fn alone(has_watches: bool) -> Shared {
        Shared::new(has_watches.then(|| Watcher::new().unwrap()), admission::queue().0)
    }

    #[cfg(test)]
    pub(super) fn figures(&self) -> CacheFigures {
        let inner = self.lock();
        CacheFigures {
            entries: inner.entries.len(),
            nodes: inner.nodes.len(),
            memory: inner.memory,
            open: inner.open,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.lock().entries.get(key).map(|kept| kept.entry.clone())
    }

    /// Requests that an entry be loaded and kept. If the queue is full, a later request for the path tries again.
    pub(super) fn admit(&self, admission: Admission) {
        let _ = self.commands.try_send(Command::Admit(admission));
    }

    /// Queues a command, for tests.
    #[cfg(test)]
    pub(super) fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Watches a path.
    pub(super) fn ensure(
        &self,
        watcher: &Watcher,
        path: &[u8],
        ahead: &[i32],
    ) -> Option<(NodeId, NodeKind)> {
        let mut inner = self.lock();
        if inner.nodes.len() >= NODES_MAX {
            inner.clear(watcher);
        }
        let node = inner.nodes.ensure(watcher, path).ok();
        ahead.iter().for_each(|watch| inner.nodes.unused(watcher, *watch));
        node
    }

    /// Keeps an entry, unless the node that it depends on has changed meanwhile.
    pub(super) fn keep(
        &self,
        key: &[u8],
        entry: &Arc<Entry>,
        node: Option<NodeId>,
        memory: Memory,
    ) {
        let mut inner = self.lock();
        if let Some(id) = node
            && !inner.nodes.attach(id, key)
        {
            return;
        }
        if let Some(old) = inner.entries.remove(key) {
            // Another thread kept one first; both entries depend on the same node.
            inner.uncount(&old.entry);
            if let (Some(id), Some(watcher)) = (old.node, &self.watcher)
                && old.node != node
            {
                inner.nodes.detach(watcher, id, key);
            }
        } else {
            inner.clock.push_back(key.into());
        }
        if let Some(file) = entry.file() {
            inner.memory += file.memory();
            inner.open += usize::from(file.is_open());
        }
        inner.entries.insert(key.into(), KeptEntry { entry: entry.clone(), node });
        inner.evict(self.watcher.as_ref(), self.open_max, memory.bytes_max);
    }

    /// Removes an entry that a check found outdated.
    pub(super) fn remove(&self, key: &[u8], entry: &Arc<Entry>) {
        let mut inner = self.lock();
        if inner.entries.get(key).is_some_and(|kept| Arc::ptr_eq(&kept.entry, entry)) {
            inner.drop_entry(self.watcher.as_ref(), key);
        }
    }

    /// Reads and applies all events. They are read under the lock; a caller that finds none pending uses
    /// `await_drain` to wait for a thread that has read events.
    pub(super) fn drain(&self) {
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
                if !events.iter().all(|event| inner.nodes.apply(watcher, event, &mut gone)) {
                    inner.clear(watcher);
                }
                for key in gone.drain(..) {
                    inner.drop_entry(None, &key);
                }
            }
        }
        self.draining.fetch_sub(1, Ordering::SeqCst);
    }

    /// Removes all entries: file systems were mounted, or events were lost.
    pub(super) fn flush(&self) {
        if let Some(watcher) = &self.watcher {
            self.lock().clear(watcher);
        }
        self.drain();
    }

    /// Waits while another thread applies events that it has read.
    pub(super) fn await_drain(&self) {
        fence(Ordering::SeqCst);
        if self.draining.load(Ordering::SeqCst) != 0 {
            drop(self.lock());
        }
    }
}

impl State {
    /// Removes an entry. Its watch is ended if a watcher is given (else it has already ended).
    fn drop_entry(&mut self, watcher: Option<&Watcher>, key: &[u8]) {
        let Some(kept) = self.entries.remove(key) else { return };
        kept.entry.valid.store(false, Ordering::Release);
        self.uncount(&kept.entry);
        if let (Some(id), Some(watcher)) = (kept.node, watcher) {
            self.nodes.detach(watcher, id, key);
        }
        // Its key in the clock will find no entry; when there are too many such keys they are removed here.
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

    /// Evicts by second chance: an entry that was used since it was last considered is put at the end once more.
    fn evict(&mut self, watcher: Option<&Watcher>, open_max: usize, memory_max: usize) {
        let mut candidates = 2 * self.clock.len();
        while candidates > 0
            && (self.entries.len() > ENTRIES_MAX
                || self.memory > memory_max
                || self.open > open_max.max(1))
        {
            candidates -= 1;
            let Some(key) = self.clock.pop_front() else { return };
            let Some(kept) = self.entries.get(&key) else { continue };
            match kept.entry.used.swap(false, Ordering::Relaxed) {
                true => self.clock.push_back(key),
                false => self.drop_entry(watcher, &key),
            }
        }
    }

    fn clear(&mut self, watcher: &Watcher) {
        self.nodes.clear(watcher);
        for (_, kept) in self.entries.drain() {
            kept.entry.valid.store(false, Ordering::Release);
        }
        self.clock.clear();
        self.memory = 0;
        self.open = 0;
    }
}

/// Reads of events in one call. After this number of changes at once all entries are removed, which makes the rest
/// of the queue meaningless.
const READS_MAX: usize = 64;
/// Keys of removed entries that may remain in the clock.
const CLOCK_SLACK: usize = 1024;

/// The contents of the cache.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheFigures {
    pub entries: usize,
    pub nodes: usize,
    pub memory: usize,
    pub open: usize,
}
