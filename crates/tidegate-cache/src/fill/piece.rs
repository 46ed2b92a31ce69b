//! What a reader gets of a body.

use bytes::Bytes;

use super::head::BreakReason;
use crate::disk::FileHandle;

/// The next part of a body.
#[derive(Clone)]
pub enum Piece {
    /// Bytes out of memory.
    Bytes(Bytes),
    /// A range of the file, already written; `offset` is the file's, not the body's.
    File {
        /// The fill's file; it stays readable when its name changes or goes.
        handle: FileHandle,
        /// Where the bytes begin, from the start of the file on.
        offset: u64,
        /// How many bytes there are; at least one.
        length: u64,
        /// Written lately.
        is_fresh: bool,
    },
    /// The body is whole and was read to its end.
    End,
    /// The body ends here, unfinished. The same is answered from now on.
    Broken(BreakReason),
}

impl Piece {
    /// Its bytes of the body.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File { length, .. } => *length,
            Piece::End | Piece::Broken(_) => 0,
        }
    }
}
