//! The position of a store in the purges that several servers share: an opaque text beside the rules. Everything here
//! blocks, but for reading.
//!
//! ```text
//! magic 8 | checksum u64 of the rest | bytes
//! ```
//! Invariant: it is written behind the rules and removals that it stands for, so that a crash in between makes the owner
//! of the position repeat them; and it is read before the rules, for the same reason. A file that cannot be read is no
//! position. Of two processes in one directory the owner alone writes.

use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{Disk, read_full_at, write_full_at};

/// The file, in the cache directory. No entry has such a name.
const POSITION_FILE: &str = ".purges.position";
const POSITION_FILE_NEW: &str = ".purges.position.new";

const MAGIC: [u8; 8] = *b"\x89TGPPOS\n";
const HEAD_BYTES: usize = 16;

/// Longest position, in bytes.
pub(super) const POSITION_BYTES_MAX: usize = 4096;

/// Writes a position in place of the one before.
///
/// # Errors
/// Errors of the disk.
pub(super) fn write(directory: &Path, disk: &dyn Disk, position: &[u8]) -> io::Result<()> {
    let new = directory.join(POSITION_FILE_NEW);
    match disk.remove(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(&new)?;
    write_full_at(&*file, &encode(position), 0)?;
    disk.rename(&new, &directory.join(POSITION_FILE))
}

/// Reads the position of a directory.
pub(super) fn read(directory: &Path, disk: &dyn Disk) -> Option<Vec<u8>> {
    let file = disk.open(&directory.join(POSITION_FILE)).ok()?;
    let length = usize::try_from(file.length().ok()?).ok()?;
    let mut bytes = vec![0; length.min(HEAD_BYTES + POSITION_BYTES_MAX)];
    let count = read_full_at(&*file, &mut bytes, 0).ok()?;
    decode(&bytes[..count])
}

fn encode(position: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &xxh3_64(position).to_le_bytes(), position].concat()
}

fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, position) = bytes.split_at_checked(HEAD_BYTES)?;
    let sum = u64::from_le_bytes(head[8..].try_into().ok()?);
    (head[..8] == MAGIC && sum == xxh3_64(position)).then(|| position.to_vec())
}
