//! Reading a fill while it is written. All waits are by registration: whoever publishes, appends
//! or ends wakes exactly those who wait for it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::head::{BreakReason, Head};
use super::piece::Piece;
use super::shared::Fill;
use super::state::End;

/// One reader's place in a fill. `Send`; dropping it tells the writer.
///
/// Invariant: `offset` is where the next byte of the body is read, in whichever fill that is, and the fill knows it as
/// the offset of `slot`. A waker that is left there is taken by the first event that concerns it: the head, a byte at
/// `offset`, the end, the outcome. Dropped at an await of its functions it has taken nothing.
pub struct FillReader {
    fill: Arc<Fill>,
    slot: usize,
    offset: u64,
}

impl Fill {
    /// Starts reading at an offset of the body, which may lie ahead of what has arrived.
    pub fn reader(self: &Arc<Fill>, offset: u64) -> FillReader {
        FillReader::new(self.clone(), offset)
    }

    /// Waits until it is decided whether the response became a cache file. Dropped at its await it leaves its place as a
    /// reader; the fill goes on.
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

    /// The fill that is read: another one after a handover ([`crate::FillWriter::hand_over`]).
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Offset in the body of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on so many bytes later, which may lie ahead of what has arrived: then the reader is woken
    /// when the byte there arrives, and not before.
    pub fn skip(&mut self, count: u64) {
        self.offset = self.offset.saturating_add(count);
        self.fill.state.lock().readers().moved(self.slot, self.offset);
    }

    /// Waits for the head. Cancel-safe.
    pub async fn head(&mut self) -> Head {
        poll_fn(|context| self.poll_head(context)).await
    }

    /// Waits for the next part, of at most `max` bytes (at least one). Cancel-safe: a part is
    /// either returned or not taken.
    pub async fn next(&mut self, max: usize) -> Piece {
        poll_fn(|context| self.poll_next(context, max)).await
    }

    /// Waits until it is decided whether the response became a cache file: after the end of the
    /// body, for who wants the next request to find it.
    pub fn poll_stored(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.go_where_it_goes_on();
        let mut state = self.fill.state.lock();
        match state.stored() {
            Some(stored) => Poll::Ready(stored),
            None => {
                state.readers().waits(self.slot, context.waker());
                Poll::Pending
            }
        }
    }

    /// [`FillReader::head`] as a poll function.
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

    /// [`FillReader::next`] as a poll function.
    pub fn poll_next(&mut self, context: &mut Context<'_>, max: usize) -> Poll<Piece> {
        self.go_where_it_goes_on();
        let mut state = self.fill.state.lock();
        let Some(piece) = state.piece(self.offset, max) else {
            state.readers().waits(self.slot, context.waker());
            return Poll::Pending;
        };
        let length = piece.length();
        self.offset += length;
        state.readers().moved(self.slot, self.offset);
        // Without a file the readers set the writer's pace.
        let wakers =
            if state.is_storing() || length == 0 { Vec::new() } else { state.take_writer() };
        drop(state);
        wakers.into_iter().for_each(|waker| waker.wake());
        Poll::Ready(piece)
    }
}

impl FillReader {
    /// Changes over to the fill that has the rest, once all that is here was read.
    fn go_where_it_goes_on(&mut self) {
        loop {
            let next = self.fill.state.lock().moved_to(self.offset);
            let Some(next) = next else { return };
            // The old reader leaves its place when it is dropped.
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
