//! Opening files by their names.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::types::Stat;

/// Whether an open file keeps its name from being given to another file.
pub const HOLDS_NAME: bool = false;

mod links;

pub use links::open_checking_links;
#[cfg(test)]
pub(super) use links::open_checking_links_by;

/// Set once the kernel (before 5.12) or a sandbox refused RESOLVE_CACHED.
static NO_CACHED: AtomicBool = AtomicBool::new(false);

/// Opens a file for reading by its full path, following links to anywhere, without waiting for the other side of a
/// FIFO: for names in the configuration.
///
/// # Errors
/// Those of open.
pub fn open_nonblock(path: &Path) -> io::Result<File> {
    Ok(super::retry(|| rustix::fs::open(path, READ, Mode::empty()))?.into())
}

/// Opens a file for reading under its own name. On this system every name is a file's own.
///
/// # Errors
/// As [`open_nonblock`].
#[inline]
pub fn open_own(path: &Path, _from: usize) -> io::Result<File> {
    open_nonblock(path)
}

/// Whether the kernel has all names of a path in memory, even of one that does not exist, so that a lookup waits for no
/// disk (RESOLVE_CACHED, Linux 5.12). Where the kernel cannot report that, it is taken to have them.
pub fn is_name_cached(path: &Path) -> bool {
    open_remembered(path).err() != Some(Errno::AGAIN)
}

/// As [`stat_own`], but returns `None` where [`is_name_cached`] is false.
pub fn stat_if_cached(path: &Path, from: usize) -> Option<io::Result<Stat>> {
    match open_remembered(path) {
        Ok(found) => Some(super::file::fstat(found)),
        Err(Errno::AGAIN) => None,
        Err(Errno::NOENT) => Some(Err(Errno::NOENT.into())),
        // It may be a failure for want of descriptors.
        Err(_) => Some(stat_own(path, from)),
    }
}

/// Opens an existing regular file for appending, if the kernel has all names of its path in memory: it does not wait for a
/// disk. `None` for a FIFO as well, whose reader a write would wait for: it is not opened, which its reader would see.
pub fn append_if_cached(path: &Path) -> Option<File> {
    let found = rustix::fs::fstat(open_remembered(path).ok()?).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode).is_file();
    is_file.then(|| open_cached(path, APPEND).ok().map(File::from)).flatten()
}

/// Opens a file for appending, or creates it with these permission bits, without waiting for the reader of a FIFO: where it
/// has none, that is an error. Writes wait as they do after any other way to open it.
///
/// # Errors
/// Those of open and fcntl.
pub fn append_at_once(path: &Path, mode: u32) -> io::Result<File> {
    let flags = APPEND | OFlags::CREATE;
    let file = super::retry(|| rustix::fs::open(path, flags, Mode::from_raw_mode(mode)))?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// Opens a path for being described, by names in memory alone: else AGAIN, or NOSYS where the kernel cannot do that.
fn open_remembered(path: &Path) -> Result<OwnedFd, Errno> {
    open_cached(path, OFlags::PATH | OFlags::CLOEXEC)
}

fn open_cached(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    if NO_CACHED.load(Ordering::Relaxed) {
        return Err(Errno::NOSYS);
    }
    let look = |path: &Path, flags| {
        let (mode, resolve) = (Mode::empty(), ResolveFlags::CACHED);
        rustix::fs::openat2(rustix::fs::CWD, path, flags, mode, resolve)
    };
    let is_refusal = |error| matches!(error, Errno::NOSYS | Errno::INVAL | Errno::PERM);
    let found = look(path, flags);
    // The path may be invalid instead.
    if found.as_ref().is_err_and(|error| is_refusal(*error))
        && look(Path::new("/"), OFlags::PATH).is_err_and(is_refusal)
    {
        NO_CACHED.store(true, Ordering::Relaxed);
    }
    found
}

/// Describes the object at a path, links followed, under its own name.
///
/// # Errors
/// Absent, no permission.
#[inline]
pub fn stat_own(path: &Path, _from: usize) -> io::Result<Stat> {
    super::file::stat(path, true)
}

/// For reading, without waiting for the other side of a FIFO.
const READ: OFlags = OFlags::RDONLY.union(AT_ONCE);
const APPEND: OFlags = OFlags::WRONLY.union(OFlags::APPEND).union(AT_ONCE);
const AT_ONCE: OFlags = OFlags::NONBLOCK.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
