//! Snapshots of the index: written beside the old one, which they then replace, and read block by block.

use std::io;
use std::path::{Path, PathBuf};

use super::record::{IndexChange, RECORD_BYTES, VERSION, checksum, decode, encode, number};
use crate::disk::{Disk, FileHandle, read_full_at, write_full_at};
use crate::index::Remembered;
use crate::key::Levels;

const NAME: &str = ".index";
const NEW_NAME: &str = ".index.new";
const MAGIC: [u8; 8] = *b"\x89TGINDX\n";
const HEAD_BYTES: usize = 64;

/// Records of one block.
const BLOCK_RECORDS: usize = 1024;

/// Returns the path of a snapshot.
pub(crate) fn path(root: &Path) -> PathBuf {
    root.join(NAME)
}

/// Reads a snapshot piece by piece.
pub(crate) struct SnapshotReader {
    file: FileHandle,
    pub sequence: u64,
    /// When it was written, in Unix milliseconds.
    pub written_at: u64,
    left: u64,
    offset: u64,
    block: u64,
}

impl SnapshotReader {
    /// Opens a snapshot; returns `None` when there is no valid one.
    pub(crate) fn open(disk: &dyn Disk, root: &Path, levels: Levels) -> Option<SnapshotReader> {
        let file = disk.open(&path(root)).ok()?;
        let mut head = [0; HEAD_BYTES];
        if read_full_at(&*file, &mut head, 0).ok()? < head.len() {
            return None;
        }
        let (summed, sum) = head.split_at(HEAD_BYTES - 8);
        let sequence = number(summed, 16, 8);
        let is_ours = summed[..8] == MAGIC
            && number(summed, 8, 2) == u64::from(VERSION)
            && number(summed, 10, 2) == RECORD_BYTES as u64
            && summed[12..15] == levels.widths()
            && number(sum, 0, 8) == checksum(summed, sequence, 0);
        is_ours.then(|| SnapshotReader {
            file,
            sequence,
            written_at: number(summed, 32, 8),
            left: number(summed, 24, 8),
            offset: HEAD_BYTES as u64,
            block: 0,
        })
    }

    /// Returns the next block of records: none at the end, or where the file is damaged.
    pub(crate) fn next(&mut self) -> Vec<Remembered> {
        let count = self.left.min(BLOCK_RECORDS as u64) as usize;
        let mut bytes = vec![0; count * RECORD_BYTES + 8];
        let read = read_full_at(&*self.file, &mut bytes, self.offset).unwrap_or(0);
        self.block += 1;
        let (records, sum) = bytes.split_at(count * RECORD_BYTES);
        if count == 0
            || read < bytes.len()
            || number(sum, 0, 8) != checksum(records, self.sequence, self.block)
        {
            self.left = 0;
            return Vec::new();
        }
        self.left -= count as u64;
        self.offset += bytes.len() as u64;
        let changes = records.chunks_exact(RECORD_BYTES).map(decode);
        changes
            .filter_map(|change| match change? {
                IndexChange::Placed(known) => Some(known),
                IndexChange::Removed(_) => None,
            })
            .collect()
    }
}

/// Writes a snapshot. Everything here blocks.
pub(crate) struct SnapshotWriter {
    file: FileHandle,
    sequence: u64,
    records: u64,
    block: u64,
    offset: u64,
    waiting: Vec<u8>,
}

impl SnapshotWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        root: &Path,
        sequence: u64,
    ) -> io::Result<SnapshotWriter> {
        let path = root.join(NEW_NAME);
        // The file may be left of a failed attempt.
        let _ = disk.remove(&path);
        let file = disk.create(&path)?;
        let offset = HEAD_BYTES as u64;
        Ok(SnapshotWriter { file, sequence, records: 0, block: 0, offset, waiting: Vec::new() })
    }

    pub(crate) fn add(&mut self, known: Remembered) -> io::Result<()> {
        if known.body_bytes >> 48 != 0 {
            return Ok(());
        }
        encode(&IndexChange::Placed(known), &mut self.waiting);
        self.records += 1;
        if self.waiting.len() < BLOCK_RECORDS * RECORD_BYTES {
            return Ok(());
        }
        self.write_block()
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.block += 1;
        let sum = checksum(&self.waiting, self.sequence, self.block);
        self.waiting.extend_from_slice(&sum.to_le_bytes());
        write_full_at(&*self.file, &self.waiting, self.offset)?;
        self.offset += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Replaces the old snapshot with this one.
    pub(crate) fn finish(
        mut self,
        disk: &dyn Disk,
        root: &Path,
        levels: Levels,
        now: u64,
        sync: bool,
    ) -> io::Result<()> {
        self.write_block()?;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&(RECORD_BYTES as u16).to_le_bytes());
        head.extend_from_slice(&levels.widths());
        head.push(0);
        for number in [self.sequence, self.records, now] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.resize(HEAD_BYTES - 8, 0);
        let sum = checksum(&head, self.sequence, 0);
        head.extend_from_slice(&sum.to_le_bytes());
        write_full_at(&*self.file, &head, 0)?;
        if sync {
            self.file.sync(true)?;
        }
        disk.rename(&root.join(NEW_NAME), &path(root))
    }
}
