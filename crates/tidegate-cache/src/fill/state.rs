//! The state that writer and readers of a fill share: tail, watermark, waiting tasks. Pure: it uses no disk
//! and wakes no task. It returns the wakers, and the caller wakes them after it has released the lock.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use super::head::{BreakReason, FillHead};
use super::limits::FillLimits;
use super::piece::Piece;
use super::readers::Readers;
use super::shared::Fill;
use crate::disk::FileHandle;
use crate::format::Layout;

/// Even a foremost reader is too slow when this number of tails have accumulated. Only a writer that does not
/// wait for room gets there.
const TAILS_MAX: u64 = 4;

/// This number of bytes that were written last are assumed to be in the page cache still.
const FRESH_BYTES: u64 = 4 << 20;

/// The state of a fill. Each part of it only moves forward:
///
/// | part | states |
/// |---|---|
/// | head | waiting → ready; from either → uncacheable ([`State::release`]) |
/// | body | open → whole, broken, or moved to another fill ([`State::finish`], once) |
/// | file | storing → not storing, on a failure of the disk, for want of room, or when a fill that is not
/// stored ends |
/// | outcome | `stored` unknown → known, when the writer has ended |
///
/// Invariant: `shown <= watermark` and `flushed <= watermark`. The chunks of the tail follow each other
/// without a gap, from `tail_start` to `watermark`. While storing `tail_start <= flushed`: each byte is in
/// memory or in the file. A body that is not open any more is shown up to its watermark.
pub(crate) struct State {
    head: HeadState,
    end: End,
    /// Whether bytes still go to the file.
    storing: bool,
    /// Whether the response became a cache file; `None` while that is undecided.
    stored: Option<bool>,
    /// The temporary file. It stays readable as long as a handle exists, whatever its name.
    file: Option<FileHandle>,
    temporary: Option<PathBuf>,
    /// Bytes of disk that are charged for the file.
    reserved: u64,
    /// Bytes of disk that no other fill can have, whether they are free yet or not.
    claimed: u64,
    layout: Option<Layout>,
    tail: VecDeque<Chunk>,
    tail_start: u64,
    flushed: u64,
    watermark: u64,
    /// The end of the bytes that readers see; at most the watermark.
    shown: u64,
    readers: Readers,
    /// The fill that has replaced this one in the index, and the writer's task that waits for it.
    successor: Option<Arc<Fill>>,
    successor_waiting: Option<Waker>,
    /// Tasks of the writer that wait for room or for the end of the last reader.
    writer_waiting: Vec<Waker>,
}

#[derive(Clone)]
pub(crate) struct Chunk {
    pub start: u64,
    pub bytes: Bytes,
}

/// The resources that a fill gives up when it is no longer stored.
#[must_use]
#[derive(Default)]
pub(crate) struct Leftover {
    pub temporary: Option<PathBuf>,
    pub reserved: u64,
    pub claimed: u64,
}

enum HeadState {
    Waiting,
    Ready(Arc<FillHead>),
    Uncacheable,
}

#[derive(Clone)]
pub(crate) enum End {
    Open,
    Whole,
    Broken(BreakReason),
    /// The missing bytes come from another fill of the same representation.
    Moved(Arc<Fill>),
}

impl State {
    pub(crate) fn new(storing: bool) -> State {
        State {
            head: HeadState::Waiting,
            end: End::Open,
            storing,
            stored: None,
            file: None,
            temporary: None,
            reserved: 0,
            claimed: 0,
            layout: None,
            tail: VecDeque::new(),
            tail_start: 0,
            flushed: 0,
            watermark: 0,
            shown: 0,
            readers: Readers::default(),
            successor: None,
            successor_waiting: None,
            writer_waiting: Vec::new(),
        }
    }

    pub(crate) fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Returns the offset where the part in memory begins.
    pub(crate) fn tail_start(&self) -> u64 {
        self.tail_start
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Returns the number of bytes that have arrived and that readers do not see yet.
    pub(crate) fn held(&self) -> u64 {
        self.watermark - self.shown
    }

    pub(crate) fn end(&self) -> &End {
        &self.end
    }

    pub(crate) fn head(&self) -> Option<&Arc<FillHead>> {
        match &self.head {
            HeadState::Ready(head) => Some(head),
            HeadState::Waiting | HeadState::Uncacheable => None,
        }
    }

    pub(crate) fn is_uncacheable(&self) -> bool {
        matches!(self.head, HeadState::Uncacheable)
    }

    /// Sets the head once; returns false when there is one.
    pub(crate) fn publish(&mut self, head: FillHead) -> bool {
        let waiting = matches!(self.head, HeadState::Waiting);
        if waiting {
            self.head = HeadState::Ready(Arc::new(head));
        }
        waiting
    }

    pub(crate) fn append(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let start = self.watermark;
        self.watermark += bytes.len() as u64;
        self.tail.push_back(Chunk { start, bytes });
    }

    /// Lets readers see all bytes that have arrived.
    pub(crate) fn show(&mut self) {
        self.shown = self.watermark;
    }

    /// Lets readers see the bytes in the file.
    pub(crate) fn show_flushed(&mut self) {
        self.shown = self.shown.max(self.flushed);
    }

    /// Ends the body, complete or broken. An ended body does not change.
    pub(crate) fn finish(&mut self, end: End) {
        if matches!(self.end, End::Open) {
            self.end = end;
            self.show();
        }
    }

    /// Marks this response as not to be shared.
    pub(crate) fn release(&mut self) {
        self.head = HeadState::Uncacheable;
        self.finish(End::Broken(BreakReason::Uncacheable));
    }

    /// Returns the piece that a reader at this offset gets now; `None`: it has to wait.
    pub(crate) fn piece(&self, offset: u64, max: usize) -> Option<Piece> {
        let max = max.max(1);
        if self.is_uncacheable() {
            return Some(Piece::Broken(BreakReason::Uncacheable));
        }
        if offset < self.shown {
            return Some(self.piece_present(offset, max));
        }
        match &self.end {
            End::Open => None,
            End::Whole => Some(Piece::End),
            End::Broken(reason) => Some(Piece::Broken(reason.clone())),
            // The reader moves to that fill and does not read here.
            End::Moved(_) => Some(Piece::Broken(BreakReason::WriterGone)),
        }
    }

    /// Returns the fill with the rest, for a reader that has all of this fill up to `offset`.
    pub(crate) fn moved_to(&self, offset: u64) -> Option<Arc<Fill>> {
        match &self.end {
            End::Moved(fill) if offset >= self.watermark => Some(fill.clone()),
            _ => None,
        }
    }

    fn piece_present(&self, offset: u64, max: usize) -> Piece {
        if offset >= self.tail_start {
            let at = self.tail.partition_point(|chunk| chunk.start <= offset);
            if let Some(chunk) = at.checked_sub(1).and_then(|at| self.tail.get(at)) {
                let from = (offset - chunk.start) as usize;
                let to = chunk.bytes.len().min(from.saturating_add(max));
                return Piece::Bytes(chunk.bytes.slice(from..to));
            }
        }
        match (&self.file, &self.layout) {
            (Some(file), Some(layout)) if offset < self.flushed => Piece::File {
                handle: file.clone(),
                offset: layout.body_start() as u64 + offset,
                length: (self.flushed - offset).min(max as u64),
                is_fresh: self.flushed - offset <= FRESH_BYTES,
            },
            _ => Piece::Broken(BreakReason::ReaderTooSlow),
        }
    }

    /// Returns the first bytes that are not in the file yet, at most about `max` of them.
    pub(crate) fn unflushed(&self, max: usize) -> Vec<Chunk> {
        let first = self.tail.partition_point(|chunk| chunk.start < self.flushed);
        let mut room = max as u64;
        let mut chunks = Vec::new();
        for chunk in self.tail.range(first..) {
            chunks.push(chunk.clone());
            room = room.saturating_sub(chunk.bytes.len() as u64);
            if room == 0 {
                break;
            }
        }
        chunks
    }

    pub(crate) fn flushed_to(&mut self, offset: u64) {
        self.flushed = offset.clamp(self.flushed, self.watermark);
    }

    /// Returns the whole body when all of it is still in memory.
    pub(crate) fn body_in_memory(&self) -> Option<Bytes> {
        if self.tail_start > 0 {
            return None;
        }
        // Copied even if it is one chunk: that may be a small part of a large receive buffer.
        let mut body = Vec::with_capacity(self.watermark as usize);
        for chunk in &self.tail {
            body.extend_from_slice(&chunk.bytes);
        }
        Some(body.into())
    }

    /// Drops the bytes from memory that no reader needs there: all that are in the file, except for a small
    /// body.
    ///
    /// Without a file a chunk is dropped when all readers have passed it. If more than the limit is held, it
    /// is also dropped when only slow readers need it; those end with [`BreakReason::ReaderTooSlow`]. So
    /// memory is bounded by [`TAILS_MAX`] limits.
    pub(crate) fn trim(&mut self, limits: FillLimits) {
        let keep_whole = self.storing && self.watermark <= limits.kept_bytes_max;
        // With a file the positions of the readers do not matter, and there may be many.
        let (lowest, slow) = if self.storing {
            (0, u64::MAX)
        } else {
            let foremost = self.readers.foremost(self.watermark).unwrap_or(u64::MAX);
            (self.readers.lowest(), foremost.saturating_sub(limits.lead_bytes_max()))
        };
        while let Some(chunk) = self.tail.front() {
            let end = chunk.start + chunk.bytes.len() as u64;
            let passed = end <= lowest;
            let held = self.watermark - self.tail_start;
            let over = held > limits.tail_bytes_max;
            let droppable = if self.storing {
                end <= self.flushed && !keep_whole
            } else {
                passed
                    || over && end <= slow
                    || held > limits.tail_bytes_max.saturating_mul(TAILS_MAX)
            };
            if !droppable {
                return;
            }
            self.tail.pop_front();
            self.tail_start = end;
        }
    }

    /// Returns whether the writer should continue: see `FillWriter::backpressure`.
    pub(crate) fn has_room(&self, limits: FillLimits) -> bool {
        if !matches!(self.end, End::Open) {
            return true;
        }
        if self.storing {
            return self.watermark - self.flushed <= limits.tail_bytes_max;
        }
        match self.readers.foremost(self.watermark) {
            Some(foremost) => self.watermark - foremost <= limits.lead_bytes_max(),
            None => true,
        }
    }

    /// Returns whether bytes still go to the file.
    pub(crate) fn is_storing(&self) -> bool {
        self.storing
    }

    /// Returns whether the response became a cache file; `None` while that is undecided.
    pub(crate) fn stored(&self) -> Option<bool> {
        self.stored
    }

    /// Returns the layout of the file; `None` before the head, or when the response cannot be stored.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout
    }

    pub(crate) fn set_layout(&mut self, layout: Option<Layout>) {
        self.layout = layout;
    }

    pub(crate) fn file(&self) -> Option<&FileHandle> {
        self.file.as_ref()
    }

    /// Takes the temporary file; returns its name where the fill is no longer stored.
    pub(crate) fn set_file(&mut self, file: &FileHandle, path: PathBuf) -> Result<(), PathBuf> {
        if !self.storing {
            return Err(path);
        }
        self.file = Some(file.clone());
        self.temporary = Some(path);
        Ok(())
    }

    /// Returns the name of the temporary file, for which the caller is responsible from now on.
    pub(crate) fn take_temporary(&mut self) -> Option<PathBuf> {
        self.temporary.take()
    }

    /// Returns the bytes of disk that are charged for the file, and those that no other fill can have.
    pub(crate) fn room(&self) -> (u64, u64) {
        (self.reserved, self.claimed)
    }

    /// Notes that bytes of disk were charged. Returns false where the fill is no longer stored: the bytes
    /// stay the caller's.
    #[must_use]
    pub(crate) fn reserve(&mut self, bytes: u64) -> bool {
        if self.storing {
            self.reserved += bytes;
        }
        self.storing
    }

    /// Notes that bytes of disk were claimed. Returns false where the fill is no longer stored: the bytes
    /// stay the caller's.
    #[must_use]
    pub(crate) fn claim(&mut self, bytes: u64) -> bool {
        if self.storing {
            self.claimed += bytes;
        }
        self.storing
    }

    /// Returns the charged bytes, for which the caller is responsible from now on.
    pub(crate) fn take_reserved(&mut self) -> u64 {
        std::mem::take(&mut self.reserved)
    }

    /// Notes that the writer is done; returns the resources to be removed and given back.
    pub(crate) fn writer_ended(&mut self, stored: bool, limits: FillLimits) -> Leftover {
        self.stored = Some(stored);
        self.trim(limits);
        match stored {
            true => Leftover { claimed: std::mem::take(&mut self.claimed), ..Leftover::default() },
            false => self.stop_storing(),
        }
    }

    /// Notes that another fill has replaced this one; returns the task that waits for that.
    pub(crate) fn succeeded_by(&mut self, successor: Arc<Fill>) -> Option<Waker> {
        self.successor = Some(successor);
        self.successor_waiting.take()
    }

    /// Returns the fill that has replaced this one; without one the task is woken when there is one.
    pub(crate) fn successor_or_wait(&mut self, waker: &Waker) -> Option<Arc<Fill>> {
        if self.successor.is_none() {
            self.successor_waiting = Some(waker.clone());
        }
        self.successor.clone()
    }

    /// Returns the slots of the readers.
    pub(crate) fn readers(&mut self) -> &mut Readers {
        &mut self.readers
    }

    pub(crate) fn reader_count(&self) -> usize {
        self.readers.count()
    }

    /// Ends writing to disk; returns the resources to be removed and given back.
    pub(crate) fn stop_storing(&mut self) -> Leftover {
        self.storing = false;
        self.show();
        Leftover {
            temporary: self.temporary.take(),
            reserved: std::mem::take(&mut self.reserved),
            claimed: std::mem::take(&mut self.claimed),
        }
    }

    pub(crate) fn writer_waits(&mut self, waker: &Waker) {
        if !self.writer_waiting.iter().any(|known| known.will_wake(waker)) {
            self.writer_waiting.push(waker.clone());
        }
    }

    pub(crate) fn take_writer(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.writer_waiting)
    }

    /// Returns all waiting tasks, for when the head or the end is set.
    pub(crate) fn take_all_wakers(&mut self) -> Vec<Waker> {
        let mut wakers = self.take_writer();
        wakers.extend(self.readers.take_waiting(u64::MAX));
        wakers
    }

    /// Returns the readers whose next byte has arrived.
    pub(crate) fn take_readers(&mut self) -> Vec<Waker> {
        self.readers.take_waiting(self.shown)
    }
}
