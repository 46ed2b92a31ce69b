//! The cache store: index, files, live fills, eviction; knows bytes and keys, no HTTP.
//!
//! - [`Store`]: one `proxy_cache_path`. [`Store::lookup`] tells what memory knows of a key,
//!   [`Store::open_entry`] opens its file, [`Store::begin_fill`] starts to fill it.
//! - [`FillWriter`] publishes a head, appends bytes, commits or aborts; any number of
//!   [`FillReader`]s follow it while it goes.
//! - [`Disk`]: the only door to the file system; each function says whether it may block.
//!
//! Metadata are opaque bytes; `now` is always an argument, in unix milliseconds.
#![forbid(unsafe_code)]

mod disk;
mod evict;
#[doc(hidden)]
pub mod fake;
mod fill;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod hot;
mod index;
mod journal;
mod key;
mod lru;
mod purge;
mod store;
mod sums;
mod sync;
#[cfg(test)]
mod tests;
mod times;
mod verify;
mod writer;

pub use disk::{Disk, DiskFile, FileHandle, FolderItem, RealDisk, read_full_at};
pub use fill::{BreakReason, Fill, FillHead, FillReader, Head, Piece, TAIL_BYTES_MAX_DEFAULT};
pub use format::{FormatError, Header, METADATA_BYTES_MAX, fuzz_header};
pub use hot::{BodySource, OpenEntry};
pub use journal::fuzz_journal;
pub use key::{KEY_BYTES_MAX, Key, KeyHash, Levels};
pub use purge::{
    Bearing, MetadataReader, PURGE_RULES_MAX, PURGE_TEXT_BYTES_MAX, Scope, fuzz_purge_rules,
};
pub use store::{
    DiskFailures, EntryInfo, LoadReport, Lookup, ManageReport, Options, Purge, PurgeError,
    PurgeReport, ReconfigureError, ScrubReport, Stats, Store, Sync,
};
pub use times::Times;
pub use writer::{Appended, Committed, FillFlusher, FillWriter, FlushReport, Pending};
