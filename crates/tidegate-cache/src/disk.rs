//! The door to the disk. Every blocking call of this crate goes through [`Disk`], so that tests
//! can make any of them fail, and the caller decides on which thread they are made.

use std::fs;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(windows)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

#[cfg(windows)]
use crate::key::is_temporary_name;

/// An open file, shared by all that read it. It stays readable when its name changes or goes.
pub type FileHandle = Arc<dyn DiskFile>;

/// The file system as the store needs it. Every call may block.
pub trait Disk: Send + Sync + 'static {
    /// Creates a directory and those above it; no error when it exists.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Creates a file for reading and writing; an error when the name is taken.
    fn create(&self, path: &Path) -> io::Result<FileHandle>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<FileHandle>;
    /// Opens a file for reading and writing.
    fn open_for_update(&self, path: &Path) -> io::Result<FileHandle>;
    /// Renames a file, replacing the file that had the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; an error when there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists a directory: names that are not UTF-8 are left out, since none of ours are such.
    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryItem>>;
    /// When the file was last written, in unix milliseconds.
    fn modified_at(&self, path: &Path) -> io::Result<u64>;
    /// The file's length in bytes.
    fn file_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Opens a file, creating it if there is none, and locks it for this process alone for as long
    /// as the handle lives; `None` when another one has it.
    fn try_lock(&self, path: &Path) -> io::Result<Option<FileHandle>>;
    /// Makes the names in a directory outlast a power cut.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Bytes free for us in the file system of this path.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. Every call may block.
pub trait DiskFile: Send + Sync {
    /// Reads at an offset; fewer bytes than asked for are no error, 0 is the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset; fewer bytes than given are no error.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes several pieces one behind the other, in one call where the system has one for it; as
    /// [`DiskFile::write_at`] otherwise.
    fn write_vectored_at(&self, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let first = pieces.iter().find(|piece| !piece.is_empty());
        first.map_or(Ok(0), |first| self.write_at(first, offset))
    }
    /// The file's length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// What tells whether somebody changes the file. Does not block: one call to the system.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Makes what was written outlast a power cut; with `data_only` without the file's times.
    fn sync(&self, data_only: bool) -> io::Result<()>;
    /// The operating system's file, for `sendfile`; `None` when there is none behind this one.
    fn system_file(&self) -> Option<&Arc<fs::File>>;
}

/// What tells that a file was changed: its length, and the times of its contents and of what is known of it, in
/// nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    pub modified: i128,
    pub changed: i128,
}

/// So long behind a change another one may carry the same time: the clock of file systems stands still for up to
/// 10 ms.
const YOUNG_NANOS: i128 = 50_000_000;

const NANOS_OF_MILLI: i128 = 1_000_000;

/// A change may be so much later than the moment that a look at the file began, in milliseconds, as the disk is slow. What
/// is further ahead comes of a clock that was set back.
const AHEAD_MILLIS: i128 = 60_000;

impl Stamp {
    /// Whether a further change may leave this stamp as it is, where the look at the file began at `now`, in unix
    /// milliseconds.
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
    /// Where it is: the path that was listed, and the name.
    pub path: PathBuf,
    /// Whether it is a directory. A link to a directory is none.
    pub is_directory: bool,
}

/// The file system of this machine.
///
/// `std` cannot tell how much space is free, so the function that can is handed in.
pub struct RealDisk {
    free_bytes: fn(&Path) -> io::Result<u64>,
}

impl RealDisk {
    /// A disk that asks `free_bytes` how many bytes the file system of a path has left for this process.
    pub fn new(free_bytes: fn(&Path) -> io::Result<u64>) -> RealDisk {
        RealDisk { free_bytes }
    }
}

impl Default for RealDisk {
    /// A disk whose free space is unknown and taken to be without end: `min_free` has no effect.
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
        // As nginx: what is cached for one user is no other user's business.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(RealFile::shared(options.open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        // A pipe under the name of a file would be waited for without end.
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

    /// A file that is open keeps its name until it is closed where the file system knows no better, and no other file
    /// gets that name: so the name is freed first. What a crash leaves then has the name of a temporary file.
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

    /// Directories cannot be opened as files there, nor need it: NTFS keeps names in its journal.
    #[cfg(windows)]
    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        (self.free_bytes)(path)
    }
}

/// The first number in the name of a file that is being removed: those of temporary files stay below.
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

/// Reads until the buffer is full or the file ends; returns how much was read. Blocks.
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
