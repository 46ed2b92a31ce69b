//! Paths and bytes: the same on this system.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether a file may have other names than its own, so that the name of an opened file is compared with the requested
/// one.
pub const HAS_ALIASES: bool = false;

/// Converts bytes to a path.
#[inline]
pub fn of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Converts bytes to an owned path.
#[inline]
pub fn of_vec(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Whether a path of the configuration is absolute, so that it does not get the prefix.
pub fn is_absolute(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

/// Returns a path as a configuration writes it: unchanged on this system.
pub fn as_written(path: &[u8]) -> Vec<u8> {
    path.to_vec()
}

/// Checks whether a name may be used for a new file, from its byte `from` on: on this system every name may.
///
/// # Errors
/// None on this system.
pub fn check(_path: &Path, _from: usize) -> io::Result<()> {
    Ok(())
}

/// Returns the path with all links followed.
///
/// # Errors
/// Absent, no permission.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}
