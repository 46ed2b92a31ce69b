//! Reading a fill while it is written. All waits are by registration: a publication, an append or the end
//! wakes exactly the readers that wait for it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::head::{BreakReason, Head};
use super::piece::Piece;
use super::shared::Fill;
use super::state::End;

/// The position of one reader in a fill. It is `Send`; dropping it notifies the writer.
///
/// Invariant: `offset` is the offset of the next byte of the body in whichever fill is read, and the fill has
/// it as the offset of `slot`. A registered waker is taken by the first event that concerns it: the head, a
/// byte at `offset`, the end, the outcome. A reader that is dropped at an await of its functions has taken
/// nothing.
pub struct FillReader {
    fill: Arc<Fill>,
    slot: usize,
    offset: u64,
}

impl Fill {
    /// Starts reading at an offset of the body, which may be ahead of the bytes that have arrived.
    pub fn reader(self: &Arc<Fill>, offset: u64) -> FillReader {
        FillReader::new(self.clone(), offset)
    }

    /// Waits until it is decided whether the response became a cache file. A future that is dropped while it
    /// waits unregisters its reader; the fill continues.
    pub async fn placed(self: &Arc<Fill>) -> bool {
        let mut reader = self.reader(self.watermark());
        poll_fn(|context| reader.poll_stored(context)).await
    }
}

impl FillReader {
    fn new(fill: Arc<Fill>, offset: u64) -> FillReader {
        let slot = fill.state.lock().readers().add(offset);
        FillReader { fill, slot, offset }
    }

    /// Returns the fill that is read. It is another one after a handover ([`crate::FillWriter::hand_over`]).
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Returns the offset of the next byte in the body.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Skips `count` bytes. The new offset may be ahead of the bytes that have arrived: the reader is woken
    /// when the byte there arrives, and not before.
    pub fn skip(&mut self, count: u64) {
        self.offset = self.offset.saturating_add(count);
        let mut state = self.fill.state.lock();
        state.readers().moved(self.slot, self.offset);
        // Without a file the readers set the pace of the writer.
        let wakers = if state.is_storing() { Vec::new() } else { state.take_writer() };
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
    }

    /// Waits for the head. Cancel-safe.
    pub async fn head(&mut self) -> Head {
        poll_fn(|context| self.poll_head(context)).await
    }

    /// Waits for the next part, of at most `max` bytes (at least one). Cancel-safe: a part is either returned
    /// or not taken.
    pub async fn next(&mut self, max: usize) -> Piece {
        poll_fn(|context| self.poll_next(context, max)).await
    }

    /// Waits until it is decided whether the response became a cache file. It is called after the end of the
    /// body by clients whose next request shall find it.
    pub fn poll_stored(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.follow_handover();
        let mut state = self.fill.state.lock();
        match state.stored() {
            Some(stored) => Poll::Ready(stored),
            None => {
                state.readers().waits(self.slot, context.waker());
                Poll::Pending
            }
        }
    }

    /// Polls for [`FillReader::head`].
    pub fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Head> {
        let mut state = self.fill.state.lock();
        if state.is_uncacheable() {
            return Poll::Ready(Head::Uncacheable);
        }
        if let Some(head) = state.head() {
            return Poll::Ready(Head::Ready(head.clone()));
        }
        match state.end() {
            End::Broken(reason) => Poll::Ready(Head::Failed(reason.clone())),
            End::Whole | End::Moved(_) => Poll::Ready(Head::Failed(BreakReason::WriterGone)),
            End::Open => {
                state.readers().waits(self.slot, context.waker());
                Poll::Pending
            }
        }
    }

    /// Polls for [`FillReader::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>, max: usize) -> Poll<Piece> {
        let mut state = loop {
            self.follow_handover();
            let state = self.fill.state.lock();
            // The handover may come between the two.
            if state.moved_to(self.offset).is_none() {
                break state;
            }
        };
        let Some(piece) = state.piece(self.offset, max) else {
            state.readers().waits(self.slot, context.waker());
            return Poll::Pending;
        };
        let length = piece.length();
        self.offset += length;
        state.readers().moved(self.slot, self.offset);
        // Without a file the readers set the pace of the writer.
        let wakers =
            if state.is_storing() || length == 0 { Vec::new() } else { state.take_writer() };
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        Poll::Ready(piece)
    }
}

impl FillReader {
    /// Moves to the fill that has the rest, once all bytes of this one were read.
    fn follow_handover(&mut self) {
        loop {
            let next = self.fill.state.lock().moved_to(self.offset);
            let Some(next) = next else { return };
            // The old reader gives up its slot when it is dropped.
            *self = FillReader::new(next, self.offset);
        }
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        let mut state = self.fill.state.lock();
        state.readers().remove(self.slot);
        let concerns_writer = state.reader_count() == 0 || !state.is_storing();
        let wakers = if concerns_writer { state.take_writer() } else { Vec::new() };
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
    }
}
