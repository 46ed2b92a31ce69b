//! The data that a store keeps so that its index outlasts a restart, and the progress of its restoration.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::disk::FileHandle;
use crate::journal::{Journal, JournalReader, SnapshotReader};
use crate::sync::Mutex;

/// The ownership of the cache directory, and the journal.
///
/// | `is_owner` | `is_restored` | state |
/// |---|---|---|
/// | no | no | guest: writes nothing, checks in each step of the manager whether the owner has ended |
/// | yes | no | owner that restores the index of the last one: keeps changes in memory |
/// | yes | yes | owner: writes journal and snapshots |
///
/// A store only moves down in this table. Without `owner` among the options it stays a guest.
#[derive(Default)]
pub(super) struct Ownership {
    pub(super) journal: Journal,
    /// Held while this process is the owner.
    pub(super) lock: Mutex<Option<FileHandle>>,
    pub(super) is_owner: AtomicBool,
    /// Whether the index of the last owner has been restored.
    pub(super) is_restored: AtomicBool,
    pub(super) last_snapshot: AtomicU64,
    pub(super) last_attempt: AtomicU64,
}

/// The progress of the restoration.
pub(super) enum Restoring {
    Begin,
    Snapshot { reader: SnapshotReader, passed: u64 },
    Journal { reader: Option<JournalReader>, sequence: u64, oldest: u64, passed: u64 },
}
