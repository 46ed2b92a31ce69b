//! The state that writer and readers of a fill share: tail, watermark, waiting tasks. Pure: no
//! disk, no wake-ups of its own (they are handed out, to be made when the lock is released).

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

/// Even a foremost reader is left behind when this many tails have piled up: only a writer that
/// does not wait for room gets there.
const TAILS_MAX: u64 = 4;

/// So much of what was written last is taken to be in the page cache still.
const FRESH_BYTES: u64 = 4 << 20;

/// The state of a fill. Each part of it only goes forward:
///
/// | part | states |
/// |---|---|
/// | head | waiting → ready; from either → uncacheable ([`State::release`]) |
/// | body | open → whole, broken, or moved to another fill ([`State::finish`], once) |
/// | file | storing → not storing, on a failure of the disk, for want of room, or at the end of what is not stored |
/// | outcome | `stored` unknown → known, when the writer has ended |
///
/// Invariant: `shown <= watermark` and `flushed <= watermark`. The chunks of the tail follow each other without a gap,
/// from `tail_start` to `watermark`. While storing `tail_start <= flushed`: each byte is in memory or in the file. A body
/// that is not open any more is shown up to its watermark.
pub(crate) struct State {
    head: HeadState,
    end: End,
    /// Whether bytes still go to the file.
    storing: bool,
    /// What became of it, once that is known.
    stored: Option<bool>,
    /// The temporary file; readable for as long as anybody holds it, whatever its name.
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
    /// How far readers see; up to the watermark.
    shown: u64,
    readers: Readers,
    /// The fill that has taken this one's place in the index, and the writer's task that waits for it.
    successor: Option<Arc<Fill>>,
    successor_waiting: Option<Waker>,
    /// Tasks of the writer, waiting for room or for the last reader to go.
    writer_waiting: Vec<Waker>,
}

#[derive(Clone)]
pub(crate) struct Chunk {
    pub start: u64,
    pub bytes: Bytes,
}

/// What a fill leaves behind that is no longer stored.
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
    /// What is missing comes from another fill of the same representation.
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

    /// Where the part that is in memory begins.
    pub(crate) fn tail_start(&self) -> u64 {
        self.tail_start
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Bytes that have arrived and that readers do not see yet.
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

    /// Sets the head, once; false when there is one.
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

    /// Lets readers see all that is there.
    pub(crate) fn show(&mut self) {
        self.shown = self.watermark;
    }

    /// Lets readers see what is in the file.
    pub(crate) fn show_flushed(&mut self) {
        self.shown = self.shown.max(self.flushed);
    }

    /// Ends the body, or breaks it; nothing happens to what has ended.
    pub(crate) fn finish(&mut self, end: End) {
        if matches!(self.end, End::Open) {
            self.end = end;
            self.show();
        }
    }

    /// Tells everybody that this response is not for sharing.
    pub(crate) fn release(&mut self) {
        self.head = HeadState::Uncacheable;
        self.finish(End::Broken(BreakReason::Uncacheable));
    }

    /// What a reader at this offset gets now; `None`: it has to wait.
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
            // The reader goes there instead of asking here.
            End::Moved(_) => Some(Piece::Broken(BreakReason::WriterGone)),
        }
    }

    /// Where a reader that has all of this fill up to `offset` finds the rest.
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

    /// Bytes that are not in the file yet, from the first on, at most about `max` of them.
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

    /// The whole body, when all of it is still in memory.
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

    /// Drops what nobody needs from memory: all that is in the file, but for a small body.
    ///
    /// Without a file a chunk goes when all readers have passed it, or, where more than the limit is held, when only slow
    /// readers need it; those end with [`BreakReason::ReaderTooSlow`]. So memory is bounded by [`TAILS_MAX`] limits.
    pub(crate) fn trim(&mut self, limits: FillLimits) {
        let keep_whole = self.storing && self.watermark <= limits.kept_bytes_max;
        // With a file it does not matter where they are, and there may be many.
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

    /// Whether the writer should go on: see `FillWriter::backpressure`.
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

    /// Whether bytes still go to the file.
    pub(crate) fn is_storing(&self) -> bool {
        self.storing
    }

    /// What became of it, once that is known.
    pub(crate) fn stored(&self) -> Option<bool> {
        self.stored
    }

    /// Where things lie in the file; `None` before the head, or when it cannot be stored.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout
    }

    pub(crate) fn set_layout(&mut self, layout: Option<Layout>) {
        self.layout = layout;
    }

    pub(crate) fn file(&self) -> Option<&FileHandle> {
        self.file.as_ref()
    }

    /// Takes up the temporary file; gives its name back where nothing is stored any more.
    pub(crate) fn set_file(&mut self, file: &FileHandle, path: PathBuf) -> Result<(), PathBuf> {
        if !self.storing {
            return Err(path);
        }
        self.file = Some(file.clone());
        self.temporary = Some(path);
        Ok(())
    }

    /// The name of the temporary file, for which the caller is responsible from now on.
    pub(crate) fn take_temporary(&mut self) -> Option<PathBuf> {
        self.temporary.take()
    }

    /// Bytes of disk that are charged for the file, and those that no other fill can have.
    pub(crate) fn room(&self) -> (u64, u64) {
        (self.reserved, self.claimed)
    }

    /// Notes that bytes of disk were charged; false where nothing is stored any more, and they are the caller's.
    #[must_use]
    pub(crate) fn reserve(&mut self, bytes: u64) -> bool {
        if self.storing {
            self.reserved += bytes;
        }
        self.storing
    }

    /// Notes that bytes of disk were claimed; false where nothing is stored any more, and they are the caller's.
    #[must_use]
    pub(crate) fn claim(&mut self, bytes: u64) -> bool {
        if self.storing {
            self.claimed += bytes;
        }
        self.storing
    }

    /// The charged bytes, for which the caller is responsible from now on.
    pub(crate) fn take_reserved(&mut self) -> u64 {
        std::mem::take(&mut self.reserved)
    }

    /// The writer is done; returns what there is to be removed and given back.
    pub(crate) fn writer_ended(&mut self, stored: bool, limits: FillLimits) -> Leftover {
        self.stored = Some(stored);
        self.trim(limits);
        match stored {
            true => Leftover { claimed: std::mem::take(&mut self.claimed), ..Leftover::default() },
            false => self.stop_storing(),
        }
    }

    /// Another fill has taken this one's place; the task that waits for that.
    pub(crate) fn succeeded_by(&mut self, successor: Arc<Fill>) -> Option<Waker> {
        self.successor = Some(successor);
        self.successor_waiting.take()
    }

    /// The fill that has taken this one's place; without one the task is woken when there is one.
    pub(crate) fn successor_or_wait(&mut self, waker: &Waker) -> Option<Arc<Fill>> {
        if self.successor.is_none() {
            self.successor_waiting = Some(waker.clone());
        }
        self.successor.clone()
    }

    /// The places of the readers.
    pub(crate) fn readers(&mut self) -> &mut Readers {
        &mut self.readers
    }

    pub(crate) fn reader_count(&self) -> usize {
        self.readers.count()
    }

    /// Ends writing to disk; returns what there is to be removed and given back.
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

    /// Everybody who waits, for when head or end became known.
    pub(crate) fn take_everybody(&mut self) -> Vec<Waker> {
        let mut wakers = self.take_writer();
        wakers.extend(self.readers.take_waiting(u64::MAX));
        wakers
    }

    /// The readers whose next byte is there.
    pub(crate) fn take_readers(&mut self) -> Vec<Waker> {
        self.readers.take_waiting(self.shown)
    }
}
