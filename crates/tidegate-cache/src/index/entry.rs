//! What the index tells of a file, and keeps of it over a restart.

use crate::key::KeyHash;

/// Space on disk is counted in whole blocks, as nginx does.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// A whole file, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub body_bytes: u64,
    /// Room taken on disk, whole blocks.
    pub disk_bytes: u64,
    /// Differs for each file and each renewal of metadata: what was opened before is outdated.
    pub generation: u64,
}

/// A file as a snapshot remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub hash: KeyHash,
    pub body_bytes: u64,
    pub blocks: u32,
    /// Unix milliseconds.
    pub last_access: u64,
    pub heat: u8,
    pub is_main: bool,
}
