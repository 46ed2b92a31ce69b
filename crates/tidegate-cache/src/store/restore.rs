//! The index over a restart: the lock by which one process owns the directory, the journal, snapshots, and
//! their restoration. Everything here blocks.
//!
//! A directory has one owner. Another server is refused. A process of the same server instance (the old and
//! the new one of a binary upgrade, a worker that is started again) may use the directory as a guest: it
//! finds files by their names, writes no journal, and becomes the owner when the other one ends. Then it
//! restores the index of that owner and walks the directory once more.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::handle::Store;
use super::inner::StoreInner;
use super::options::{Options, Sync};
use super::ownership::Restoring;
use super::walk::Loader;
use crate::disk::{FileHandle, read_full_at, write_full_at};
use crate::index::{BLOCK_BYTES, Present, Remembered};
use crate::journal::{IndexChange, JournalReader, SnapshotReader, SnapshotWriter};
use crate::key::KeyHash;

/// Name of the file that is locked.
const LOCK_NAME: &str = ".lock";

/// Longest id of a server instance in the lock file, in bytes.
const OWNER_BYTES_MAX: usize = 256;

/// Blocks of a snapshot (or as much of a journal) restored in one step: some milliseconds.
const STEP_BLOCKS: usize = 8;

/// A snapshot follows after this number of changes, or as many as there are entries.
const CHANGES_MAX: u64 = 64 * 1024;

/// With fewer changes a snapshot follows after this time, and without any (for the times of last
/// access) after the longer one. Milliseconds.
const SNAPSHOT_AFTER: u64 = 5 * 60 * 1000;
const SNAPSHOT_IDLE_AFTER: u64 = 60 * 60 * 1000;

/// The failed work, in the words of the log.
const KEEPING: &str = "keeping the index";
const LOCKING: &str = "locking the directory";

/// The pause after a failure, in milliseconds.
const SNAPSHOT_RETRY_AFTER: u64 = 10 * 1000;

/// Waiting bytes at which the journal is written at once.
const JOURNAL_WRITE_BYTES: usize = 64 * 1024;

impl Store {
    /// Writes the changes of the index to its journal, and a snapshot when one is due. Blocks. To be called
    /// about every second; `manage_step` does it, too.
    pub fn keep_index(&self, now: u64) {
        self.inner.save_index(now);
    }

    /// Saves the index for the next start, at the end of the process. Blocks.
    pub fn finish(&self, now: u64) {
        self.inner.save_index_at_end(now);
    }
}

impl StoreInner {
    /// Makes this process the owner of the directory, or its guest. Fails when another server owns it.
    pub(super) fn lock_directory(&self) -> io::Result<()> {
        let options = self.options();
        let Some(owner) = &options.owner else { return Ok(()) };
        let path = options.path.join(LOCK_NAME);
        match self.disk.try_lock(&path) {
            Ok(Some(lock)) => {
                self.become_owner(lock, owner);
                return Ok(());
            }
            Ok(None) => {}
            Err(error) => return self.stay_guest(&path, error),
        }
        let mut bytes = [0; OWNER_BYTES_MAX];
        let file = self.disk.open(&path)?;
        let count = read_full_at(&*file, &mut bytes, 0)?;
        let name = bytes[..count].split(|byte| *byte == b'\n').next().unwrap_or_default();
        if name != owner.as_bytes() {
            let name = String::from_utf8_lossy(name).into_owned();
            let message = format!("in use by another server ({name})");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        Ok(())
    }

    /// Makes this process a guest where the disk gives no lock. A directory that takes no files (a disk that
    /// is full, or read-only) may be shared by any number of servers, and its files can be served. A lock
    /// file that exists and may not be opened is another user's.
    fn stay_guest(&self, path: &Path, error: io::Error) -> io::Result<()> {
        let may_not = error.kind() == io::ErrorKind::PermissionDenied;
        if may_not && self.disk.file_bytes(path).is_ok() {
            return Err(error);
        }
        self.disk_failed(LOCKING, &error);
        Ok(())
    }

    /// Writes the id into the lock file. Without it (the disk may be full) a process of the same instance is
    /// refused like any other.
    fn become_owner(&self, lock: FileHandle, owner: &str) {
        if let Err(error) = write_full_at(&*lock, format!("{owner}\n").as_bytes(), 0) {
            self.disk_failed(LOCKING, &error);
        }
        *self.ownership.lock.lock() = Some(lock);
        self.ownership.is_owner.store(true, Ordering::Release);
    }

    pub(super) fn is_owner(&self) -> bool {
        self.ownership.is_owner.load(Ordering::Acquire)
    }

    /// Checks, as a guest, whether the owner has ended; then everything is walked once more.
    pub(super) fn try_take_over(&self) {
        let options = self.options();
        let Some(owner) = options.owner.as_ref().filter(|_| !self.is_owner()) else { return };
        let Ok(Some(lock)) = self.disk.try_lock(&options.path.join(LOCK_NAME)) else { return };
        self.become_owner(lock, owner);
        *self.loader.lock() = Loader::new(&options, true);
        self.counters.loaded.store(false, Ordering::Release);
    }

    pub(super) fn note_placed(&self, hash: &KeyHash, present: &Present, now: u64) {
        if !self.is_owner() {
            return;
        }
        let blocks = u32::try_from(present.disk_bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
        self.ownership.journal.note(&IndexChange::Placed(Remembered {
            hash: *hash,
            body_bytes: present.body_bytes,
            blocks,
            last_access: now,
            heat: 0,
            is_main: false,
        }));
        if self.ownership.journal.waiting_bytes() > JOURNAL_WRITE_BYTES {
            self.write_journal();
        }
    }

    /// Notes the removal of a key in the journal. Never blocks.
    pub(super) fn note_removed(&self, hash: &KeyHash) {
        if self.is_owner() {
            self.ownership.journal.note(&IndexChange::Removed(*hash));
        }
    }

    fn write_journal(&self) {
        if let Err(error) = self.ownership.journal.write() {
            self.disk_failed(KEEPING, &error);
        }
    }

    /// Returns whether a journal of this number is not in use: it was left by an earlier owner.
    pub(super) fn is_stale_journal(&self, sequence: u64) -> bool {
        let (is_owner, ownership) = (self.is_owner(), &self.ownership);
        is_owner && ownership.journal.needed().is_some_and(|needed| !needed.contains(&sequence))
    }

    /// Writes the journal, and a snapshot when one is due.
    pub(super) fn save_index(&self, now: u64) {
        let ownership = &self.ownership;
        if !self.is_owner() || !ownership.is_restored.load(Ordering::Acquire) {
            return;
        }
        self.write_journal();
        let (changes, lost) = ownership.journal.changes();
        let since = now.saturating_sub(ownership.last_snapshot.load(Ordering::Relaxed));
        let attempted = now.saturating_sub(ownership.last_attempt.load(Ordering::Relaxed));
        let many = changes > CHANGES_MAX.max(self.index.entries() as u64);
        let old = since > if changes > 0 { SNAPSHOT_AFTER } else { SNAPSHOT_IDLE_AFTER };
        if (lost || many || old) && attempted > SNAPSHOT_RETRY_AFTER {
            self.write_snapshot(now);
        }
    }

    /// Saves the index for the next start.
    pub(super) fn save_index_at_end(&self, now: u64) {
        if self.is_owner() && self.ownership.is_restored.load(Ordering::Acquire) {
            self.write_snapshot(now);
        }
    }

    fn write_snapshot(&self, now: u64) {
        let ownership = &self.ownership;
        ownership.last_attempt.store(now, Ordering::Relaxed);
        match self.try_snapshot(now) {
            Ok(()) => ownership.last_snapshot.store(now, Ordering::Relaxed),
            Err(error) => {
                ownership.journal.not_compacted();
                self.disk_failed(KEEPING, &error);
            }
        }
    }

    /// Starts the next journal first: changes made while the snapshot is written are in both, which does no
    /// harm.
    fn try_snapshot(&self, now: u64) -> io::Result<()> {
        let options = self.options();
        let (disk, root, journal) = (&*self.disk, &options.path, &self.ownership.journal);
        let sequence = match journal.is_open() {
            true => journal.rotate(disk, root)?,
            false => {
                journal.start(disk, root, now.max(1), now.max(1))?;
                now.max(1)
            }
        };
        let mut writer = SnapshotWriter::create(disk, root, sequence)?;
        for ticket in self.index.tickets() {
            if let Some(known) = self.index.remembered(ticket) {
                writer.add(known)?;
            }
        }
        writer.finish(disk, root, options.levels, now, options.sync == Sync::All)?;
        journal.compacted(disk, root, sequence);
        Ok(())
    }

    /// Restores a part of the index of the last owner; returns the remaining work.
    ///
    /// ```text
    /// begin ─ no snapshot ─→ a snapshot is written: done
    ///   └─→ snapshot N, block by block ─→ journal N ─→ journal N+1 ─→ … ─→ the first that is missing: done
    /// ```
    /// Invariant: newer data win. A key that was placed or is being filled since the start is left alone, and
    /// a later change in a journal overrides an earlier one. Until this is done no journal is written
    /// (`is_restored`), so a crash finds the same files again. Damage ends a file early; the walk finds the
    /// objects behind it.
    pub(super) fn restore_step(
        &self,
        options: &Options,
        mut restoring: Restoring,
        now: u64,
    ) -> Option<Restoring> {
        for _ in 0..STEP_BLOCKS {
            restoring = match restoring {
                Restoring::Begin => self.begin_restoring(options, now)?,
                Restoring::Snapshot { mut reader, passed } => {
                    let records = reader.next();
                    // The end of the snapshot, or damage: its journals follow.
                    if records.is_empty() {
                        let sequence = reader.sequence;
                        let journal = JournalReader::open(&*self.disk, &options.path, sequence);
                        Restoring::Journal { reader: journal, sequence, oldest: sequence, passed }
                    } else {
                        records.iter().for_each(|known| self.restore(known, passed, now));
                        Restoring::Snapshot { reader, passed }
                    }
                }
                Restoring::Journal { reader: Some(mut reader), sequence, oldest, passed } => {
                    let changes = reader.next();
                    let reader = match changes.is_empty() {
                        false => Some(reader),
                        true => JournalReader::open(&*self.disk, &options.path, sequence + 1),
                    };
                    // The number advances only when there is a next journal.
                    let sequence = sequence + u64::from(changes.is_empty() && reader.is_some());
                    self.ownership.journal.replayed(changes.len() as u64);
                    for change in &changes {
                        match change {
                            IndexChange::Placed(known) => self.restore(known, passed, now),
                            IndexChange::Removed(hash) => self.index.unrestore(hash),
                        }
                    }
                    if reader.is_none() {
                        // Journal `sequence` exists, so the new one gets the next number.
                        self.end_restoring(options, sequence + 1, oldest, now);
                        return None;
                    }
                    Restoring::Journal { reader, sequence, oldest, passed }
                }
                Restoring::Journal { reader: None, sequence, oldest, .. } => {
                    // The snapshot has no journal: the new one gets its number.
                    self.end_restoring(options, sequence, oldest, now);
                    return None;
                }
            };
        }
        Some(restoring)
    }

    fn begin_restoring(&self, options: &Options, now: u64) -> Option<Restoring> {
        match SnapshotReader::open(&*self.disk, &options.path, options.levels) {
            Some(reader) => {
                // The time in which no server ran does not count as unused.
                let passed = now.saturating_sub(reader.written_at);
                Some(Restoring::Snapshot { reader, passed })
            }
            None => {
                self.ownership.is_restored.store(true, Ordering::Release);
                self.write_snapshot(now);
                None
            }
        }
    }

    fn restore(&self, known: &Remembered, passed: u64, now: u64) {
        let last_access = known.last_access.saturating_add(passed).min(now);
        self.index.restore(&Remembered { last_access, ..*known });
    }

    /// Starts a journal of its own.
    fn end_restoring(&self, options: &Options, sequence: u64, oldest: u64, now: u64) {
        self.index.restored();
        let ownership = &self.ownership;
        let started = ownership.journal.start(&*self.disk, &options.path, sequence, oldest);
        if let Err(error) = started {
            ownership.journal.not_compacted();
            self.disk_failed(KEEPING, &error);
        }
        ownership.last_snapshot.store(now, Ordering::Relaxed);
        ownership.is_restored.store(true, Ordering::Release);
    }

    /// Checks, after the walk, a file of the snapshot that was not found: it may not exist any more.
    pub(super) fn check_unseen(&self, hash: &KeyHash) {
        let _path_lock = self.lock_path(hash);
        let Some(known) = self.index.peek(hash).present else { return };
        let path: PathBuf = self.path_of(hash);
        match self.disk.file_bytes(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.index.forget_file(hash, known.generation);
                self.note_removed(hash);
            }
            Ok(bytes) => {
                self.index.check_file(hash, bytes);
            }
            Err(error) => self.disk_failed("looking for a file", &error),
        }
    }
}
