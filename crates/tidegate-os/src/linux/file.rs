//! Reading, writing and describing open files.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{AtFlags, FallocateFlags, FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

pub use rustix::fs::Advice;

use super::retry;
use crate::types::{FileKind, Nowait, Stat};

/// Describes an open file.
///
/// # Errors
/// Those of fstat.
pub fn fstat(fd: impl AsFd) -> io::Result<Stat> {
    Ok(describe(&rustix::fs::fstat(fd)?))
}

/// Describes a name relative to a directory; links are not followed when `follow` is false.
///
/// # Errors
/// Absent, no permission.
pub fn stat_at(directory: impl AsFd, path: &Path, follow: bool) -> io::Result<Stat> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    Ok(describe(&rustix::fs::statat(directory, path, flags)?))
}

/// Describes a path; links are not followed when `follow` is false.
///
/// # Errors
/// Absent, no permission.
pub fn stat(path: &Path, follow: bool) -> io::Result<Stat> {
    stat_at(rustix::fs::CWD, path, follow)
}

/// Reads at an offset without moving the file's position; 0 is the end of the file.
///
/// # Errors
/// Those of pread.
pub fn pread(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    retry(|| rustix::io::pread(fd.as_fd(), &mut *buffer, offset))
}

/// Reads at an offset what the page cache holds, and does not wait for the disk (RWF_NOWAIT). On
/// file systems without that ability it is a plain read.
///
/// # Errors
/// Those of preadv2.
pub fn pread_nowait(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<Nowait> {
    pread_flagged(fd.as_fd(), buffer, offset, ReadWriteFlags::NOWAIT)
}

/// Writes at an offset, possibly less than all.
///
/// # Errors
/// Those of pwrite: `StorageFull`, `QuotaExceeded`.
pub fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<usize> {
    retry(|| rustix::io::pwrite(fd.as_fd(), bytes, offset))
}

/// Writes all bytes at an offset.
///
/// # Errors
/// As [`pwrite`]; `WriteZero` when nothing more can be written. A part may have been written.
pub fn pwrite_all(fd: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match pwrite(fd.as_fd(), bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
        }
    }
    Ok(())
}

/// Writes several pieces at an offset in one call (at most 1024), possibly less than all.
///
/// # Errors
/// As [`pwrite`].
pub fn pwrite_vectored(fd: impl AsFd, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let pieces = &pieces[..pieces.len().min(1024)];
    retry(|| rustix::io::pwritev(fd.as_fd(), pieces, offset))
}

/// Advises the kernel how a part of the file will be used (`Advice::WillNeed` reads ahead, `Advice::DontNeed` drops
/// pages). Length 0 means to the end. Only a hint: errors are ignored.
pub fn fadvise(fd: impl AsFd, offset: u64, length: u64, advice: Advice) {
    let _ = rustix::fs::fadvise(fd, offset, std::num::NonZeroU64::new(length), advice);
}

/// Makes reads of an open file bypass the page cache (O_DIRECT): offsets, lengths and addresses must be aligned from
/// then on.
///
/// # Errors
/// `InvalidInput` on file systems without that ability.
pub fn set_direct(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd.as_fd())?;
    Ok(rustix::fs::fcntl_setfl(fd.as_fd(), flags | OFlags::DIRECT)?)
}

/// Reserves disk space without changing the length of the file. File systems without that ability
/// are no error.
///
/// # Errors
/// `StorageFull`, `QuotaExceeded`.
pub fn fallocate(fd: impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    match retry(|| rustix::fs::fallocate(fd.as_fd(), FallocateFlags::KEEP_SIZE, offset, length)) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        other => other,
    }
}

/// Returns the bytes free for unprivileged users in the file system that holds `path` (`min_free=`).
///
/// # Errors
/// Those of statvfs.
pub fn statfs_free(path: &Path) -> io::Result<u64> {
    let system = retry(|| rustix::fs::statvfs(path))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Whether every change below a directory, or of a file, of this file system is made by this machine's kernel, so that
/// watches (inotify) report it. `false` for network and stacked file systems, for those of programs (FUSE) and for
/// virtual ones (proc, sysfs).
///
/// # Errors
/// Those of statfs.
pub fn reports_changes(path: &Path, directory: bool) -> io::Result<bool> {
    const LOCAL: &[u32] = &[
        0xEF53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683E, // Btrfs
        0x0102_1994, // tmpfs
        0x8584_58F6, // ramfs
        0xF2F5_2010, // F2FS
        0x2FC1_2FC1, // ZFS
        0xCA45_1A4E, // bcachefs
        0x5265_4973, // ReiserFS
        0x3153_464A, // JFS
        0x7371_7368, // SquashFS
        0xE0F5_E1E2, // EROFS
    ];
    // A file of an overlay may be written through its lower directory; directories of the overlay itself
    // are renamed and removed by its own operations only.
    const OVERLAY: u32 = 0x794C_7630;
    let magic = retry(|| rustix::fs::statfs(path))?.f_type as u32;
    Ok(LOCAL.contains(&magic) || (directory && magic == OVERLAY))
}

/// Sets the permission bits of an open file.
///
/// # Errors
/// Those of fchmod.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// Sets the permission bits of a path.
///
/// # Errors
/// Those of chmod.
pub fn set_path_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Returns the permission bits (0o7777).
pub fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// Makes a directory, and with `all` the missing ones above it.
///
/// # Errors
/// Those of mkdir.
pub fn create_directory(path: &Path, mode: u32, all: bool) -> io::Result<()> {
    DirBuilder::new().recursive(all).mode(mode).create(path)
}

/// Sets the time of modification of a file or directory.
///
/// # Errors
/// Absent, no permission.
pub fn set_modified(path: &Path, time: SystemTime) -> io::Result<()> {
    File::open(path)?.set_modified(time)
}

/// Opens a regular file for reading and writing; with `create` a new one (mode 0600) if there is none. The directory
/// may belong to another user: no link is followed, and a file that has a second name is refused, so that a privileged
/// process changes no file elsewhere.
///
/// # Errors
/// `InvalidInput` for anything but a regular file with one name; those of open.
pub fn open_plain(path: &Path, create: bool) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Sets the permission bits of files that the options create, before the umask.
pub fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Copies a symbolic link, not its target.
///
/// # Errors
/// Those of readlink and symlink.
pub fn copy_link(from: &Path, to: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(std::fs::read_link(from)?, to)
}

pub(super) fn pread_flagged(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    flags: ReadWriteFlags,
) -> io::Result<Nowait> {
    loop {
        let mut pieces = [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(fd, &mut pieces, offset, flags) {
            Ok(length) => return Ok(Nowait::Read(length)),
            Err(Errno::AGAIN) => return Ok(Nowait::WouldBlock),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                return pread(fd, buffer, offset).map(Nowait::Read);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap)] // widths differ by architecture
fn describe(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_seconds: stat.st_mtime as i64,
        mtime_nanos: stat.st_mtime_nsec as u32,
        changed_nanos: i128::from(stat.st_ctime as i64) * 1_000_000_000
            + i128::from(stat.st_ctime_nsec as i64),
        inode: stat.st_ino as u64,
        device: stat.st_dev as u64,
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            _ => FileKind::Other,
        },
        uid: stat.st_uid,
        mode: (stat.st_mode & 0o7777) as u32,
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
    }
}
