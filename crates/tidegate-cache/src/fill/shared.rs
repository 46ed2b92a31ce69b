//! The state that all participants of a fill share: its key, its progress, and its body under a lock.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use super::head::FillHead;
use super::limits::FillLimits;
use super::state::{End, State};
use crate::key::Key;
use crate::sums::BodySums;
use crate::sync::Mutex;

const NEVER: u64 = u64::MAX;

/// One response that is being fetched. Its readers, the writer and the index share it.
pub struct Fill {
    key: Key,
    started_at: u64,
    last_progress_at: AtomicU64,
    /// Whether the index does not know this fill, or no longer does. It is stored all the same when it is
    /// complete.
    beside: AtomicBool,
    /// Whether all bytes have arrived: another fill that is complete later is kept in its place.
    complete: AtomicBool,
    /// Whether such a fill is kept.
    superseded: AtomicBool,
    /// Whether the index will not hear of it again. Changed under the lock of its key's shard.
    over: AtomicBool,
    /// The fill that this one hides from new requests: they find it again if this one fails. Its writer holds it as long as
    /// it runs.
    hidden: OnceLock<Weak<Fill>>,
    /// The id by which parts of this object are found that other requests have fetched; 0: none.
    parts_id: AtomicU64,
    /// The value that the writer attached for the readers.
    attached: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Unix milliseconds of the first purge that made it stale by its key; [`NEVER`]: none.
    stale_since: AtomicU64,
    /// The number of removals of the index when the fill began. An object that was removed since then stays
    /// removed.
    pub(crate) removals: u64,
    pub(crate) limits: FillLimits,
    pub(crate) state: Mutex<State>,
    /// The checksums of the bytes in the file. The lock is held while the temporary file is written, and is
    /// only taken by calls that may block.
    pub(crate) disk_lock: Mutex<BodySums>,
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
            complete: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            over: AtomicBool::new(false),
            hidden: OnceLock::new(),
            parts_id: AtomicU64::new(0),
            attached: OnceLock::new(),
            stale_since: AtomicU64::new(NEVER),
            removals,
            limits,
            state: Mutex::new(State::new(storing)),
            disk_lock: Mutex::default(),
        })
    }

    /// Returns the key that is filled.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the moment when the fill began, in Unix milliseconds. It is later than every purge before it.
    pub fn started_at(&self) -> u64 {
        self.started_at
    }

    /// Returns the moment when bytes or the head last arrived, in Unix milliseconds: for
    /// `proxy_cache_lock_age`.
    pub fn last_progress_at(&self) -> u64 {
        self.last_progress_at.load(Ordering::Relaxed)
    }

    pub(crate) fn progressed(&self, now: u64) {
        self.last_progress_at.fetch_max(now, Ordering::Relaxed);
    }

    /// Returns the id by which parts of this object are found that were fetched out of order; `None`: no part
    /// was fetched.
    pub fn parts_id(&self) -> Option<u64> {
        Some(self.parts_id.load(Ordering::Acquire)).filter(|id| *id != 0)
    }

    /// Sets the id for the parts of this object if it has none, and returns the id that it has then. 0 counts
    /// as 1.
    pub fn parts_id_or(&self, id: u64) -> u64 {
        let id = id.max(1);
        let set = self.parts_id.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire);
        set.err().unwrap_or(id)
    }

    /// Attaches a value for the readers, before there is a head. The store does not use it. A second value is
    /// dropped.
    pub fn attach<T: Send + Sync + 'static>(&self, value: T) {
        let _ = self.attached.set(Box::new(value));
    }

    /// Returns the attached value; `None` when there is none, or it is of another type.
    pub fn attached<T: 'static>(&self) -> Option<&T> {
        self.attached.get()?.downcast_ref()
    }

    /// Makes the object of this fill stale from this moment on, in Unix milliseconds.
    pub(crate) fn make_stale(&self, at: u64) {
        self.stale_since.fetch_min(at, Ordering::AcqRel);
    }

    pub(crate) fn stale_since(&self) -> Option<u64> {
        Some(self.stale_since.load(Ordering::Acquire)).filter(|at| *at != NEVER)
    }

    pub(crate) fn set_beside(&self, beside: bool) {
        self.beside.store(beside, Ordering::Release);
    }

    /// Notes that all bytes have arrived. A fill that this one hides and that was complete before is not stored behind it.
    pub(crate) fn set_complete(&self) {
        self.complete.store(true, Ordering::Release);
        if let Some(hidden) = self.hidden().filter(|hidden| hidden.is_complete()) {
            hidden.set_superseded();
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    pub(crate) fn set_superseded(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    pub(crate) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }

    pub(crate) fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Notes the fill that this one hides.
    pub(crate) fn hide(&self, other: &Arc<Fill>) {
        let _ = self.hidden.set(Arc::downgrade(other));
    }

    /// Returns the fill that this one hides, unless the index will not hear of it again.
    pub(crate) fn hidden(&self) -> Option<Arc<Fill>> {
        self.hidden.get()?.upgrade().filter(|other| !other.over.load(Ordering::Acquire))
    }

    pub(crate) fn is_beside(&self) -> bool {
        self.beside.load(Ordering::Acquire)
    }

    /// Notifies this fill's writer of the fill that has replaced it.
    pub(crate) fn succeeded_by(&self, successor: &Arc<Fill>) {
        let mut state = self.state.lock();
        let waiting = state.succeeded_by(successor.clone());
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of readers.
    pub fn readers(&self) -> usize {
        self.state.lock().reader_count()
    }

    /// Returns the offsets of at most `most` of its readers: what each has read.
    pub fn offsets(&self, most: usize) -> Vec<u64> {
        self.state.lock().readers().offsets().take(most).collect()
    }

    /// Returns the number of bytes of the body that have arrived.
    pub fn watermark(&self) -> u64 {
        self.state.lock().watermark()
    }

    /// Returns whether the whole body has arrived; it may not be in the cache yet.
    pub fn is_whole(&self) -> bool {
        matches!(self.state.lock().end(), End::Whole)
    }

    /// Returns whether a reader can have the last byte. Where the origin promised a length, this is true
    /// before the end of the body is reported.
    pub fn has_last_byte(&self) -> bool {
        let state = self.state.lock();
        let promised = state.head().and_then(|head| head.body_bytes);
        match state.end() {
            End::Whole => true,
            End::Open => promised == Some(state.watermark()),
            End::Broken(_) | End::Moved(_) => false,
        }
    }

    /// Returns whether no more bytes will arrive: all have, or the fill was aborted.
    pub fn has_ended(&self) -> bool {
        !matches!(self.state.lock().end(), End::Open)
    }

    /// Returns whether a new reader would get every byte. That is not so when the disk has failed and memory
    /// holds no more than the last part.
    pub fn is_readable_from_start(&self) -> bool {
        let state = self.state.lock();
        state.is_storing() || state.tail_start() == 0
    }

    /// Returns whether its bytes go to a file. Without a file only readers that keep up get all of them.
    pub fn has_file(&self) -> bool {
        self.state.lock().is_storing()
    }

    /// Returns the published head, if there is one.
    pub fn head_now(&self) -> Option<Arc<FillHead>> {
        self.state.lock().head().cloned()
    }

    /// Returns whether the response became a cache file; `None` while that is undecided.
    pub fn stored(&self) -> Option<bool> {
        self.state.lock().stored()
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fill").field("key", &self.key).finish_non_exhaustive()
    }
}
