//! Writing a fill. The writer itself never blocks; [`FillFlusher::flush_step`] and
//! [`FillWriter::commit`] do, and belong on a thread that may.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::state::{Chunk, End, Leftover, State};
use super::{BreakReason, Fill, FillHead};
use crate::disk::{FileHandle, write_full_at};
use crate::format::{Layout, Times, encode};
use crate::store::{Room, StoreInner, disk_bytes_of};
use crate::verify::BodySums;

/// How much one flush step takes up at most.
const FLUSH_STEP_BYTES: usize = 1 << 20;

/// A flush is due when this part of the tail's limit is unflushed: early enough to be done before
/// the tail is full.
const FLUSH_DUE_PART: u64 = 4;

/// Small chunks are joined up to this size, to make fewer system calls.
const JOINED_BYTES_MAX: usize = 256 * 1024;

/// The writing end of a fill; there is one. Dropping it breaks the fill off.
pub struct FillWriter {
    flusher: FillFlusher,
    ended: bool,
    /// Tells purges that a fill runs which began before them.
    _began: Arc<()>,
}

/// Writes a fill's bytes to its file; may be sent to another thread while the writer appends.
#[derive(Clone)]
pub struct FillFlusher {
    fill: Arc<Fill>,
    store: Arc<StoreInner>,
}

/// What an append tells the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Bytes not yet in the file; 0 when nothing is to be flushed.
    pub unflushed: u64,
    /// Enough is unflushed that a flush step is worth its system calls. Less may wait: a short
    /// body goes out with its header in one write of the commit.
    pub flush_due: bool,
    /// Whether more may be appended without waiting for [`FillWriter::backpressure`].
    pub has_room: bool,
}

/// What a flush step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushReport {
    pub written: u64,
    /// Bytes left to be flushed.
    pub unflushed: u64,
    /// False once the disk has failed: there is nothing to flush any more.
    pub storing: bool,
}

/// What became of a committed fill.
#[derive(Debug)]
pub enum Committed {
    Stored,
    /// The readers got everything, the cache nothing. With the disk's error if that was the
    /// reason; none: the disk failed earlier, or the key was removed or refilled meanwhile.
    NotStored(Option<io::Error>),
    /// The body was not whole; the readers were told.
    Broken(BreakReason),
}

impl FillWriter {
    pub(crate) fn new(fill: Arc<Fill>, store: Arc<StoreInner>) -> FillWriter {
        let began = store.purges.present();
        FillWriter { flusher: FillFlusher { fill, store }, ended: false, _began: began }
    }

    pub fn fill(&self) -> &Arc<Fill> {
        &self.flusher.fill
    }

    pub fn flusher(&self) -> FillFlusher {
        self.flusher.clone()
    }

    /// Publishes the head and wakes those who wait for it. Only the first head counts.
    /// Never blocks.
    pub fn publish_head(&self, metadata: Bytes, times: Times, body_bytes: Option<u64>, now: u64) {
        let fill = self.fill();
        fill.progressed(now);
        let layout = Layout::for_new(fill.key(), &metadata);
        let mut state = fill.state.lock();
        if !state.publish(FillHead { metadata, times, body_bytes }) {
            return;
        }
        state.layout = layout;
        let bytes = layout.map(|layout| disk_bytes_of(layout, body_bytes.unwrap_or(0)));
        let unstorable = bytes.is_none_or(|bytes| !self.flusher.store.can_hold(bytes, false));
        let leftover = if unstorable { Some(state.stop_storing()) } else { None };
        let wakers = state.take_everybody();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        if let Some(leftover) = leftover {
            self.flusher.detach(leftover);
        }
    }

    /// Appends bytes and wakes the readers that wait for them. Never blocks; the caller has them
    /// flushed, and waits for [`FillWriter::backpressure`] when there is no room.
    pub fn append(&self, bytes: Bytes, now: u64) -> Appended {
        let fill = self.fill();
        fill.progressed(now);
        let mut state = fill.state.lock();
        if !matches!(state.end(), End::Open) {
            return Appended { unflushed: 0, flush_due: false, has_room: true };
        }
        state.append(bytes);
        state.trim(fill.limits);
        let unflushed = unflushed_of(&state);
        let has_room = state.has_room(fill.limits);
        let wakers = state.take_readers();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        let flush_due = unflushed > fill.limits.tail_bytes_max / FLUSH_DUE_PART;
        Appended { unflushed, flush_due, has_room }
    }

    /// Waits until more may be appended. While the fill is stored: until no more than the limit
    /// is unflushed, so somebody has to flush. Else: until the foremost reader has all but half
    /// the limit; at once if there is none. Cancel-safe.
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

    /// Waits until there is no reader: at once if there never was one, so the initiator takes its
    /// own reader first. Readers may come again later. Cancel-safe.
    pub async fn abandoned(&self) {
        poll_fn(|context| {
            let mut state = self.fill().state.lock();
            if state.readers.count() == 0 {
                return Poll::Ready(());
            }
            state.writer_waits(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Ready with the fill that has taken this one's place ([`crate::Store::take_over_fill`]).
    pub fn poll_successor(&self, context: &mut Context<'_>) -> Poll<Arc<Fill>> {
        let mut state = self.fill().state.lock();
        match &state.successor {
            Some(successor) => Poll::Ready(successor.clone()),
            None => {
                state.heir_waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Writes unflushed bytes to the file. Blocks. See [`FillFlusher::flush_step`].
    pub fn flush_step(&self) -> FlushReport {
        self.flusher.flush_step()
    }

    /// Declares the body whole: readers see its end without waiting for the commit. An error
    /// (and a broken fill) if it is not as long as was promised. Never blocks.
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
            End::Open | End::Whole | End::Moved(_) => Ok(()),
        };
        let wakers = state.take_everybody();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        result
    }

    /// Ends the fill: flushes, writes the header, gives the file its name and makes it known.
    /// Blocks.
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

    /// Breaks the fill off: readers get what has arrived and then the reason. Never blocks; the
    /// temporary file goes with a later `manage_step`.
    pub fn abort(mut self, reason: impl Into<Arc<str>>) {
        self.break_off(BreakReason::Aborted(reason.into()));
    }

    /// Ends this fill in favour of another one of the same representation, which its readers are given
    /// from where this one ends. That they are the same is for the caller to know. Never blocks.
    pub fn hand_over(mut self, to: &Arc<Fill>) {
        if Arc::ptr_eq(self.fill(), to) {
            return;
        }
        self.end_as(End::Moved(to.clone()));
    }

    /// The head says that the response may not be cached: those who wait for it are told so at
    /// once and the key is free. Never blocks.
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

impl FillFlusher {
    /// Writes up to a megabyte of unflushed bytes to the temporary file, creating it first.
    /// Blocks. Does nothing before the head is published, since the body's place in the file
    /// depends on it. On an error of the disk, or when there is no room, the fill goes on without a
    /// file.
    pub fn flush_step(&self) -> FlushReport {
        let mut sums = self.fill.disk_turn.lock();
        let result = self.write_some(&mut sums);
        drop(sums);
        let written = result.unwrap_or_else(|_| {
            self.give_up_storing();
            0
        });
        let state = self.fill.state.lock();
        FlushReport { written, unflushed: unflushed_of(&state), storing: state.storing }
    }

    /// One step of writing; the caller has the disk's turn.
    fn write_some(&self, sums: &mut BodySums) -> io::Result<u64> {
        let (chunks, layout) = {
            let state = self.fill.state.lock();
            let Some(layout) = state.layout.filter(|_| state.storing) else { return Ok(0) };
            (state.unflushed(FLUSH_STEP_BYTES), layout)
        };
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Ok(0) };
        let start = first.start;
        if !self.keep_room(layout, last.start + last.bytes.len() as u64)? {
            return Ok(0);
        }
        let Some(file) = self.temporary_file()? else { return Ok(0) };
        let end = write_chunks(&file, &chunks, layout.body_start() as u64)?;
        let hash = self.fill.key().hash();
        chunks.iter().for_each(|chunk| sums.add(&chunk.bytes, hash));
        let mut state = self.fill.state.lock();
        state.flushed_to(end);
        state.trim(self.fill.limits);
        let wakers = state.take_writer();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        Ok(end - start)
    }

    /// Sees to it that the file may grow to hold so much of the body: all of it, if its length is
    /// known, so that a fill either has room to its end or does not begin. False: not yet.
    fn keep_room(&self, layout: Layout, body_end: u64) -> io::Result<bool> {
        let (reserved, written, whole, grows) = {
            let state = self.fill.state.lock();
            let promised = state.head().and_then(|head| head.body_bytes);
            let whole = disk_bytes_of(layout, promised.unwrap_or(0).max(body_end));
            let grows = promised.is_none() && matches!(state.end(), End::Open);
            (state.reserved, state.flushed(), whole, grows)
        };
        // Even if nothing is missing: others may have taken what `min_free` wants to be left.
        let missing = whole.saturating_sub(reserved);
        if !self.store.can_hold(whole, grows) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match self.store.keep_room(missing, body_end - written) {
            Room::More => Ok(false),
            Room::None => Err(io::ErrorKind::StorageFull.into()),
            Room::Kept => {
                let mut state = self.fill.state.lock();
                if state.storing {
                    state.reserved += missing;
                    return Ok(true);
                }
                drop(state);
                self.store.index.uncharge(missing);
                Ok(false)
            }
        }
    }

    /// The temporary file, created when there is none; `None`: the fill was broken off meanwhile.
    fn temporary_file(&self) -> io::Result<Option<FileHandle>> {
        if let Some(file) = &self.fill.state.lock().file {
            return Ok(Some(file.clone()));
        }
        let (path, file) = self.store.create_temporary(self.fill.key().hash())?;
        let mut state = self.fill.state.lock();
        if !state.storing {
            drop(state);
            self.store.discard_temporary(path, 0);
            return Ok(None);
        }
        state.file = Some(file.clone());
        state.temporary = Some(path);
        Ok(Some(file))
    }

    /// Makes a cache file of a whole fill; false when it is not to be stored.
    fn store_whole(&self, now: u64) -> io::Result<bool> {
        let mut sums = self.fill.disk_turn.lock();
        let whole = self.write_whole(&mut sums)?;
        let Some((temporary, layout, head)) = whole else { return Ok(false) };
        let (file, body, body_bytes, reserved) = {
            let mut state = self.fill.state.lock();
            let kept = state.watermark() <= self.fill.limits.kept_bytes_max;
            let body = if kept { state.body_in_memory() } else { None };
            let Some(file) = state.file.clone() else { return Ok(false) };
            (file, body, state.watermark(), std::mem::take(&mut state.reserved))
        };
        let placed = crate::store::Placed { layout, head: &head, file, body, body_bytes };
        self.store.place(&self.fill, temporary, placed, reserved, now)
    }

    /// Writes all that is missing: body and checksums first, then everything before it. Returns the temporary
    /// file's name, which the caller is now responsible for.
    fn write_whole(
        &self,
        sums: &mut BodySums,
    ) -> io::Result<Option<(PathBuf, Layout, Arc<FillHead>)>> {
        loop {
            let (head, layout, pending) = {
                let state = self.fill.state.lock();
                let (Some(head), Some(layout)) = (state.head(), state.layout) else {
                    return Ok(None);
                };
                if !state.storing {
                    return Ok(None);
                }
                // A short body that never met the disk goes out with its header in one write.
                let pending = state.watermark() - state.flushed();
                let small = state.file.is_none() && pending <= JOINED_BYTES_MAX as u64;
                let all = if small { Some(state.unflushed(usize::MAX)) } else { None };
                (head.clone(), layout, if pending == 0 { Some(Vec::new()) } else { all })
            };
            let Some(rest) = pending else {
                self.write_some(sums)?;
                continue;
            };
            let body_bytes = self.fill.watermark();
            if !self.keep_room(layout, body_bytes)? {
                continue;
            }
            let key = self.fill.key();
            let mut bytes = encode(key, layout, &head.metadata, head.times, body_bytes);
            for chunk in &rest {
                bytes.extend_from_slice(&chunk.bytes);
                sums.add(&chunk.bytes, key.hash());
            }
            let Some(file) = self.temporary_file()? else { return Ok(None) };
            let sums = sums.finish(key.hash());
            match rest.is_empty() {
                true => write_full_at(&*file, sums, layout.body_start() as u64 + body_bytes)?,
                false => bytes.extend_from_slice(sums),
            }
            write_full_at(&*file, &bytes, 0)?;
            let mut state = self.fill.state.lock();
            state.flushed_to(body_bytes);
            let temporary = state.temporary.take();
            return Ok(temporary.map(|temporary| (temporary, layout, head)));
        }
    }

    /// The disk has failed: go on for the readers who are here, and let others start anew.
    fn give_up_storing(&self) {
        let mut state = self.fill.state.lock();
        let leftover = state.stop_storing();
        state.trim(self.fill.limits);
        let wakers = state.take_writer();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        self.detach(leftover);
    }

    /// Tells everybody that the writer is done.
    fn end(&self, stored: bool) {
        let mut state = self.fill.state.lock();
        state.stored = Some(stored);
        let leftover = if stored { Leftover::default() } else { state.stop_storing() };
        let wakers = state.take_everybody();
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        self.detach(leftover);
    }

    fn detach(&self, leftover: Leftover) {
        self.store.index.fill_ended(self.fill.key().hash(), &self.fill);
        match leftover.temporary {
            Some(temporary) => self.store.discard_temporary(temporary, leftover.reserved),
            None => self.store.index.uncharge(leftover.reserved),
        }
    }
}

fn unflushed_of(state: &State) -> u64 {
    if state.storing { state.watermark() - state.flushed() } else { 0 }
}

/// Writes neighbouring chunks, small ones joined; returns the body offset behind the last.
fn write_chunks(file: &FileHandle, chunks: &[Chunk], body_start: u64) -> io::Result<u64> {
    let mut joined: Vec<u8> = Vec::new();
    let mut end = chunks.first().map_or(0, |chunk| chunk.start);
    for chunk in chunks {
        if !joined.is_empty() && joined.len() + chunk.bytes.len() > JOINED_BYTES_MAX {
            let start = chunk.start - joined.len() as u64;
            write_full_at(&**file, &joined, body_start + start)?;
            joined.clear();
        }
        end = chunk.start + chunk.bytes.len() as u64;
        if joined.is_empty() && chunk.bytes.len() >= JOINED_BYTES_MAX / 4 {
            write_full_at(&**file, &chunk.bytes, body_start + chunk.start)?;
        } else {
            joined.extend_from_slice(&chunk.bytes);
        }
    }
    if !joined.is_empty() {
        write_full_at(&**file, &joined, body_start + end - joined.len() as u64)?;
    }
    Ok(end)
}
