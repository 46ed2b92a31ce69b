//! What a store keeps so that its index outlasts a restart, and how far taking it up has come.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::disk::FileHandle;
use crate::journal::{Journal, JournalReader, SnapshotReader};
use crate::sync::Mutex;

/// What a store keeps beside its files.
///
/// | `is_owner` | `is_restored` | state |
/// |---|---|---|
/// | no | no | guest: notes nothing, asks in each step of the manager whether the owner has ended |
/// | yes | no | owner that takes up what the last one left: notes changes in memory |
/// | yes | yes | owner: writes journal and snapshots |
///
/// It only goes down in this table. Without `owner` among the options it stays a guest.
#[derive(Default)]
pub(super) struct Books {
    pub(super) journal: Journal,
    /// Held while this process is the owner.
    pub(super) lock: Mutex<Option<FileHandle>>,
    pub(super) is_owner: AtomicBool,
    /// What the last owner left has been taken up.
    pub(super) is_restored: AtomicBool,
    pub(super) last_snapshot: AtomicU64,
    pub(super) last_attempt: AtomicU64,
}

/// How far the taking up has come.
pub(super) enum Restoring {
    Begin,
    Snapshot { reader: SnapshotReader, passed: u64 },
    Journal { reader: Option<JournalReader>, sequence: u64, oldest: u64, passed: u64 },
}
