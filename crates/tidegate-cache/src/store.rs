//! The cache store of one `proxy_cache_path`: index in memory, whole files on disk, running fills.
//!
//! Locks, outermost first: the disk lock of a fill, the path lock of a key, a shard of the index or of the
//! open entries, the state of a fill. The last three are never held together. Names in the cache directory
//! are only changed under the path lock of their key, so that index and disk agree.
//!
//! The store survives a reload of the configuration: [`Store::reconfigure`].

mod failures;
mod files;
mod handle;
pub(crate) mod inner;
mod list;
mod load;
mod lookup;
mod manage;
mod options;
mod ownership;
pub(crate) mod place;
mod position;
mod purge;
mod renew;
mod restore;
pub(crate) mod room;
mod rules;
mod scrub;
mod scrubber;
mod stats;
mod walk;

pub use failures::DiskFailures;
pub use handle::Store;
pub use list::{ListPosition, ListedEntry, ListedPage, PageLimits};
pub use load::LoadReport;
pub use lookup::{EntryInfo, Lookup};
pub use manage::ManageReport;
pub use options::{Options, ReconfigureError, Sync};
pub use purge::PurgeReport;
pub use rules::{Purge, PurgeError};
pub use scrub::ScrubReport;
pub use stats::Stats;
