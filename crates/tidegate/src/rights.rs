//! The rights of a worker, from the configuration and from the process that started it.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::path::PathBuf;

use tidegate_os::Credentials;

#[cfg(unix)]
pub(crate) use unix::{make_directories, of};
#[cfg(windows)]
pub(crate) use windows::{make_directories, of};

/// The rights and limits of a worker; computed once, when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The user to become; `None` when the master is not the superuser.
    pub credentials: Option<Credentials>,
    /// All groups of that user, sorted, as the master found them; a worker looks them up itself.
    pub groups: Vec<u32>,
    /// Keep the right to send from addresses that are not the machine's own (`proxy_bind … transparent`).
    pub sends_from_anywhere: bool,
    pub files_max: Option<u64>,
    pub core_bytes_max: Option<u64>,
    pub priority: Option<i32>,
    pub directory: Option<PathBuf>,
}
