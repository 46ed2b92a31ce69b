//! The part of the index that is kept on disk, so that a restart has its objects at once: a snapshot, and a
//! journal of the changes since.
//!
//! ```text
//! .index        head 64: magic 8 | version u16 | record size u16 | levels 3, 0 | sequence u64
//!                        | records u64 | written at u64 | zeros | checksum u64
//!               blocks: up to 1024 records of 32 bytes | checksum u64
//! .journal.N    head 32: magic 8 | version u16 | zeros | sequence u64 | checksum u64
//!               entries: record 32 | checksum u64
//! record        key hash 16 | body length u48 | last access u32 (seconds) | blocks u32 | kind u8 | 0
//! ```
//!
//! All numbers are little-endian. The snapshot with sequence number N is continued by the journals N, N+1 and
//! so on. Checksums contain sequence number and position, so no entry is valid in another place. Reading ends
//! at the first one that fails. The loader's walk finds the files behind it, and all files when the snapshot
//! is missing, foreign or of another version. Nothing is served by these data alone: a file is verified when
//! it is opened.

mod record;
mod snapshot;

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, FileHandle, read_full_at, write_full_at};
use crate::key::Levels;
use crate::sync::Mutex;
pub(crate) use record::IndexChange;
use record::{RECORD_BYTES, VERSION, checksum, decode, encode, number};
pub(crate) use snapshot::{SnapshotReader, SnapshotWriter};

const JOURNAL_PREFIX: &str = ".journal.";
const JOURNAL_MAGIC: [u8; 8] = *b"\x89TGJRNL\n";
const ENTRY_BYTES: usize = RECORD_BYTES + 8;
const JOURNAL_HEAD_BYTES: usize = 32;

/// Entries of a journal that are read at a time.
const READ_ENTRIES: usize = 1024;

/// Bytes of changes that wait in memory to be written. More are dropped, and a new snapshot is due.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The most journals behind one snapshot: each failed attempt at a new snapshot leaves one.
const JOURNALS_MAX: u64 = 64;

pub(crate) fn journal_path(root: &Path, sequence: u64) -> PathBuf {
    root.join(format!("{JOURNAL_PREFIX}{sequence}"))
}

/// Returns the sequence number in a journal's name.
pub(crate) fn journal_sequence(name: &str) -> Option<u64> {
    name.strip_prefix(JOURNAL_PREFIX)?.parse().ok()
}

/// Reads a journal piece by piece.
pub(crate) struct JournalReader {
    file: FileHandle,
    sequence: u64,
    position: u64,
}

impl JournalReader {
    /// Opens a journal; returns `None` when there is no valid one of this number.
    pub(crate) fn open(disk: &dyn Disk, root: &Path, sequence: u64) -> Option<JournalReader> {
        let file = disk.open(&journal_path(root, sequence)).ok()?;
        let mut head = [0; JOURNAL_HEAD_BYTES];
        let read = read_full_at(&*file, &mut head, 0).ok()?;
        (read == head.len() && head[..] == journal_head(sequence)[..]).then_some(JournalReader {
            file,
            sequence,
            position: 0,
        })
    }

    /// Returns the next changes: none at the end, or where the file is torn.
    pub(crate) fn next(&mut self) -> Vec<IndexChange> {
        let mut bytes = vec![0; READ_ENTRIES * ENTRY_BYTES];
        let offset = JOURNAL_HEAD_BYTES as u64 + self.position * ENTRY_BYTES as u64;
        let read = read_full_at(&*self.file, &mut bytes, offset).unwrap_or(0);
        let mut changes = Vec::new();
        for entry in bytes[..read].chunks_exact(ENTRY_BYTES) {
            let (record, sum) = entry.split_at(RECORD_BYTES);
            if number(sum, 0, 8) != checksum(record, self.sequence, self.position) {
                break;
            }
            let Some(change) = decode(record) else { break };
            self.position += 1;
            changes.push(change);
        }
        changes
    }
}

/// Keeps changes in memory and writes them on request.
#[derive(Default)]
pub(crate) struct Journal {
    waiting: Mutex<Waiting>,
    written: Mutex<Option<OpenJournal>>,
}

/// The changes to be written. Bounded by [`WAITING_BYTES_MAX`]: a change beyond that is only counted
/// (`lost`), and the journal is of no use before the next snapshot, which has everything.
#[derive(Default)]
struct Waiting {
    records: Vec<u8>,
    /// Changes noted since the last snapshot.
    changes: u64,
    /// Whether some could not be kept: only a snapshot restores the order.
    lost: bool,
}

/// The journal that is being written.
///
/// Invariant: entries `0..position` are on disk with their checksums. An entry after a failed write has the
/// same position as the one where that write began, so it overwrites it. The journals `oldest..=sequence`
/// continue the snapshot.
struct OpenJournal {
    file: FileHandle,
    sequence: u64,
    position: u64,
    /// The number of the first journal that is still needed.
    oldest: u64,
}

impl Journal {
    /// Notes a change. Never blocks.
    pub(crate) fn note(&self, change: &IndexChange) {
        let mut waiting = self.waiting.lock();
        waiting.changes += 1;
        if waiting.records.len() >= WAITING_BYTES_MAX {
            waiting.lost = true;
            return;
        }
        encode(change, &mut waiting.records);
    }

    /// Returns the bytes that wait to be written.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting.lock().records.len()
    }

    /// Returns the number of changes since the last snapshot, and whether some of them are lost.
    pub(crate) fn changes(&self) -> (u64, bool) {
        let waiting = self.waiting.lock();
        (waiting.changes, waiting.lost)
    }

    /// Counts changes that were read from journals.
    pub(crate) fn replayed(&self, changes: u64) {
        self.waiting.lock().changes += changes;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.written.lock().is_some()
    }

    /// Returns the numbers of the journals that are needed.
    pub(crate) fn needed(&self) -> Option<RangeInclusive<u64>> {
        self.written.lock().as_ref().map(|written| written.oldest..=written.sequence)
    }

    /// Starts to write a journal. `oldest` is the first one that the snapshot needs. Blocks.
    pub(crate) fn start(
        &self,
        disk: &dyn Disk,
        root: &Path,
        sequence: u64,
        oldest: u64,
    ) -> io::Result<()> {
        let path = journal_path(root, sequence);
        let _ = disk.remove(&path);
        let file = disk.create(&path)?;
        write_full_at(&*file, &journal_head(sequence), 0)?;
        *self.written.lock() = Some(OpenJournal { file, sequence, position: 0, oldest });
        Ok(())
    }

    /// Writes the waiting changes. Blocks. After an error the journal ends there; a snapshot is due.
    pub(crate) fn write(&self) -> io::Result<()> {
        let mut written = self.written.lock();
        let Some(journal) = written.as_mut() else { return Ok(()) };
        let records = std::mem::take(&mut self.waiting.lock().records);
        if records.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(records.len() / RECORD_BYTES * ENTRY_BYTES);
        let mut position = journal.position;
        for record in records.chunks_exact(RECORD_BYTES) {
            bytes.extend_from_slice(record);
            let sum = checksum(record, journal.sequence, position);
            bytes.extend_from_slice(&sum.to_le_bytes());
            position += 1;
        }
        let offset = JOURNAL_HEAD_BYTES as u64 + journal.position * ENTRY_BYTES as u64;
        if let Err(error) = write_full_at(&*journal.file, &bytes, offset) {
            self.waiting.lock().lost = true;
            return Err(error);
        }
        journal.position = position;
        Ok(())
    }

    /// Starts the next journal, whose number the next snapshot is to have. Blocks.
    pub(crate) fn rotate(&self, disk: &dyn Disk, root: &Path) -> io::Result<u64> {
        // Changes that cannot be written are in the snapshot.
        let _ = self.write();
        let (last, oldest) = match &*self.written.lock() {
            Some(written) => (written.sequence, written.oldest),
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        {
            let mut waiting = self.waiting.lock();
            (waiting.changes, waiting.lost) = (0, false);
        }
        if last - oldest >= JOURNALS_MAX {
            // The changes in this journal are in the snapshot, too. Reading them again does no harm, since
            // the last change of a key counts.
            return Ok(last);
        }
        self.start(disk, root, last + 1, oldest)?;
        Ok(last + 1)
    }

    /// Removes the journals before a snapshot of this number, which has been written. Blocks.
    pub(crate) fn compacted(&self, disk: &dyn Disk, root: &Path, sequence: u64) {
        let mut written = self.written.lock();
        let Some(journal) = written.as_mut() else { return };
        for older in journal.oldest..sequence {
            let _ = disk.remove(&journal_path(root, older));
        }
        journal.oldest = sequence;
    }

    /// Notes that a snapshot could not be written: the next one is due soon.
    pub(crate) fn not_compacted(&self) {
        self.waiting.lock().lost = true;
    }
}

fn journal_head(sequence: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(JOURNAL_HEAD_BYTES);
    head.extend_from_slice(&JOURNAL_MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.resize(16, 0);
    head.extend_from_slice(&sequence.to_le_bytes());
    let sum = checksum(&head, sequence, u64::MAX);
    head.extend_from_slice(&sum.to_le_bytes());
    head
}

/// Checks that reading any bytes as snapshot or journal ends, and gives no more records than they hold.
pub fn fuzz_journal(input: &[u8]) {
    let disk = crate::fake::MemoryDisk::default();
    let root = Path::new("/cache");
    disk.put(&snapshot::path(root), input.to_vec());
    disk.put(&journal_path(root, 1), input.to_vec());
    let mut records = 0;
    if let Some(mut snapshot) = SnapshotReader::open(&disk, root, Levels::default()) {
        while let read @ 1.. = snapshot.next().len() {
            records += read;
        }
    }
    if let Some(mut journal) = JournalReader::open(&disk, root, 1) {
        while let read @ 1.. = journal.next().len() {
            records += read;
        }
    }
    assert!(records * RECORD_BYTES <= 2 * input.len());
}
