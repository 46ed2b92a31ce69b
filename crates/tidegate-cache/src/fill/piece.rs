//! The parts of a body that a reader gets.

use bytes::Bytes;

use super::head::BreakReason;
use crate::disk::FileHandle;

/// The next part of a body.
#[derive(Clone)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of the file, already written. `offset` counts from the start of the file, not of the body.
    File {
        /// The fill's file. It stays readable after it was renamed or removed.
        handle: FileHandle,
        /// The offset of the bytes from the start of the file.
        offset: u64,
        /// The number of bytes; at least one.
        length: u64,
        /// Whether the bytes were written recently, so that they are likely in the page cache.
        is_fresh: bool,
    },
    /// The body is complete and was read to its end.
    End,
    /// The body ends here, incomplete. Every later call returns the same.
    Broken(BreakReason),
}

impl Piece {
    /// Returns the bytes of the body in this piece.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { length, .. } => *length,
            Piece::End | Piece::Broken(_) => 0,
        }
    }
}
