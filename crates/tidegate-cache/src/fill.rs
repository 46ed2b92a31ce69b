//! A running fill: one response that is fetched from the origin into the cache. Any number of readers on any
//! thread read it while it is written.
//!
//! The writer appends to a tail in memory, raises the watermark, and wakes the readers that wait for those
//! bytes. `flush_step` writes the tail to a temporary file; it is the only part that blocks. Bytes are
//! dropped from memory when they are in the file and the readers near them have them. Readers further behind
//! get ranges of the file. If the disk fails, the fill continues in memory at the pace of its foremost
//! reader, and readers that fall too far behind end broken.
//!
//! Locks: the lock of the state is never held across a disk call, a wake-up or a call of the index.

mod head;
mod limits;
mod piece;
mod reader;
mod readers;
mod shared;
pub(crate) mod state;

pub use head::{BreakReason, FillHead, Head};
pub(crate) use limits::FillLimits;
pub use limits::TAIL_BYTES_MAX_DEFAULT;
pub use piece::Piece;
pub use reader::FillReader;
pub use shared::Fill;
