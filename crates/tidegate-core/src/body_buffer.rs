//! Bytes of a body in memory: small pieces are copied into one buffer, so that a body that arrives byte by byte takes
//! at most twice its length.
//!
//! ```
//! use tidegate_core::body_buffer::BodyBuffer;
//!
//! let mut kept = BodyBuffer::default();
//! (0..1000).for_each(|_| kept.push("x".into()));
//! assert_eq!((kept.len(), kept.take().len()), (1000, 1));
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;

/// Larger pieces, in bytes, are kept as they are: their overhead is small beside their size.
const COPIED_BYTES_MAX: usize = 2 * 1024;
/// Most bytes of the buffer: copying it when it grows costs as little as reading it did.
const BUFFER_BYTES: usize = 16 * 1024;

/// Pieces of a body, in their order.
#[derive(Debug, Default)]
pub struct BodyBuffer {
    pieces: VecDeque<Bytes>,
    /// Bytes that follow all `pieces`.
    buffer: Vec<u8>,
    length: u64,
}

impl BodyBuffer {
    /// Appends a piece.
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

    /// Removes and returns the first piece.
    pub fn pop(&mut self) -> Option<Bytes> {
        if self.pieces.is_empty() {
            self.close_buffer();
        }
        let bytes = self.pieces.pop_front()?;
        self.length -= bytes.len() as u64;
        Some(bytes)
    }

    /// Removes and returns all pieces.
    pub fn take(&mut self) -> VecDeque<Bytes> {
        self.close_buffer();
        self.length = 0;
        std::mem::take(&mut self.pieces)
    }

    /// Returns the bytes in memory.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns whether it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn close_buffer(&mut self) {
        if !self.buffer.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.buffer).into());
        }
    }
}
