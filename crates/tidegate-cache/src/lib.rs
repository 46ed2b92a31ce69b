//! The cache store: index, files, running fills, eviction; it handles bytes and keys, no HTTP.
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
//! // The first request fills; any other request gets the fill to read from.
//! if let Ok(writer) = store.begin_fill(&key, now) {
//!     writer.publish_head("head".into(), Times::default(), None, now);
//!     writer.append("body".into(), now);
//!     assert!(matches!(writer.commit(now), Committed::Stored));
//! }
//! let open = store.lookup(&key, now).open;
//! assert_eq!(open.and_then(|entry| entry.body_in_memory()).as_deref(), Some(&b"body"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//! - [`Store`]: one `proxy_cache_path`. [`Store::lookup`] returns the data in memory about a key,
//!   [`Store::open_entry`] opens its file, [`Store::begin_fill`] starts to fill it.
//! - [`FillWriter`] publishes a head, appends bytes, commits or aborts; any number of [`FillReader`]s follow
//!   it meanwhile.
//! - [`OpenEntry`] is a whole object, to be served.
//! - [`Disk`]: all access to the file system; each function documents whether it may block.
//!
//! Metadata are opaque bytes; `now` is always an argument, in Unix milliseconds.
//!
//! Files use only files below them, in this order:
//!
//! | files | content |
//! |---|---|
//! | `store/handle`, `store/lookup` and others | one cache, for its callers |
//! | `writer` | the writing half of a fill |
//! | `store/inner` and others | the state that all handles of a cache share, and the work on it |
//! | `journal` | the index over a restart |
//! | `index` | the data in memory about each key, and the account of the disk |
//! | `fill`, `hot` | objects that are being fetched, and open ones |
//! | `verify` | comparison of bodies with their checksums |
//! | `format`, `sums`, `disk` | the format of files, and access to them |
//! | `evict`, `purge` | rules of removal, without disk and clock |
//! | `key`, `times`, `lru`, `sync` | types that all of them use |
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
pub use purge::{MetadataReader, PURGE_RULES_MAX, PURGE_TEXT_BYTES_MAX, PurgeMetadata, Scope};
pub use store::{
    DiskFailures, EntryInfo, ListPosition, ListedEntry, ListedPage, LoadReport, Lookup,
    ManageReport, Options, PageLimits, Purge, PurgeError, PurgeReport, ReconfigureError,
    ScrubReport, Stats, Store, Sync,
};
pub use times::Times;
pub use writer::{Appended, Committed, FillFlusher, FillWriter, FlushReport, Pending};
