//! Paths and bytes: the same here.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether a file may be named in other ways than by its own name, so that the name of what was opened is
/// compared with the one asked for.
pub const HAS_ALIASES: bool = false;

/// Bytes as a path.
#[inline]
pub fn of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Bytes as a path of its own.
#[inline]
pub fn of_vec(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

/// Whether a path of the configuration names its place without the prefix.
pub fn is_absolute(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

/// A path as a configuration writes it. As it is, here.
pub fn as_written(path: &[u8]) -> Vec<u8> {
    path.to_vec()
}

/// Whether a name may be used for a file to be made, from its byte `from` on: any may, here.
///
/// # Errors
/// None here.
pub fn check(_path: &Path, _from: usize) -> io::Result<()> {
    Ok(())
}

/// The path with all links followed.
///
/// # Errors
/// Absent, no permission.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}
