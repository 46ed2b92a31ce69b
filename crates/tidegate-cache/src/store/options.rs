//! The settings of a store.

use std::fmt;
use std::path::PathBuf;

use crate::fill::TAIL_BYTES_MAX_DEFAULT;
use crate::key::Levels;

/// Settings of a store: `proxy_cache_path` and its parameters. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The directory of the cache, made if it is not there.
    pub path: PathBuf,
    /// `levels`: how files are spread over directories.
    pub levels: Levels,
    /// Size of `keys_zone`; about 8000 keys for each megabyte.
    pub keys_bytes: u64,
    /// `max_size`, in bytes; `None`: no limit.
    pub size_max: Option<u64>,
    /// `min_free`, in bytes; `None`: not looked at.
    pub free_min: Option<u64>,
    /// `inactive`: what was not used for so long goes, fresh or not.
    pub inactive: u64,
    /// Where files are written before they are whole; `None` (`use_temp_path=off`): beside them.
    pub temporary_directory: Option<PathBuf>,
    /// Bytes of memory for open entries and small bodies.
    pub memory_bytes: usize,
    /// Bodies up to this size may be kept in memory.
    pub memory_body_bytes_max: usize,
    /// Files kept open for hits.
    pub open_files_max: usize,
    /// Limit of memory of one fill, see [`TAIL_BYTES_MAX_DEFAULT`].
    pub fill_tail_bytes_max: usize,
    /// The name of the family of processes that this one belongs to: it and those that it is started
    /// again as, by a binary upgrade or after a crash. With one the directory is locked against other
    /// servers, and index and journal are kept in it. Of at most 200 bytes.
    pub owner: Option<String>,
    /// What has to outlast a power cut (`fsync`).
    pub sync: Sync,
    /// When this process started: temporary files older than this are leftovers.
    pub started_at: u64,
}

impl Options {
    /// nginx's defaults, with 10 MB of keys and 32 MB of memory.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options {
            path: path.into(),
            levels: Levels::default(),
            keys_bytes: 10 << 20,
            size_max: None,
            free_min: None,
            inactive: 10 * 60 * 1000,
            temporary_directory: None,
            memory_bytes: 32 << 20,
            memory_body_bytes_max: 64 << 10,
            open_files_max: 1024,
            fill_tail_bytes_max: TAIL_BYTES_MAX_DEFAULT,
            owner: None,
            sync: Sync::Off,
            started_at: 0,
        }
    }
}

/// What a stored object survives (`fsync`). A cache may forget, so the default is nothing but what
/// the file system does by itself; half-written files are told by their checksums in any case.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum Sync {
    #[default]
    /// Nothing is written through: a power cut may cost what was stored a moment before.
    Off,
    /// A file's contents are on disk before it gets its name.
    Data,
    /// And its name, and the index.
    All,
}

/// A change of configuration that a running store cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigureError {
    /// A store is its path; another path is another store.
    Path,
    /// Files would no longer be found (nginx refuses it likewise).
    Levels,
}

impl fmt::Display for ReconfigureError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ReconfigureError::Path => "cache had previously a different path",
            ReconfigureError::Levels => "cache had previously different levels",
        })
    }
}

impl std::error::Error for ReconfigureError {}
