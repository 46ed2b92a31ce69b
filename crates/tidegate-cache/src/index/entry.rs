//! The data of the index about a file, and the part of them that survives a restart.

use crate::key::KeyHash;

/// The unit of disk space in bytes, as in nginx.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// A whole file, as the index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub body_bytes: u64,
    /// Room taken on disk in bytes, a multiple of whole blocks.
    pub disk_bytes: u64,
    /// Differs for each file and each renewal of metadata: an entry opened with another generation is
    /// outdated.
    pub generation: u64,
}

/// A file as a snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub hash: KeyHash,
    pub body_bytes: u64,
    pub blocks: u32,
    /// The last access, in Unix milliseconds.
    pub last_access: u64,
    pub heat: u8,
    pub is_main: bool,
}
