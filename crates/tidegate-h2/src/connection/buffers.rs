//! Memory for bytes that are under way: a connection without a stream needs none of it.
//!
//! A caller with many connections keeps a few [`Buffers`] and lends them to the connections that are busy
//! ([`Connection::lend`], [`Connection::take_back`]). Others need not call either: the first use makes them.

use super::{Connection, Role};
use tidegate_fields::Head;
use tidegate_fields::head::Scratch;

/// Capacity above which buffers are freed when they are taken back, bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// The buffers of a busy connection. They are empty while no connection has them.
#[derive(Debug, Default)]
pub struct Buffers {
    /// A part of a frame that is not complete.
    pub(super) partial: Vec<u8>,
    /// What has been received of a header block that is not complete.
    pub(super) block: Vec<u8>,
    pub(super) head: Head,
    pub(super) scratch: Scratch,
    /// The header block that is being encoded.
    pub(super) encoded: Vec<u8>,
    /// Memory of the output, while it has none of its own.
    output: Vec<u8>,
}

impl Buffers {
    /// Bytes allocated beside the value itself.
    fn capacity(&self) -> usize {
        let Buffers { partial, block, head, scratch, encoded, output } = self;
        partial.capacity()
            + block.capacity()
            + head.headers.capacity()
            + head.ignored.capacity() * size_of::<tidegate_codec::Span>()
            + scratch.capacity()
            + encoded.capacity()
            + output.capacity()
    }

    /// Removes all bytes: the next connection is another client's.
    fn clear(&mut self) {
        let Buffers { partial, block, head, scratch, encoded, output } = self;
        head.clear();
        scratch.clear();
        [partial, block, encoded, output].into_iter().for_each(Vec::clear);
    }
}

/// The buffers of one connection, from their first use on.
#[derive(Debug, Default)]
pub(super) struct Lent(Option<Box<Buffers>>);

impl Lent {
    #[inline]
    pub(super) fn get(&mut self) -> &mut Buffers {
        match &mut self.0 {
            Some(buffers) => buffers,
            none => Lent::make(none),
        }
    }

    #[cold]
    #[inline(never)]
    fn make(none: &mut Option<Box<Buffers>>) -> &mut Buffers {
        none.get_or_insert_default()
    }

    /// Bytes of a frame so far.
    #[inline]
    pub(super) fn partial_len(&self) -> usize {
        self.0.as_ref().map_or(0, |buffers| buffers.partial.len())
    }

    /// Whether no frame and no header block is incomplete.
    #[inline]
    pub(super) fn is_between_frames(&self) -> bool {
        self.0.as_ref().is_none_or(|buffers| buffers.partial.is_empty() && buffers.block.is_empty())
    }

    /// Bytes of a header block so far.
    #[inline]
    pub(super) fn block_len(&self) -> usize {
        self.0.as_ref().map_or(0, |buffers| buffers.block.len())
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.as_ref().map_or(0, |buffers| size_of::<Buffers>() + buffers.capacity())
    }

    /// Frees what no incomplete message needs.
    pub(super) fn release(&mut self) {
        if self.is_between_frames() {
            self.0 = None;
        }
    }
}

impl<R: Role> Connection<R> {
    /// Takes buffers, which are empty, for as long as the connection is busy. Without effect where it has some.
    pub fn lend(&mut self, mut buffers: Box<Buffers>) {
        if self.buffers.0.is_none() {
            self.output.adopt(std::mem::take(&mut buffers.output));
            self.buffers.0 = Some(buffers);
        }
    }

    /// Returns the buffers, for another connection, if this one is quiet ([`Connection::is_quiet`]) and they are not
    /// large.
    pub fn take_back(&mut self) -> Option<Box<Buffers>> {
        if !self.is_quiet() {
            return None;
        }
        let mut buffers = self.buffers.0.take()?;
        buffers.output = self.output.give_up();
        buffers.clear();
        (buffers.capacity() <= KEPT_BYTES_MAX).then_some(buffers)
    }
}
