//! The cache store: index, files, live fills, eviction; knows bytes and keys, no HTTP.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_cache::{Committed, Key, Options, RealDisk, Store, Times};
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let store = Store::open(Options::new(directory), Arc::new(RealDisk::default()))?;
//! let (key, now) = (Key::of(b"http://localhost/a"), 1_000);
//! assert!(store.lookup(&key, now).open.is_none());
//! // One who is first fills, and anybody else gets the fill to read from.
//! if let Ok(writer) = store.begin_fill(&key, now) {
//!     writer.publish_head("head".into(), Times::default(), None, now);
//!     writer.append("body".into(), now);
//!     assert!(matches!(writer.commit(now), Committed::Stored));
//! }
//! let open = store.lookup(&key, now).open;
//! assert_eq!(open.and_then(|entry| entry.body_in_memory()).as_deref(), Some(&b"body"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//! - [`Store`]: one `proxy_cache_path`. [`Store::lookup`] says what memory knows of a key,
//!   [`Store::open_entry`] opens its file, [`Store::begin_fill`] starts to fill it.
//! - [`FillWriter`] publishes a head, appends bytes, commits or aborts; any number of
//!   [`FillReader`]s follow it while it goes.
//! - [`OpenEntry`] is a whole object, to be served.
//! - [`Disk`]: the only door to the file system; each function says whether it may block.
//!
//! Metadata are opaque bytes; `now` is always an argument, in unix milliseconds.
//!
//! Files name only files below them, in this order:
//!
//! | files | what |
//! |---|---|
//! | `store/handle`, `store/lookup` and others | one cache as callers have it |
//! | `writer` | the writing half of a fill |
//! | `store/inner` and others | what all handles of a cache share, and the work that is done on it |
//! | `journal` | the index over a restart |
//! | `index` | what memory knows of each key, and the account of the disk |
//! | `fill`, `hot` | objects on their way, and open ones |
//! | `verify` | comparing bodies with their checksums |
//! | `format`, `sums`, `disk` | the form of files, and the door to them |
//! | `evict`, `purge` | which object goes: rules without disk and clock |
//! | `key`, `times`, `lru`, `sync` | what all of them are made of |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

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

pub use disk::{DirectoryItem, Disk, DiskFile, FileHandle, RealDisk, read_full_at};
pub use fill::{BreakReason, Fill, FillHead, FillReader, Head, Piece, TAIL_BYTES_MAX_DEFAULT};
pub use format::METADATA_BYTES_MAX;
#[doc(hidden)]
pub use format::fuzz_header;
pub use hot::OpenEntry;
#[doc(hidden)]
pub use journal::fuzz_journal;
pub use key::{KEY_BYTES_MAX, Key, KeyHash, Levels};
#[doc(hidden)]
pub use purge::fuzz_purge_rules;
pub use purge::{Bearing, MetadataReader, PURGE_RULES_MAX, PURGE_TEXT_BYTES_MAX, Scope};
pub use store::{
    DiskFailures, EntryInfo, LoadReport, Lookup, ManageReport, Options, Purge, PurgeError,
    PurgeReport, ReconfigureError, ScrubReport, Stats, Store, Sync,
};
pub use times::Times;
pub use writer::{Appended, Committed, FillFlusher, FillWriter, FlushReport, Pending};
