//! All access to the disk. Every blocking call of this crate goes through [`Disk`]: tests can make any of
//! them fail, and the caller chooses the thread that makes it.

use std::fs;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(windows)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

#[cfg(windows)]
use crate::key::is_temporary_name;

/// An open file, shared by its readers. It stays readable after it was renamed or removed.
pub type FileHandle = Arc<dyn DiskFile>;

/// The file system as the store needs it. Every call may block.
pub trait Disk: Send + Sync + 'static {
    /// Creates a directory and its parents. An existing directory is no error.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Creates a file for reading and writing. Fails when the name exists.
    fn create(&self, path: &Path) -> io::Result<FileHandle>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<FileHandle>;
    /// Opens a file for reading and writing.
    fn open_for_update(&self, path: &Path) -> io::Result<FileHandle>;
    /// Renames a file and replaces the file that had the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Fails when there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists a directory. Names that are not UTF-8 are left out, since no name of a store is such.
    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryItem>>;
    /// Returns the time when the file was last written, in Unix milliseconds.
    fn modified_at(&self, path: &Path) -> io::Result<u64>;
    /// Returns the file's length in bytes.
    fn file_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Opens a file, creates it if there is none, and locks it for this process alone as long as the handle
    /// lives. Returns `None` when another process holds the lock.
    fn try_lock(&self, path: &Path) -> io::Result<Option<FileHandle>>;
    /// Makes the names in a directory survive a power failure.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Returns the bytes that this process may still use in the file system of this path.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. Every call may block.
pub trait DiskFile: Send + Sync {
    /// Reads at an offset. Fewer bytes than requested are no error; 0 is the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset. Fewer bytes than given are no error.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes several pieces one behind the other, with one system call where the system has one for it.
    /// Otherwise it works as [`DiskFile::write_at`].
    fn write_vectored_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let first = pieces.iter().find(|piece| !piece.is_empty());
        first.map_or(Ok(0), |first| self.write_at(first, offset))
    }
    /// Returns the file's length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Returns the stamp by which a change of the file is detected. Does not block: one system call.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Makes the written bytes survive a power failure; with `data_only` without the file's times.
    fn sync(&self, data_only: bool) -> io::Result<()>;
    /// Returns the operating system's file, for `sendfile`; `None` when the disk is not a real one.
    fn system_file(&self) -> Option<&Arc<fs::File>>;
}

/// The length of a file and the times of its contents and of its inode, in nanoseconds since 1970. A change
/// of the file changes the stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    pub modified: i128,
    pub changed: i128,
}

/// A change this soon after another one may carry the same time: file system clocks advance in steps of up to
/// 10 ms.
const YOUNG_NANOS: i128 = 50_000_000;

const NANOS_OF_MILLI: i128 = 1_000_000;

/// The greatest difference, in milliseconds, between the start of a look at the file and a change that it
/// sees; a slow disk causes it. A time further ahead comes from a clock that was set back.
const AHEAD_MILLIS: i128 = 60_000;

impl Stamp {
    /// Returns whether both are stamps of the same contents, by the length and the time of the last write.
    pub fn has_contents_of(&self, other: &Stamp) -> bool {
        self.bytes == other.bytes && self.modified == other.modified
    }

    /// Returns whether a further change may leave this stamp as it is. `now` is the moment when the look at
    /// the file began, in Unix milliseconds.
    pub fn is_young(&self, now: u64) -> bool {
        let age = i128::from(now) * NANOS_OF_MILLI - self.changed;
        (-AHEAD_MILLIS * NANOS_OF_MILLI..YOUNG_NANOS).contains(&age)
    }
}

/// One item of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryItem {
    /// The last part of the path.
    pub name: String,
    /// The path of the listed directory, with the name.
    pub path: PathBuf,
    /// Whether it is a directory. A symbolic link to a directory is not.
    pub is_directory: bool,
}

/// The file system of this machine.
///
/// `std` has no function for the free space, so the caller passes one.
pub struct RealDisk {
    free_bytes: fn(&Path) -> io::Result<u64>,
}

impl RealDisk {
    /// Makes a disk that calls `free_bytes` for the bytes that the file system of a path has left for this
    /// process.
    pub fn new(free_bytes: fn(&Path) -> io::Result<u64>) -> RealDisk {
        RealDisk { free_bytes }
    }
}

impl Default for RealDisk {
    /// Makes a disk whose free space is unknown and counts as unlimited: `min_free` has no effect.
    fn default() -> RealDisk {
        RealDisk::new(|_| Ok(u64::MAX))
    }
}

impl Disk for RealDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        directory_builder().create(path)
    }

    fn create(&self, path: &Path) -> io::Result<FileHandle> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true);
        // As nginx: no other user may read the responses cached for one user.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(RealFile::shared(options.open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        // Without `O_NONBLOCK`, the open of a FIFO under the name of a file would never return.
        #[cfg(unix)]
        let file = tidegate_os::open::open_nonblock(path)?;
        #[cfg(not(unix))]
        let file = fs::File::open(path)?;
        Ok(RealFile::shared(file))
    }

    fn open_for_update(&self, path: &Path) -> io::Result<FileHandle> {
        Ok(RealFile::shared(fs::OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[cfg(unix)]
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Frees the name first: where the file system has no better way, an open file keeps its name until it is
    /// closed, and no other file gets that name. After a crash the file has the name of a temporary file,
    /// which the loader removes.
    #[cfg(windows)]
    fn remove(&self, path: &Path) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(REMOVED_FIRST);
        let spare = path.with_extension(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        let name = spare.file_name().and_then(|name| name.to_str());
        match name.is_some_and(is_temporary_name) && fs::rename(path, &spare).is_ok() {
            true => fs::remove_file(&spare),
            false => fs::remove_file(path),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryItem>> {
        let mut items = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                let is_directory = entry.file_type()?.is_dir();
                items.push(DirectoryItem { name, path: entry.path(), is_directory });
            }
        }
        Ok(items)
    }

    fn modified_at(&self, path: &Path) -> io::Result<u64> {
        let modified = fs::symlink_metadata(path)?.modified()?;
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::symlink_metadata(path)?.len())
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<FileHandle>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(RealFile::shared(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    #[cfg(unix)]
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    /// Does nothing: directories cannot be opened as files on Windows, and NTFS keeps names in its journal.
    #[cfg(windows)]
    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        (self.free_bytes)(path)
    }
}

/// The first number in the name of a file that is being removed. Numbers of temporary files stay below it.
#[cfg(windows)]
const REMOVED_FIRST: u64 = 9_000_000_000_000_000_000;

struct RealFile {
    file: Arc<fs::File>,
}

impl RealFile {
    fn shared(file: fs::File) -> FileHandle {
        Arc::new(RealFile { file: Arc::new(file) })
    }
}

impl DiskFile for RealFile {
    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&*self.file, buffer, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&*self.file, buffer, offset)
    }

    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&*self.file, bytes, offset)
    }

    #[cfg(windows)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&*self.file, bytes, offset)
    }

    #[cfg(unix)]
    fn write_vectored_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        tidegate_os::file::pwrite_vectored(&*self.file, pieces, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let stat = tidegate_os::file::fstat(&*self.file)?;
        let modified =
            i128::from(stat.mtime_seconds) * 1_000_000_000 + i128::from(stat.mtime_nanos);
        Ok(Stamp { bytes: stat.size, modified, changed: stat.changed_nanos })
    }

    fn sync(&self, data_only: bool) -> io::Result<()> {
        if data_only { self.file.sync_data() } else { self.file.sync_all() }
    }

    fn system_file(&self) -> Option<&Arc<fs::File>> {
        Some(&self.file)
    }
}

/// Reads until the buffer is full or the file ends, and returns the number of bytes read. Blocks.
pub fn read_full_at(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all bytes. Blocks.
pub(crate) fn write_full_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset.saturating_add(done as u64)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all pieces, one behind the other. Blocks.
pub(crate) fn write_all_at(
    file: &dyn DiskFile,
    mut pieces: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match file.write_vectored_at(pieces, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                offset = offset.saturating_add(count as u64);
                IoSlice::advance_slices(&mut pieces, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn directory_builder() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
