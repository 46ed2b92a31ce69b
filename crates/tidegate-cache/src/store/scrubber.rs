//! The progress of the scrubber.

use std::path::PathBuf;

use crate::disk::FileHandle;
use crate::key::KeyHash;
use crate::verify::Verification;

/// The progress of the scrubber.
#[derive(Default)]
pub(super) struct Scrubber {
    /// The number of the shard whose keys are compared.
    pub(super) shard: usize,
    pub(super) keys: Vec<KeyHash>,
    pub(super) current: Option<Current>,
}

/// The file that is being read. It may be replaced or removed meanwhile: it stays readable, and a damaged
/// file is removed only if the name still has the same generation.
pub(super) struct Current {
    pub(super) file: FileHandle,
    pub(super) path: PathBuf,
    pub(super) verification: Verification,
    pub(super) offset: u64,
    pub(super) body_bytes: u64,
}
