//! Writing a fill. Only [`FillWriter::flush_step`] and [`FillWriter::commit`] block, and must be called on a
//! thread that may block.

mod flusher;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::fill::state::End;
use crate::fill::{BreakReason, Fill, FillHead};
use crate::format::Layout;
use crate::store::inner::StoreInner;
use crate::store::room::disk_bytes_of;
use crate::times::Times;
use flusher::unflushed_of;
pub use flusher::{FillFlusher, FlushReport};

/// A flush is due when one part in this number of the tail's limit is unflushed: early enough to be done
/// before the tail is full.
const FLUSH_DUE_PART: u64 = 4;

/// The writing end of a fill; there is one. Dropping it aborts the fill.
///
/// ```text
/// begun → head published → appending → finished → committed: stored, or not
///   │           │              │           └──→ aborted: the readers have all, nothing is stored
///   │           └──────────────┴──→ aborted, handed over, dropped: the readers end where it ends
///   └──→ released: may not be cached
/// ```
/// Invariant: on every path, the index forgets the fill, its reserved and claimed bytes are given back or
/// charged for the file, and a temporary file is left to the manager. That is done once (`ended`).
pub struct FillWriter {
    flusher: FillFlusher,
    ended: bool,
    /// Held so that purges see that a fill is running which began before them.
    _began: Arc<()>,
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Bytes not yet in the file; 0 when nothing is to be flushed.
    pub unflushed: u64,
    /// Whether enough is unflushed that a flush step is worth its system calls. Fewer bytes may wait: a short
    /// body is written with its header in one write of the commit.
    pub flush_due: bool,
    /// Whether more may be appended without waiting for [`FillWriter::backpressure`].
    pub has_room: bool,
    /// Bytes that readers do not see yet.
    pub held: u64,
}

/// The work that remains for the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Bytes not yet in the file; 0 when nothing is to be flushed.
    pub unflushed: u64,
    /// Bytes that readers do not see yet.
    pub held: u64,
}

/// The result of a commit.
#[derive(Debug)]
pub enum Committed {
    /// There is a cache file, and lookups of the key find it.
    Stored,
    /// The readers got all bytes, and nothing is stored. The error of the disk if that was the reason;
    /// `None`: the disk failed earlier, or the key was removed or refilled meanwhile.
    NotStored(Option<io::Error>),
    /// The body was incomplete; the readers have the reason.
    Broken(BreakReason),
}

impl FillWriter {
    pub(crate) fn new(fill: Arc<Fill>, store: Arc<StoreInner>) -> FillWriter {
        let began = store.purges.present();
        FillWriter { flusher: FillFlusher { fill, store }, ended: false, _began: began }
    }

    /// Returns the fill that is written.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.flusher.fill
    }

    /// Returns the half that writes to the disk, for another thread.
    pub fn flusher(&self) -> FillFlusher {
        self.flusher.clone()
    }

    /// Publishes the head and wakes the readers that wait for it. Only the first head counts. Never blocks.
    pub fn publish_head(&self, metadata: Bytes, times: Times, body_bytes: Option<u64>, now: u64) {
        let fill = self.fill();
        fill.progressed(now);
        let layout = Layout::for_new(fill.key(), &metadata);
        let mut state = fill.state.lock();
        if !state.publish(FillHead { metadata, times, body_bytes }) {
            return;
        }
        state.set_layout(layout);
        let bytes = layout.map(|layout| disk_bytes_of(layout, body_bytes.unwrap_or(0)));
        let store = &self.flusher.store;
        let is_storable = bytes
            .is_some_and(|bytes| state.is_storing() && store.claim(bytes) && state.claim(bytes));
        let leftover = if is_storable { None } else { Some(state.stop_storing()) };
        let wakers = state.take_all_wakers();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        if let Some(leftover) = leftover {
            self.flusher.detach(leftover);
        }
    }

    /// Appends bytes and wakes the readers that wait for them. Never blocks; the caller flushes them, and
    /// waits for [`FillWriter::backpressure`] when there is no room.
    pub fn append(&self, bytes: Bytes, now: u64) -> Appended {
        let appended = self.hold(bytes, now);
        if appended.held > 0 {
            self.show();
        }
        Appended { held: 0, ..appended }
    }

    /// Appends bytes that no reader sees before they are in the file ([`FillFlusher::show_flushed`]), or
    /// [`FillWriter::show`] is called: with many readers a range of a file costs less than bytes do. Without
    /// a file readers see them at once. Otherwise as [`FillWriter::append`].
    pub fn hold(&self, bytes: Bytes, now: u64) -> Appended {
        let fill = self.fill();
        fill.progressed(now);
        let mut state = fill.state.lock();
        if !matches!(state.end(), End::Open) {
            return Appended { unflushed: 0, flush_due: false, has_room: true, held: 0 };
        }
        state.append(bytes);
        state.trim(fill.limits);
        let unflushed = unflushed_of(&state);
        let has_room = state.has_room(fill.limits);
        let storing = state.is_storing();
        let held = if storing { state.held() } else { 0 };
        let promised = state.head().and_then(|head| head.body_bytes);
        let is_whole = promised == Some(state.watermark());
        drop(state);
        if is_whole {
            fill.set_complete();
            self.offer();
        }
        if !storing {
            self.show();
        }
        let flush_due = unflushed > fill.limits.tail_bytes_max / FLUSH_DUE_PART;
        Appended { unflushed, flush_due, has_room, held }
    }

    /// Lets other requests find a fill that was not shared ([`crate::Store::begin_fill_beside`]), now that it
    /// is complete: a client that has the last byte may send its next request before the object is stored. To
    /// be called before [`FillWriter::finish`] where no length was promised. Never blocks.
    pub fn offer(&self) {
        let (fill, store) = (self.fill(), &self.flusher.store);
        if fill.is_beside() && fill.has_file() && !store.is_fill_purged(fill) {
            store.index.offer(fill.key().hash(), fill);
        }
    }

    /// Lets readers have all bytes that have arrived. Never blocks.
    pub fn show(&self) {
        self.flusher.show_all();
    }

    /// Returns the work that remains for the bytes that have arrived.
    pub fn pending(&self) -> Pending {
        let state = self.fill().state.lock();
        Pending { unflushed: unflushed_of(&state), held: state.held() }
    }

    /// Waits until more may be appended. While the fill is stored: until no more than the limit is unflushed,
    /// so another task or thread has to flush. Otherwise: until the foremost reader has all but half the
    /// limit; at once if there is no reader. Cancel-safe: dropped at its await it leaves a waker, which the
    /// next event takes and wakes in vain.
    pub async fn backpressure(&self) {
        poll_fn(|context| {
            let mut state = self.fill().state.lock();
            if state.has_room(self.fill().limits) {
                return Poll::Ready(());
            }
            state.writer_waits(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Waits until there is no reader: at once if there never was one, so the initiator takes its own reader
    /// first. New readers may be added later. Cancel-safe, as [`FillWriter::backpressure`].
    pub async fn abandoned(&self) {
        poll_fn(|context| {
            let mut state = self.fill().state.lock();
            if state.reader_count() == 0 {
                return Poll::Ready(());
            }
            state.writer_waits(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Polls for the fill that has replaced this one ([`crate::Store::take_over_fill`]).
    pub fn poll_successor(&self, context: &mut Context<'_>) -> Poll<Arc<Fill>> {
        let mut state = self.fill().state.lock();
        state.successor_or_wait(context.waker()).map_or(Poll::Pending, Poll::Ready)
    }

    /// Writes unflushed bytes to the file. Blocks. See [`FillFlusher::flush_step`].
    pub fn flush_step(&self) -> FlushReport {
        self.flusher.flush_step()
    }

    /// Declares the body complete: readers see its end without waiting for the commit. Never blocks.
    ///
    /// # Errors
    /// The body is not as long as was promised; the fill is broken then.
    pub fn finish(&self) -> Result<(), BreakReason> {
        let mut state = self.fill().state.lock();
        let received = state.watermark();
        let end = match state.head().map(|head| head.body_bytes) {
            None => End::Broken(BreakReason::Aborted("no head was published".into())),
            Some(Some(promised)) if promised != received => {
                End::Broken(BreakReason::LengthMismatch { promised, received })
            }
            Some(_) => End::Whole,
        };
        state.finish(end);
        let result = match state.end() {
            End::Broken(reason) => Err(reason.clone()),
            End::Open | End::Moved(_) => Ok(()),
            End::Whole => {
                self.fill().set_complete();
                Ok(())
            }
        };
        let wakers = state.take_all_wakers();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        result
    }

    /// Ends the fill: flushes, writes the header, renames the file to its final name and adds it to the
    /// index. Blocks.
    pub fn commit(mut self, now: u64) -> Committed {
        if let Err(reason) = self.finish() {
            return Committed::Broken(reason);
        }
        let outcome = self.flusher.store_whole(now);
        let stored = matches!(outcome, Ok(true));
        self.ended = true;
        self.flusher.end(stored);
        match outcome {
            Ok(true) => Committed::Stored,
            Ok(false) => Committed::NotStored(None),
            Err(error) => Committed::NotStored(Some(error)),
        }
    }

    /// Aborts the fill: readers get the bytes that have arrived and then the reason. Never blocks; a later
    /// `manage_step` removes the temporary file.
    pub fn abort(mut self, reason: impl Into<Arc<str>>) {
        self.break_off(BreakReason::Aborted(reason.into()));
    }

    /// Ends this fill in favour of another one of the same representation, from which its readers get the
    /// rest. The caller is responsible for their being the same. Never blocks.
    pub fn hand_over(mut self, to: &Arc<Fill>) {
        if Arc::ptr_eq(self.fill(), to) {
            return;
        }
        self.end_as(End::Moved(to.clone()));
    }

    /// Ends a fill whose response may not be cached: readers that wait for the head get that at once, and the
    /// key is free. Never blocks.
    pub fn release(mut self) {
        self.fill().state.lock().release();
        self.break_off(BreakReason::Uncacheable);
    }

    fn break_off(&mut self, reason: BreakReason) {
        self.end_as(End::Broken(reason));
    }

    fn end_as(&mut self, end: End) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.fill().state.lock().finish(end);
        self.flusher.end(false);
    }
}

impl Drop for FillWriter {
    fn drop(&mut self) {
        self.break_off(BreakReason::WriterGone);
    }
}
