//! The cache store of one `proxy_cache_path`: index in memory, whole files on disk, live fills.
//!
//! Locks, outermost first: a fill's disk turn, a key's path lock, a shard of the index or of the
//! open entries, a fill's state; the last three are never held together. Names in the cache
//! folder are only changed under the path lock of their key, so that index and disk agree.
//!
//! The store survives a reload of the configuration: [`Store::reconfigure`].

mod failures;
mod files;
mod load;
mod manage;
mod purge;
mod renew;
mod restore;
mod room;
mod scrub;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

use crate::disk::Disk;
use crate::fill::{Fill, FillLimits, TAIL_BYTES_MAX_DEFAULT};
use crate::hot::{HotEntries, OpenEntry};
use crate::index::{BLOCK_BYTES, Begun, Index, NodeView};
use crate::key::{Key, KeyHash, Levels};
use crate::sync::{Mutex, RwLock};
use crate::verify::Alarm;
use crate::writer::FillWriter;
use bytes::Bytes;
pub use failures::DiskFailures;
pub(crate) use files::{Placed, disk_bytes_of};
pub use load::LoadReport;
use load::Loader;
pub use manage::ManageReport;
use purge::Purges;
pub use purge::{Purge, PurgeError, PurgeReport};
use restore::Books;
pub(crate) use room::Room;
pub use scrub::ScrubReport;
use scrub::Scrubber;

/// Locks for names in the cache folder; each is held across a few disk calls.
const PATH_LOCKS: usize = 64;

/// Files waiting for removal by `manage_step`. What does not fit stays on disk until the next
/// start finds it, which is better than memory without limit.
const GARBAGE_MAX: usize = 64 * 1024;

/// Settings of a store: `proxy_cache_path` and its parameters. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub path: PathBuf,
    pub levels: Levels,
    /// Size of `keys_zone`; about 8000 keys for each megabyte.
    pub keys_bytes: u64,
    /// `max_size`, in bytes; `None`: no limit.
    pub size_max: Option<u64>,
    /// `min_free`, in bytes; `None`: not looked at.
    pub free_min: Option<u64>,
    /// `inactive`: what was not used for so long goes, fresh or not.
    pub inactive: u64,
    /// Where files are written before they are whole; `None` (`use_temp_path=off`): beside them.
    pub temporary_folder: Option<PathBuf>,
    /// Bytes of memory for open entries and small bodies.
    pub memory_bytes: usize,
    /// Bodies up to this size may be kept in memory.
    pub memory_body_bytes_max: usize,
    /// Files kept open for hits.
    pub open_files_max: usize,
    /// Limit of memory of one fill, see [`TAIL_BYTES_MAX_DEFAULT`].
    pub fill_tail_bytes_max: usize,
    /// The name of the family of processes that this one belongs to: it and those that it is started
    /// again as, by a binary upgrade or after a crash. With one the folder is locked against other
    /// servers, and index and journal are kept in it. Of at most 200 bytes.
    pub owner: Option<String>,
    /// What has to outlast a power cut (`fsync`).
    pub sync: Sync,
    /// When this process started: temporary files older than this are leftovers.
    pub started_at: u64,
}

impl Options {
    /// nginx's defaults, with 10 MB of keys and 32 MB of memory.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options {
            path: path.into(),
            levels: Levels::default(),
            keys_bytes: 10 << 20,
            size_max: None,
            free_min: None,
            inactive: 10 * 60 * 1000,
            temporary_folder: None,
            memory_bytes: 32 << 20,
            memory_body_bytes_max: 64 << 10,
            open_files_max: 1024,
            fill_tail_bytes_max: TAIL_BYTES_MAX_DEFAULT,
            owner: None,
            sync: Sync::Off,
            started_at: 0,
        }
    }
}

/// What a stored object survives (`fsync`). A cache may forget, so the default is nothing but what
/// the file system does by itself; half-written files are told by their checksums in any case.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum Sync {
    #[default]
    Off,
    /// A file's contents are on disk before it gets its name.
    Data,
    /// And its name, and the index.
    All,
}

/// A change of configuration that a running store cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigureError {
    /// A store is its path; another path is another store.
    Path,
    /// Files would no longer be found (nginx refuses it likewise).
    Levels,
}

impl fmt::Display for ReconfigureError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ReconfigureError::Path => "cache had previously a different path",
            ReconfigureError::Levels => "cache had previously different levels",
        })
    }
}

impl std::error::Error for ReconfigureError {}

/// A cache. Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

/// What the memory knows of a key.
#[derive(Clone)]
pub struct Lookup {
    /// The file, if there is one: fresh or stale, that is for the caller to decide.
    pub entry: Option<EntryInfo>,
    /// The opened file, if it is open: then no blocking call is needed.
    pub open: Option<OpenEntry>,
    /// The running fill, if one runs.
    pub fill: Option<Arc<Fill>>,
    /// A fill that was made stale when its last byte had come: its stale file is there in a moment.
    pub placing: Option<Arc<Fill>>,
    /// How often the key was looked up, this time included (`proxy_cache_min_uses`).
    pub uses: u32,
    /// Until when requests of this key should not wait for each other, since its responses proved
    /// not to be cacheable ([`Store::mark_uncacheable`]); 0: no such mark.
    pub uncacheable_until: u64,
    /// The loader has not finished and the key is not known: `open_entry` may find a file.
    pub cold: bool,
}

/// A whole object, as the index knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// Differs for each file of the key and each renewal of its metadata.
    pub generation: u64,
    pub body_bytes: u64,
    /// Room taken on disk.
    pub disk_bytes: u64,
    /// The metadata, if they are in memory.
    pub metadata: Option<Bytes>,
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub keys: usize,
    pub keys_max: usize,
    /// Keys that have a file.
    pub entries: usize,
    /// Room taken by files.
    pub disk_bytes: u64,
    /// The same, and what fills have reserved or wrote, and what is to be removed; never more than
    /// `max_size`, unless that was lowered or the loader found more.
    pub charged_bytes: u64,
    pub memory_bytes: usize,
    pub open_files: usize,
    /// Files removed for want of room or use.
    pub evicted: u64,
    /// Fills that were not stored for want of room (`max_size`, `min_free`).
    pub refused: u64,
    /// Files found torn, short or foreign, and removed.
    pub torn: u64,
    /// Failed disk calls, removals included.
    pub disk_errors: u64,
    pub loaded: bool,
}

pub(crate) struct StoreInner {
    /// Itself, for entries that outlive it.
    this: Weak<StoreInner>,
    pub index: Index,
    disk: Arc<dyn Disk>,
    options: RwLock<Arc<Options>>,
    hot: HotEntries,
    path_locks: Box<[Mutex<()>]>,
    garbage: Mutex<VecDeque<Garbage>>,
    /// Since somebody last asked.
    failures: Mutex<Option<DiskFailures>>,
    /// Bytes of disk that running fills may take.
    claimed: AtomicU64,
    books: Books,
    loader: Mutex<Loader>,
    scrubber: Mutex<Scrubber>,
    alarm: Arc<Alarm>,
    pub(crate) purges: Purges,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    temporaries: AtomicU64,
    evicted: AtomicU64,
    torn: AtomicU64,
    /// Files left on disk because too many waited for their removal.
    abandoned: AtomicU64,
    refused: AtomicU64,
    disk_errors: AtomicU64,
    loaded: std::sync::atomic::AtomicBool,
}

/// A file to be removed by `manage_step`, and the bytes that are charged until then.
enum Garbage {
    Temporary(PathBuf, u64),
    /// The file of a key that had to leave the index; stays if the key has come back.
    Entry(KeyHash, u64),
}

impl Store {
    /// Opens a cache and creates its folders. Blocks. The files in it are found by `load_step`.
    ///
    /// # Errors
    /// Those of the disk; `ResourceBusy` when another server uses the folder.
    pub fn open(options: Options, disk: Arc<dyn Disk>) -> io::Result<Store> {
        disk.create_folder(&options.path)?;
        if let Some(folder) = &options.temporary_folder {
            disk.create_folder(folder)?;
        }
        let inner = Arc::new_cyclic(|this| StoreInner {
            this: this.clone(),
            index: Index::new(options.keys_bytes),
            purges: Purges::load(&options.path, &*disk, options.started_at),
            disk,
            hot: HotEntries::new(options.memory_bytes, options.open_files_max),
            path_locks: (0..PATH_LOCKS).map(|_| Mutex::new(())).collect(),
            garbage: Mutex::new(VecDeque::new()),
            failures: Mutex::new(None),
            claimed: AtomicU64::new(0),
            books: Books::default(),
            loader: Mutex::new(Loader::new(&options, false)),
            scrubber: Mutex::default(),
            alarm: Arc::default(),
            counters: Counters::default(),
            options: RwLock::new(Arc::new(options)),
        });
        inner.lock_folder()?;
        *inner.loader.lock() = Loader::new(&inner.options(), inner.is_owner());
        Ok(Store { inner })
    }

    pub fn options(&self) -> Arc<Options> {
        self.inner.options()
    }

    /// Takes up new settings; path and levels must be the old ones. Does not block; what no longer
    /// fits goes with the next `manage_step`.
    pub fn reconfigure(&self, options: Options) -> Result<(), ReconfigureError> {
        let mut current = self.inner.options.write();
        if current.path != options.path {
            return Err(ReconfigureError::Path);
        }
        if current.levels != options.levels {
            return Err(ReconfigureError::Levels);
        }
        self.inner.index.limit_keys(options.keys_bytes);
        self.inner.hot.limit(options.memory_bytes, options.open_files_max);
        *current = Arc::new(options);
        Ok(())
    }

    /// Looks a key up, counting a use. In memory only; never blocks.
    pub fn lookup(&self, key: &Key, now: u64) -> Lookup {
        let inner = &self.inner;
        let view = inner.index.count_use(key.hash(), now, |hash, bytes| {
            inner.discard_entry(hash, bytes);
        });
        inner.describe(key, view)
    }

    /// Looks a key up without counting, for a second look after a wait. Never blocks.
    pub fn peek(&self, key: &Key) -> Lookup {
        self.inner.describe(key, self.inner.index.peek(key.hash()))
    }

    /// Marks a key as used at `now`, without counting. Never blocks.
    pub fn touch(&self, key: &Key, now: u64) {
        self.inner.index.touch(key.hash(), now);
    }

    /// Marks a key whose response proved not to be cacheable, so that until then (unix
    /// milliseconds) its requests need not queue for one another. A stored response ends it. To be
    /// called before [`FillWriter::release`]. Never blocks.
    pub fn mark_uncacheable(&self, key: &Key, until: u64) {
        self.inner.index.mark_uncacheable(key.hash(), until);
    }

    /// Starts to fill a key; if somebody does so already, his fill to follow. Never blocks.
    ///
    /// Where the index has no room, or another key of the same hash is being filled, the fill
    /// goes to its own readers only: nobody else will find it and nothing is stored.
    pub fn begin_fill(&self, key: &Key, now: u64) -> Result<FillWriter, Arc<Fill>> {
        match self.inner.clone().begin_fill(key, now, false) {
            Err(running) if self.inner.is_fill_purged(&running) => {
                Ok(self.take_over_fill(key, now))
            }
            begun => begun,
        }
    }

    /// Starts to fill a key though it may be being filled: nobody new will find the other fill, but
    /// if it becomes whole after all, it is stored. For fills that make no progress. Never blocks.
    pub fn take_over_fill(&self, key: &Key, now: u64) -> FillWriter {
        let inner = &self.inner;
        match inner.clone().begin_fill(key, now, true) {
            Ok(writer) => writer,
            Err(_) => FillWriter::new(inner.new_fill(key, now, false), inner.clone()),
        }
    }

    /// Starts a fill that nobody else will find, for callers who do not share: whichever of several
    /// is whole last is what stays stored. Nothing is stored if the key is removed meanwhile, or was
    /// never looked up. Never blocks.
    pub fn begin_fill_beside(&self, key: &Key, now: u64) -> FillWriter {
        let fill = self.inner.new_fill(key, now, true);
        fill.set_beside();
        FillWriter::new(fill, self.inner.clone())
    }

    /// Opens the file of a key. Blocks, unless the open entry is at hand (see [`Lookup::open`]).
    ///
    /// `None`: there is no such file, or it is torn (then it is removed), or it is another key's
    /// of the same hash. An error: the disk failed; the entry stays known.
    pub fn open_entry(&self, key: &Key, now: u64) -> io::Result<Option<OpenEntry>> {
        let opened = self.inner.open_entry(key, now)?;
        Ok(opened.and_then(|entry| self.inner.unless_purged(key, entry)))
    }

    /// Removes a key's file. A fill that runs is left to the readers that it has and stores
    /// nothing, since it may have read what was to be removed. Blocks. Whether anything was known.
    pub fn remove(&self, key: &Key) -> io::Result<bool> {
        self.inner.remove(key.hash())
    }

    /// One step of the cache manager: removes at most about `budget` files that are waiting for
    /// removal, were not used for `inactive`, or are too many for `max_size` and `min_free`.
    /// Blocks. `manager_files` is nginx's budget.
    pub fn manage_step(&self, now: u64, budget: usize) -> ManageReport {
        self.inner.manage_step(now, budget)
    }

    /// One step of the cache loader: looks at about `budget` files (`loader_files`) and adds them
    /// to the index; removes leftovers. Blocks.
    pub fn load_step(&self, now: u64, budget: usize) -> LoadReport {
        self.inner.load_step(now, budget)
    }

    /// Writes what has changed in the index to its journal, and a snapshot when one is due. Blocks.
    /// To be called every second or so; `manage_step` does it, too.
    pub fn keep_index(&self, now: u64) {
        self.inner.keep_books(now);
    }

    /// Leaves the index for the next start, at the end of the process. Blocks.
    pub fn finish(&self, now: u64) {
        self.inner.close_books(now);
    }

    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

impl StoreInner {
    pub(crate) fn options(&self) -> Arc<Options> {
        self.options.read().clone()
    }

    fn describe(&self, key: &Key, view: NodeView) -> Lookup {
        let mut view = view;
        let open = view.present.and_then(|present| self.hot.find(key, present.generation));
        let open = self.purge_found(key, &mut view, open);
        let entry = view.present.map(|present| EntryInfo {
            generation: present.generation,
            body_bytes: present.body_bytes,
            disk_bytes: present.disk_bytes,
            metadata: open.as_ref().map(|open| open.metadata().clone()),
        });
        let cold = entry.is_none() && !self.counters.loaded.load(Ordering::Acquire);
        let is_own = |fill: &Arc<Fill>| fill.key().text() == key.text();
        let (fill, placing) = self.purge_fill(view.fill.filter(is_own));
        let NodeView { uses, uncacheable_until, .. } = view;
        Lookup { entry, open, fill, placing, uses, uncacheable_until, cold }
    }

    fn begin_fill(
        self: Arc<Self>,
        key: &Key,
        now: u64,
        replace: bool,
    ) -> Result<FillWriter, Arc<Fill>> {
        let fill = self.new_fill(key, now, true);
        let evicted = |hash, bytes| self.discard_entry(hash, bytes);
        match self.index.begin(key, &fill, now, replace, evicted) {
            Begun::Started { replaced } => {
                replaced.into_iter().for_each(|replaced| replaced.succeeded_by(&fill));
                Ok(FillWriter::new(fill, self))
            }
            Begun::Running(running) => Err(running),
            Begun::Refused => Ok(FillWriter::new(self.new_fill(key, now, false), self)),
        }
    }

    fn new_fill(&self, key: &Key, now: u64, storing: bool) -> Arc<Fill> {
        let options = self.options.read();
        let limits = FillLimits {
            tail_bytes_max: options.fill_tail_bytes_max.max(1) as u64,
            kept_bytes_max: options.memory_body_bytes_max.min(options.fill_tail_bytes_max) as u64,
        };
        drop(options);
        let now = self.purges.after_all(now);
        Fill::new(key.clone(), now, storing, self.index.removals(), limits)
    }

    fn lock_path(&self, hash: &KeyHash) -> MutexGuard<'_, ()> {
        let [first, ..] = hash.0;
        self.path_locks[usize::from(first) % PATH_LOCKS].lock()
    }

    /// Leaves a temporary file, for which bytes are charged, to `manage_step`. Never blocks.
    pub(crate) fn discard_temporary(&self, path: PathBuf, bytes: u64) {
        self.discard(Garbage::Temporary(path, bytes), bytes);
    }

    fn discard_entry(&self, hash: KeyHash, bytes: u64) {
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

    fn stats(&self) -> Stats {
        let (memory_bytes, open_files) = self.hot.totals();
        Stats {
            keys: self.index.keys(),
            keys_max: self.index.keys_max(),
            entries: self.index.entries(),
            disk_bytes: self.index.disk_bytes(),
            charged_bytes: self.index.charged(),
            memory_bytes,
            open_files,
            evicted: self.counters.evicted.load(Ordering::Relaxed),
            refused: self.counters.refused.load(Ordering::Relaxed),
            torn: self.counters.torn.load(Ordering::Relaxed),
            disk_errors: self.counters.disk_errors.load(Ordering::Relaxed),
            loaded: self.counters.loaded.load(Ordering::Acquire),
        }
    }
}

/// Room that a file of this size takes: whole blocks, as nginx counts.
fn disk_bytes(file_bytes: u64) -> u64 {
    file_bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}
