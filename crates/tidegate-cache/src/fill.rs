//! A live fill: one response on its way from the origin into the cache, read by any number of
//! readers on any thread while it is written.
//!
//! The writer appends to a tail in memory and raises the watermark; whoever waits for those bytes
//! is woken. The tail is written to a temporary file by `flush_step`, which is the only part that
//! blocks. Bytes leave the memory when they are in the file and the readers near them have them;
//! readers further behind get ranges of the file. If the disk fails, the fill goes on in memory
//! at the pace of its foremost reader, and readers that fall too far behind end broken.
//!
//! Locks: the state's lock is never held across a disk call, a wake-up or a call of the index.

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
