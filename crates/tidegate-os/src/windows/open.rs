//! Opening files under their own names only: the name of the opened file is compared with the requested one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;

use windows_sys::Win32::Foundation::GENERIC_READ;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_NAME_NORMALIZED,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, GetFinalPathNameByHandleW,
    VOLUME_NAME_DOS,
};

use super::{error, file, path};
use crate::names;
use crate::types::{FileKind, Stat};

/// Whether an open file keeps its name from being given to another file: then only files in use are kept open.
pub const HOLDS_NAME: bool = true;

/// Units of the longest name that is requested.
const UNITS_MAX: u32 = 1 << 16;

/// Opens a file for reading by a path of the configuration, in any spelling.
///
/// # Errors
/// Those of CreateFile.
pub fn open_nonblock(path: &Path) -> io::Result<File> {
    handle(path, GENERIC_READ, true)
}

/// Whether the system has all names of a path in memory: always `true`, since the system does not report it.
pub fn is_name_cached(_path: &Path) -> bool {
    true
}

/// As [`stat_own`].
pub fn stat_if_cached(path: &Path, from: usize) -> Option<io::Result<Stat>> {
    Some(stat_own(path, from))
}

/// Opens a file for appending if no disk has to be waited for: always `None`, since the system does not report that.
pub fn append_if_cached(_path: &Path) -> Option<File> {
    None
}

/// Opens a file for appending, or creates it. Permission bits have no counterpart on this system, and no name waits for a
/// reader.
///
/// # Errors
/// Those of CreateFile.
pub fn append_at_once(path: &Path, _mode: u32) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Opens a file or directory for reading under its own name: the path is checked from byte `from` on.
///
/// # Errors
/// `ERROR_INVALID_NAME` for another name than its own, and those of CreateFile.
pub fn open_own(path: &Path, from: usize) -> io::Result<File> {
    own(path, from, GENERIC_READ, true)
}

/// Describes the object at a path, as [`open_own`].
///
/// # Errors
/// As [`open_own`].
pub fn stat_own(path: &Path, from: usize) -> io::Result<Stat> {
    followed(own(path, from, 0, true)?)
}

/// Describes the target of links as no link itself, whatever else the file system marks as one.
fn followed(opened: File) -> io::Result<Stat> {
    let mut stat = file::fstat(&opened)?;
    if stat.kind == FileKind::Symlink {
        stat.kind = if opened.metadata()?.is_dir() { FileKind::Directory } else { FileKind::File };
    }
    Ok(stat)
}

/// Opens a path for reading where links below `from` bytes of it are refused. The owners of links are not compared on
/// this system: `same_owner` refuses all links as well.
///
/// # Errors
/// `ERROR_STOPPED_ON_SYMLINK` for a link, else as [`open_own`].
pub fn open_checking_links(
    path: &Path,
    from: usize,
    _same_owner: bool,
    describe_only: bool,
) -> io::Result<File> {
    let access = if describe_only { 0 } else { GENERIC_READ };
    let bytes = path.as_os_str().as_encoded_bytes();
    let opened = own(path, from, access, false)?;
    let refused = || io::Error::from_raw_os_error(error::LINK_REFUSED);
    if file::fstat(&opened)?.kind == FileKind::Symlink {
        return Err(refused());
    }
    // The names are the file's own; where they begin, the path must lead there without a link.
    let found = final_path(&opened)?;
    let mut expected = match names::steps(bytes, from).next() {
        None => return Ok(opened),
        Some((first, name)) => {
            let start = path::of(first.get(..first.len() - name.len()).unwrap_or_default());
            final_path(&handle(start, 0, true)?)?.trim_end_matches('\\').to_owned()
        }
    };
    for (_, name) in names::steps(bytes, from) {
        expected.push('\\');
        expected.push_str(&String::from_utf8_lossy(name));
    }
    if found == expected { Ok(opened) } else { Err(refused()) }
}

/// Whether a path may be used for something new: see `path::check`.
pub(super) fn check_own(path: &Path, from: usize) -> io::Result<()> {
    let bytes = path.as_os_str().as_encoded_bytes();
    check_names(bytes, from)?;
    let ways: Vec<&[u8]> = names::steps(bytes, from).map(|(way, _)| way).collect();
    for way in ways.into_iter().rev() {
        match handle(path::of(way), 0, false) {
            Ok(opened) => return compare(&opened, way, from),
            Err(error) if error.raw_os_error().is_some_and(error::is_absent) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn own(path: &Path, from: usize, access: u32, follow: bool) -> io::Result<File> {
    let bytes = path.as_os_str().as_encoded_bytes();
    check_names(bytes, from)?;
    #[cfg(feature = "name-rules")]
    if let Some(rule) = super::rules::chosen() {
        return rule.open(path, access);
    }
    let opened = handle(path, access, follow)?;
    compare(&opened, bytes, from)?;
    Ok(opened)
}

fn check_names(path: &[u8], from: usize) -> io::Result<()> {
    names::check(path, from).map_err(|_| invalid())
}

/// Compares the name of the opened file with the requested one. Where a link was on the way, each name is checked by
/// itself.
fn compare(opened: &File, path: &[u8], from: usize) -> io::Result<()> {
    if names::is_own(path, from, &final_path(opened)?) {
        return Ok(());
    }
    for (way, name) in names::steps(path, from) {
        let link_itself = handle(path::of(way), 0, false)?;
        if names::last_name(&final_path(&link_itself)?).as_bytes() != name {
            return Err(invalid());
        }
    }
    Ok(())
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(error::INVALID)
}

/// Opens a file or directory, which other programs may read, write, rename and delete meanwhile. Without access it can
/// only be described.
pub(super) fn handle(path: &Path, access: u32, follow: bool) -> io::Result<File> {
    let link = if follow { 0 } else { FILE_FLAG_OPEN_REPARSE_POINT };
    OpenOptions::new()
        .access_mode(access)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | link)
        .open(path)
}

/// Returns the name of an open file, with all links followed and all names in full (`\\?\C:\www\file`).
pub(super) fn final_path(opened: &File) -> io::Result<String> {
    let handle = opened.as_raw_handle();
    let flags = FILE_NAME_NORMALIZED | VOLUME_NAME_DOS;
    let mut buffer = vec![0_u16; 512];
    loop {
        let room = u32::try_from(buffer.len()).unwrap_or(UNITS_MAX);
        // SAFETY: the handle is open, and the buffer has `room` units.
        let length = unsafe { GetFinalPathNameByHandleW(handle, buffer.as_mut_ptr(), room, flags) };
        if length == 0 {
            return Err(invalid());
        }
        if length < room {
            let name = buffer.get(..length as usize).unwrap_or_default();
            return String::from_utf16(name).map_err(|_| invalid());
        }
        if length > UNITS_MAX || room >= UNITS_MAX {
            return Err(invalid());
        }
        buffer.resize((length as usize + 1).max(2 * buffer.len()), 0);
    }
}
