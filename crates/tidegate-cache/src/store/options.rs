//! The settings of a store.

use std::fmt;
use std::path::PathBuf;

use crate::fill::TAIL_BYTES_MAX_DEFAULT;
use crate::key::Levels;

/// Settings of a store: `proxy_cache_path` and its parameters. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The directory of the cache, created if there is none.
    pub path: PathBuf,
    /// `levels`: the directories over which files are spread.
    pub levels: Levels,
    /// Size of `keys_zone` in bytes; about 8000 keys for each megabyte.
    pub keys_bytes: u64,
    /// `max_size`, in bytes; `None`: no limit.
    pub size_max: Option<u64>,
    /// `min_free`, in bytes; `None`: not checked.
    pub free_min: Option<u64>,
    /// `inactive`: objects that were not used for this time are removed, fresh or not.
    pub inactive: u64,
    /// The directory of files that are not complete yet; `None` (`use_temp_path=off`): beside the final ones.
    pub temporary_directory: Option<PathBuf>,
    /// Bytes of memory for open entries and small bodies.
    pub memory_bytes: usize,
    /// Bodies up to this number of bytes may be kept in memory.
    pub memory_body_bytes_max: usize,
    /// The most files kept open for hits.
    pub open_files_max: usize,
    /// Limit of the memory of one fill in bytes, see [`TAIL_BYTES_MAX_DEFAULT`].
    pub fill_tail_bytes_max: usize,
    /// The id of the server instance: this process and those that succeed it, by a binary upgrade or after a
    /// crash. With an id the directory is locked against other servers, and index and journal are kept in it.
    /// At most 200 bytes.
    pub owner: Option<String>,
    /// The data that have to survive a power failure (`fsync`).
    pub sync: Sync,
    /// When this process started, in Unix milliseconds: temporary files older than this are leftovers.
    pub started_at: u64,
}

impl Options {
    /// Returns nginx's defaults, with 10 MB of keys and 32 MB of memory.
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

/// The events that a stored object survives (`fsync`). A cache may lose objects, so the default is nothing
/// but the behaviour of the file system; half-written files are detected by their checksums in any case.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub enum Sync {
    #[default]
    /// Nothing is synchronized: a power failure may lose the objects that were stored a moment before.
    Off,
    /// A file's contents are on disk before it gets its name.
    Data,
    /// In addition the name of the file, and the index.
    All,
}

/// A change of configuration that a running store cannot apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigureError {
    /// The path differs: another path is another store.
    Path,
    /// The levels differ: files would no longer be found (nginx refuses it likewise).
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
