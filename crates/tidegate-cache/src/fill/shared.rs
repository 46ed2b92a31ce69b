//! What all that take part in a fill share: who it is for, how far it is, and its state under a lock.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use super::head::FillHead;
use super::limits::FillLimits;
use super::state::{End, State};
use crate::key::Key;
use crate::sums::BodySums;
use crate::sync::Mutex;

const NEVER: u64 = u64::MAX;

/// One response being fetched. Shared by its readers, the writer and the index.
pub struct Fill {
    key: Key,
    started_at: u64,
    last_progress_at: AtomicU64,
    /// Not (or no longer) the fill that the index knows: stored all the same when it is whole.
    beside: AtomicBool,
    /// By what parts of this object are found that others have fetched; 0: there are none.
    parts_id: AtomicU64,
    /// What its writer left for its readers.
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Unix milliseconds of the first purge that made it stale by its key; [`NEVER`]: there was none.
    stale_since: AtomicU64,
    /// Removals that the index had counted when the fill began: what was removed since stays so.
    pub(crate) removals: u64,
    pub(crate) limits: FillLimits,
    pub(crate) state: Mutex<State>,
    /// Held by whoever works on the temporary file; only taken by calls that may block. The checksums
    /// of what is in the file.
    pub(crate) disk_turn: Mutex<BodySums>,
}

impl Fill {
    pub(crate) fn new(
        key: Key,
        now: u64,
        storing: bool,
        removals: u64,
        limits: FillLimits,
    ) -> Arc<Fill> {
        Arc::new(Fill {
            key,
            started_at: now,
            last_progress_at: AtomicU64::new(now),
            beside: AtomicBool::new(false),
            parts_id: AtomicU64::new(0),
            attached: OnceLock::new(),
            stale_since: AtomicU64::new(NEVER),
            removals,
            limits,
            state: Mutex::new(State::new(storing)),
            disk_turn: Mutex::default(),
        })
    }

    /// The key that is filled.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// When the fill began, in unix milliseconds; later than every purge before it.
    pub fn started_at(&self) -> u64 {
        self.started_at
    }

    /// When bytes or the head last arrived, in unix milliseconds: for `proxy_cache_lock_age`.
    pub fn last_progress_at(&self) -> u64 {
        self.last_progress_at.load(Ordering::Relaxed)
    }

    pub(crate) fn progressed(&self, now: u64) {
        self.last_progress_at.fetch_max(now, Ordering::Relaxed);
    }

    /// The number by which parts of this object are found that were fetched out of turn; `None`: nobody
    /// has fetched any.
    pub fn parts_id(&self) -> Option<u64> {
        Some(self.parts_id.load(Ordering::Acquire)).filter(|id| *id != 0)
    }

    /// Gives the object a number for its parts, if it has none; the number it has then. 0 counts as 1.
    pub fn parts_id_or(&self, id: u64) -> u64 {
        let id = id.max(1);
        let set = self.parts_id.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire);
        set.err().unwrap_or(id)
    }

    /// Leaves something for the readers, before there is a head: the store does not look at it. What comes second is
    /// dropped.
    pub fn attach<T: Send + Sync + 'static>(&self, value: T) {
        let _ = self.attached.set(Box::new(value));
    }

    /// What was attached; `None` when nothing was, or something of another type.
    pub fn attached<T: 'static>(&self) -> Option<&T> {
        self.attached.get()?.downcast_ref()
    }

    /// What it makes is stale from this moment on.
    pub(crate) fn make_stale(&self, at: u64) {
        self.stale_since.fetch_min(at, Ordering::AcqRel);
    }

    pub(crate) fn stale_since(&self) -> Option<u64> {
        Some(self.stale_since.load(Ordering::Acquire)).filter(|at| *at != NEVER)
    }

    pub(crate) fn set_beside(&self) {
        self.beside.store(true, Ordering::Release);
    }

    pub(crate) fn is_beside(&self) -> bool {
        self.beside.load(Ordering::Acquire)
    }

    /// Tells this fill's writer which fill has taken its place.
    pub(crate) fn succeeded_by(&self, successor: &Arc<Fill>) {
        let mut state = self.state.lock();
        let waiting = state.succeeded_by(successor.clone());
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How many readers there are.
    pub fn readers(&self) -> usize {
        self.state.lock().reader_count()
    }

    /// How many bytes of the body have arrived.
    pub fn watermark(&self) -> u64 {
        self.state.lock().watermark()
    }

    /// Whether the whole body has arrived; it may not be in the cache yet.
    pub fn is_whole(&self) -> bool {
        matches!(self.state.lock().end(), End::Whole)
    }

    /// Whether a reader can have the last byte. It comes before the news that it was the last, where the
    /// origin promised a length.
    pub fn has_all(&self) -> bool {
        let state = self.state.lock();
        let promised = state.head().and_then(|head| head.body_bytes);
        match state.end() {
            End::Whole => true,
            End::Open => promised == Some(state.watermark()),
            End::Broken(_) | End::Moved(_) => false,
        }
    }

    /// Whether nothing more will come: all has, or the fill broke off.
    pub fn has_ended(&self) -> bool {
        !matches!(self.state.lock().end(), End::Open)
    }

    /// Whether a new reader would get every byte: not so when the disk has failed and memory holds
    /// no more than the last part.
    pub fn is_readable_from_start(&self) -> bool {
        let state = self.state.lock();
        state.is_storing() || state.tail_start() == 0
    }

    /// Whether its bytes go to a file. Without one only readers that keep up get all of them.
    pub fn has_file(&self) -> bool {
        self.state.lock().is_storing()
    }

    /// What was published, if it was.
    pub fn head_now(&self) -> Option<Arc<FillHead>> {
        self.state.lock().head().cloned()
    }

    /// Whether the response became a cache file; `None` while that is open.
    pub fn stored(&self) -> Option<bool> {
        self.state.lock().stored()
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fill").field("key", &self.key).finish_non_exhaustive()
    }
}
