//! Reading, writing and describing open files.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{OpenOptionsExt, symlink_dir, symlink_file};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::time::SystemTime;

use windows_sys::Win32::Foundation::{ERROR_HANDLE_EOF, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_READONLY,
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_BASIC_INFO, FILE_FLAG_OPEN_REPARSE_POINT, FILE_TYPE_DISK,
    FILE_WRITE_ATTRIBUTES, FileBasicInfo, GetDiskFreeSpaceExW, GetFileInformationByHandle,
    GetFileInformationByHandleEx, GetFileType, ReadFile, WriteFile,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::time::{EPOCH, TICKS};
use super::{AsFile, check, open};
use crate::types::{FileKind, Nowait, Stat};

/// How a part of a file will be used: hints, which this system ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No special pattern.
    Normal,
    /// Read from front to back.
    Sequential,
    /// Read soon.
    WillNeed,
    /// Not read soon.
    DontNeed,
}

/// Describes an open file. A link is described as such when the link itself was opened.
///
/// # Errors
/// Those of GetFileInformationByHandle.
pub fn fstat(file: impl AsFile) -> io::Result<Stat> {
    let handle = file.as_handle().as_raw_handle();
    // SAFETY: the handle is open while it is borrowed.
    if unsafe { GetFileType(handle) } != FILE_TYPE_DISK {
        return Ok(other());
    }
    let mut facts = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: as above, and the pointer is to a live structure of its type.
    check(unsafe { GetFileInformationByHandle(handle, &raw mut facts) })?;
    let mut times = FILE_BASIC_INFO::default();
    let length = size_of::<FILE_BASIC_INFO>() as u32;
    // SAFETY: as above; the length is the structure's, which belongs to this information class.
    check(unsafe {
        GetFileInformationByHandleEx(handle, FileBasicInfo, (&raw mut times).cast(), length)
    })?;
    Ok(describe(&facts, &times))
}

fn describe(facts: &BY_HANDLE_FILE_INFORMATION, times: &FILE_BASIC_INFO) -> Stat {
    let has = |attribute: u32| facts.dwFileAttributes & attribute != 0;
    let size = join(facts.nFileSizeHigh, facts.nFileSizeLow);
    let kind = match () {
        () if has(FILE_ATTRIBUTE_REPARSE_POINT) => FileKind::Symlink,
        () if has(FILE_ATTRIBUTE_DIRECTORY) => FileKind::Directory,
        () => FileKind::File,
    };
    let write = if has(FILE_ATTRIBUTE_READONLY) { 0 } else { 0o200 };
    let changed = times.ChangeTime.max(times.LastWriteTime);
    Stat {
        size,
        mtime_seconds: times.LastWriteTime.div_euclid(TICKS) - EPOCH,
        mtime_nanos: (times.LastWriteTime.rem_euclid(TICKS) * 100) as u32,
        changed_nanos: nanos(changed),
        inode: join(facts.nFileIndexHigh, facts.nFileIndexLow),
        device: u64::from(facts.dwVolumeSerialNumber),
        kind,
        uid: 0,
        mode: write | if kind == FileKind::Directory { 0o555 } else { 0o444 },
        allocated: size,
    }
}

/// Converts a time of the system to nanoseconds since 1970.
pub(super) fn nanos(ticks: i64) -> i128 {
    (i128::from(ticks) - i128::from(EPOCH * TICKS)) * 100
}

/// Describes a pipe or device.
fn other() -> Stat {
    Stat {
        size: 0,
        mtime_seconds: 0,
        mtime_nanos: 0,
        changed_nanos: 0,
        inode: 0,
        device: 0,
        kind: FileKind::Other,
        uid: 0,
        mode: 0,
        allocated: 0,
    }
}

fn join(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Describes a path of the configuration, in any spelling; links are not followed when `follow` is false.
///
/// # Errors
/// Absent, no permission.
pub fn stat(path: &Path, follow: bool) -> io::Result<Stat> {
    let mut stat = fstat(open::handle(path, 0, follow)?)?;
    if follow && stat.kind == FileKind::Symlink {
        // The target is a file or directory, though the system may store it elsewhere.
        stat.kind = if path.is_dir() { FileKind::Directory } else { FileKind::File };
    }
    Ok(stat)
}

/// Reads at an offset; 0 is the end of the file.
///
/// # Errors
/// Those of ReadFile.
pub fn pread(file: impl AsFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut place = place(offset);
    let mut count = 0;
    let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
    let handle: HANDLE = file.as_handle().as_raw_handle();
    // SAFETY: the handle is open while it is borrowed, and was opened for calls that wait, so that nothing is
    // written after the call; the buffer has `length` bytes, the other pointers are to live values.
    let read = check(unsafe {
        ReadFile(handle, buffer.as_mut_ptr(), length, &raw mut count, &raw mut place)
    });
    match read {
        Err(error) if error.raw_os_error() == Some(ERROR_HANDLE_EOF.cast_signed()) => Ok(0),
        other => other.map(|()| count as usize),
    }
}

/// Reads at an offset. The system has no read of memory alone: this may wait for the disk.
///
/// # Errors
/// As [`pread`].
pub fn pread_nowait(file: impl AsFile, buffer: &mut [u8], offset: u64) -> io::Result<Nowait> {
    pread(file, buffer, offset).map(Nowait::Read)
}

/// Writes at an offset, possibly less than all.
///
/// # Errors
/// Those of WriteFile: `StorageFull`.
pub fn pwrite(file: impl AsFile, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let mut place = place(offset);
    let mut count = 0;
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let handle: HANDLE = file.as_handle().as_raw_handle();
    // SAFETY: as in `pread`; the bytes are only read.
    check(unsafe { WriteFile(handle, bytes.as_ptr(), length, &raw mut count, &raw mut place) })?;
    Ok(count as usize)
}

/// Writes all bytes at an offset.
///
/// # Errors
/// As [`pwrite`]; `WriteZero` when nothing more can be written. A part may have been written.
pub fn pwrite_all(file: impl AsFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    let file = file.as_handle();
    while !bytes.is_empty() {
        match pwrite(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
        }
    }
    Ok(())
}

fn place(offset: u64) -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.Offset = (offset & 0xffff_ffff) as u32;
    place.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
    place
}

/// Ignores a hint about a part of the file.
pub fn fadvise(_file: impl AsFile, _offset: u64, _length: u64, _advice: Advice) {}

/// Fails: reads of an open file cannot bypass the page cache on this system.
///
/// # Errors
/// Always `InvalidInput`.
pub fn set_direct(_file: impl AsFile) -> io::Result<()> {
    Err(io::ErrorKind::InvalidInput.into())
}

/// Returns the bytes free for this user in the file system that holds `path` (`min_free=`).
///
/// # Errors
/// Those of GetDiskFreeSpaceEx.
pub fn statfs_free(path: &Path) -> io::Result<u64> {
    let path = super::wide(&path.to_string_lossy());
    let mut free = 0_u64;
    let nothing = std::ptr::null_mut();
    // SAFETY: the path ends in a zero unit; the pointer is to a live integer, and the others may be null.
    check(unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, nothing, nothing) })?;
    Ok(free)
}

/// Whether watches report every change below a path: there are none on this system.
///
/// # Errors
/// None.
pub fn reports_changes(_path: &Path, _directory: bool) -> io::Result<bool> {
    Ok(false)
}

/// Does nothing: permission bits have no counterpart on this system.
///
/// # Errors
/// None.
pub fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Does nothing, as [`set_mode`].
///
/// # Errors
/// None.
pub fn set_path_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Returns permission bits for the metadata: directories may be entered, nothing is executable.
pub fn mode(metadata: &Metadata) -> u32 {
    if metadata.is_dir() { 0o755 } else { 0o644 }
}

/// Makes a directory, and with `all` the missing ones above it. The mode has no counterpart.
///
/// # Errors
/// Those of CreateDirectory.
pub fn create_directory(path: &Path, _mode: u32, all: bool) -> io::Result<()> {
    DirBuilder::new().recursive(all).create(path)
}

/// Sets the time of modification of a file or directory.
///
/// # Errors
/// Absent, no permission.
pub fn set_modified(path: &Path, time: SystemTime) -> io::Result<()> {
    open::handle(path, FILE_WRITE_ATTRIBUTES, true)?.set_modified(time)
}

/// Opens a regular file for reading and writing; with `create` a new one if there is none. No link is followed.
///
/// # Errors
/// `InvalidInput` for anything but a regular file; those of CreateFile.
pub fn open_plain(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    let file = options.open(path)?;
    match fstat(&file)?.kind {
        FileKind::File => Ok(file),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns the options unchanged: permission bits have no counterpart on this system.
pub fn with_mode(options: &mut OpenOptions, _mode: u32) -> &mut OpenOptions {
    options
}

/// Copies a symbolic link, not its target.
///
/// # Errors
/// No right to make links.
pub fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    let target = std::fs::read_link(from)?;
    match from.is_dir() {
        true => symlink_dir(target, to),
        false => symlink_file(target, to),
    }
}
