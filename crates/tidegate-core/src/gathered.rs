//! Bytes of a body that are kept in memory: small pieces are gathered in one buffer, so that a body that comes in
//! pieces of a byte takes no more memory than twice its length.
//!
//! ```
//! use tidegate_core::gathered::Gathered;
//!
//! let mut kept = Gathered::default();
//! (0..1000).for_each(|_| kept.push("x".into()));
//! assert_eq!((kept.len(), kept.take().len()), (1000, 1));
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;

/// Larger pieces are kept as they are: what they take besides their bytes is nothing beside these.
const COPIED_BYTES_MAX: usize = 2 * 1024;
/// A buffer of gathered pieces: copying it when it grows costs as little as reading it did.
const BUFFER_BYTES: usize = 16 * 1024;

/// Pieces of a body, in their order.
#[derive(Debug, Default)]
pub struct Gathered {
    pieces: VecDeque<Bytes>,
    /// Behind all of them.
    buffer: Vec<u8>,
    length: u64,
}

impl Gathered {
    /// Keeps a further piece.
    pub fn push(&mut self, bytes: Bytes) {
        self.length += bytes.len() as u64;
        let is_large = bytes.len() > COPIED_BYTES_MAX;
        if is_large || self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.close_buffer();
        }
        match is_large {
            true => self.pieces.push_back(bytes),
            false => self.buffer.extend_from_slice(&bytes),
        }
    }

    /// Takes the first piece out.
    pub fn pop(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.close_buffer();
        }
        let bytes = self.pieces.pop_front()?;
        self.length -= bytes.len() as u64;
        Some(bytes)
    }

    /// Takes all pieces out.
    pub fn take(&mut self) -> VecDeque<Bytes> {
        self.close_buffer();
        self.length = 0;
        std::mem::take(&mut self.pieces)
    }

    /// Bytes that are kept.
    pub fn len(&self) -> u64 {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn close_buffer(&mut self) {
        if !self.buffer.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.buffer).into());
        }
    }
}
