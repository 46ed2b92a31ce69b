//! What is at a path: the one place where `try_files`, `index` and `if (-f …)` ask the file system.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A socket, device or pipe.
    Other,
}

/// What a test tells of a file.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub kind: Kind,
    /// Executable by its owner, as `if (-x …)` asks.
    pub executable: bool,
}

/// Looks at a path, links followed.
pub fn file_test(path: &[u8]) -> io::Result<Found> {
    let metadata = std::fs::metadata(Path::new(OsStr::from_bytes(path)))?;
    let kind = match () {
        () if metadata.is_file() => Kind::File,
        () if metadata.is_dir() => Kind::Directory,
        () => Kind::Other,
    };
    Ok(Found { kind, executable: metadata.permissions().mode() & 0o100 != 0 })
}

/// True for errors that mean "there is no such file", so that another may be tried.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    )
}
