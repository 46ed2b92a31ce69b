//! Paths and bytes: UTF-8 on this system.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::GetShortPathNameW;

use crate::names;

/// Whether a file may have other names than its own, so that the name of an opened file is compared with the requested
/// one.
pub const HAS_ALIASES: bool = true;

/// A name that no file has: the standard library refuses it.
const NO_FILE: &str = "\0";

/// Converts bytes to a path. Bytes that are not UTF-8 become a path that no file has.
pub fn of(bytes: &[u8]) -> &Path {
    Path::new(std::str::from_utf8(bytes).unwrap_or(NO_FILE))
}

/// Converts bytes to an owned path; see [`of`].
pub fn of_vec(bytes: Vec<u8>) -> PathBuf {
    OsString::from(String::from_utf8(bytes).unwrap_or_else(|_| NO_FILE.to_owned())).into()
}

/// Whether a path of the configuration is absolute, so that it does not get the prefix: `C:/…`, `/…`, `//server/…`.
pub fn is_absolute(path: &[u8]) -> bool {
    path.starts_with(b"/") || path.starts_with(b"\\") || names::is_drive_path(path)
}

/// Returns a path as a configuration writes it: with slashes.
pub fn as_written(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect()
}

/// Checks whether a name may be used for a new file, from its byte `from` on: no device or stream, and no directory on
/// the way under another name than its own.
///
/// # Errors
/// `ERROR_INVALID_NAME` if it may not be used.
pub fn check(path: &Path, from: usize) -> io::Result<()> {
    super::open::check_own(path, from)
}

/// Returns the path with all links followed.
///
/// # Errors
/// Absent, no permission.
pub fn real(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    let text = real.to_string_lossy();
    let bare = text.strip_prefix(r"\\?\").filter(|bare| names::is_drive_path(bare.as_bytes()));
    Ok(of_vec(as_written(bare.unwrap_or(&text).as_bytes())))
}

/// Returns the path with short names (8.3) where they exist: for tests that no file is served under them.
///
/// # Errors
/// Absent.
pub fn short(path: &Path) -> io::Result<PathBuf> {
    let long = super::wide(&path.to_string_lossy());
    let mut buffer = vec![0_u16; 1024];
    // SAFETY: the path ends in a zero unit, and the buffer's length is given.
    let length =
        unsafe { GetShortPathNameW(long.as_ptr(), buffer.as_mut_ptr(), buffer.len() as u32) };
    match buffer.get(..length as usize) {
        Some(name) if length > 0 => Ok(String::from_utf16_lossy(name).into()),
        _ => Err(io::Error::last_os_error()),
    }
}
