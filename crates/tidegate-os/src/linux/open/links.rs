//! Opening a path in which symbolic links are restricted (`disable_symlinks`).
//!
//! Nothing is checked first and opened afterwards: the object that was checked is the one that is open, whatever is
//! renamed meanwhile. A path without links costs one system call at any depth; a link that may be followed costs some
//! more, their number growing with the logarithm of the depth.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::READ;

/// Symbolic links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Set once the kernel (before 5.6) or a sandbox refused openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Opens a path for reading where symbolic links below `from` bytes of it are refused or, with `same_owner`, must
/// belong to the owner of their targets (`disable_symlinks`). With `describe_only` the descriptor can only be described
/// (fstat), and nothing is really opened: no FIFO's writer and no device notices.
///
/// # Errors
/// `FilesystemLoop` (ELOOP) for a link that is not allowed, and those of open.
pub fn open_checking_links(
    path: &Path,
    from: usize,
    same_owner: bool,
    describe_only: bool,
) -> io::Result<File> {
    let by_kernel = !NO_OPENAT2.load(Ordering::Relaxed);
    open_checking_links_by(path, from, same_owner, describe_only, by_kernel)
}

/// As [`open_checking_links`]; without `by_kernel` as on kernels that have no openat2.
pub(in super::super) fn open_checking_links_by(
    path: &Path,
    from: usize,
    same_owner: bool,
    describe_only: bool,
    by_kernel: bool,
) -> io::Result<File> {
    let (start, rest) = path.as_os_str().as_bytes().split_at(from.min(path.as_os_str().len()));
    let rest = Path::new(OsStr::from_bytes(rest));
    let start = match start {
        b"" => None,
        start => Some(open_directory(Path::new(OsStr::from_bytes(start)))?),
    };
    // Below the part that is not checked the path is relative to it.
    let (at, rest) = match &start {
        Some(start) => (start.as_fd(), relative(rest)),
        None => (CWD, rest),
    };
    let last = if describe_only { LOOK } else { READ };
    let search = Search { last, by_kernel };
    let opened = match search.open(at, rest, search.last) {
        Err(Errno::LOOP) if same_owner => search.open_owned(at, rest),
        other => other,
    };
    Ok(opened?.into())
}

/// How one path is opened.
struct Search {
    /// Flags for its last name.
    last: OFlags,
    by_kernel: bool,
}

impl Search {
    /// Opens a path without any link.
    fn open(&self, at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.by_kernel {
            match open_plain(at, path, flags) {
                Err(Errno::NOSYS | Errno::PERM) if refuses_openat2(at) => {
                    NO_OPENAT2.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        match path.is_absolute() {
            true => walk(open_root()?.as_fd(), relative(path), flags),
            false => walk(at, path, flags),
        }
    }

    /// Opens a path with links that belong to the owner of their targets.
    fn open_owned(&self, at: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
        let bytes = path.as_os_str().as_bytes();
        let parts = bytes.split(|byte| *byte == b'/');
        let parts: Vec<&[u8]> = parts.filter(|part| !matches!(*part, b"" | b".")).collect();
        let slash = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        let last = if slash { self.last | OFlags::DIRECTORY } else { self.last };
        let mut rest = &parts[..];
        let mut here = match bytes.starts_with(b"/") {
            true => open_root()?,
            false => rustix::fs::openat(at, ".", DIRECTORY, Mode::empty())?,
        };
        for _ in 0..MAX_LINKS {
            let before = self.enter(&mut here, rest)?;
            let Some((name, behind)) = rest.get(before..).and_then(<[_]>::split_first) else {
                return self.open(here.as_fd(), Path::new("."), last);
            };
            let flags = if behind.is_empty() { last } else { DIRECTORY };
            let opened = follow_owned(&here, name, flags)?;
            if behind.is_empty() {
                return Ok(opened);
            }
            (here, rest) = (opened, behind);
            match self.open(here.as_fd(), &joined(rest), last) {
                Err(Errno::LOOP) => {}
                other => return other,
            }
        }
        Err(Errno::LOOP)
    }

    /// Descends to the directory that holds the first link among `parts`; returns the number of directories passed.
    fn enter(&self, here: &mut OwnedFd, parts: &[&[u8]]) -> rustix::io::Result<usize> {
        let (mut done, mut end) = (0, parts.len().saturating_sub(1));
        while done < end {
            let next = if self.by_kernel { (done + end).div_ceil(2) } else { done + 1 };
            match self.open(here.as_fd(), &joined(&parts[done..next]), DIRECTORY) {
                Ok(directory) => (*here, done) = (directory, next),
                Err(Errno::LOOP) => end = next - 1,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

fn open_plain(at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    loop {
        let resolve = ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(at, path, flags, Mode::empty(), resolve) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Whether openat2 itself is refused (absent, or forbidden by a sandbox), not only for this file.
fn refuses_openat2(at: BorrowedFd<'_>) -> bool {
    let probe = rustix::fs::openat2(at, ".", LOOK, Mode::empty(), ResolveFlags::BENEATH);
    matches!(probe, Err(Errno::NOSYS | Errno::PERM))
}

/// As [`open_plain`], one name at a time, for kernels without openat2.
fn walk(at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    // A slash at the end requires a directory, which the name `.` in it does as well.
    let ends_as_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
    let mut names =
        bytes.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).peekable();
    let mut here: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let directory = here.as_ref().map_or(at, AsFd::as_fd);
        if names.peek().is_none() && !ends_as_directory {
            return open_name(directory, name, flags);
        }
        here = Some(open_name(directory, name, DIRECTORY)?);
    }
    open_name(here.as_ref().map_or(at, AsFd::as_fd), b".", flags)
}

/// Opens the object of a name; a link is ELOOP, whatever the flags.
fn open_name(at: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let open = |flags| loop {
        match rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    };
    let opened = match open(flags) {
        // A link, a file, or a directory by now.
        Err(Errno::NOTDIR) if flags.contains(OFlags::DIRECTORY) => open(LOOK)?,
        Ok(opened) if flags.contains(OFlags::PATH) => opened,
        other => return other,
    };
    let stat = rustix::fs::fstat(&opened)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        FileType::Directory if flags.contains(OFlags::PATH) => Ok(opened),
        FileType::Directory => open(flags),
        _ if flags.contains(OFlags::DIRECTORY) => Err(Errno::NOTDIR),
        _ => Ok(opened),
    }
}

/// Opens the object of a name or, if it is a link with the same owner, its target.
fn follow_owned(here: &OwnedFd, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let name = OsStr::from_bytes(name);
    // Held open: neither owner nor target of this link can become another's.
    let link = rustix::fs::openat(here, name, LINK, Mode::empty())?;
    let Some(owner) = link_owner(&link)? else {
        // It was replaced since the first lookup; if it is a link once more, that is refused.
        return open_name(here.as_fd(), name.as_bytes(), flags);
    };
    let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
    let opened = rustix::fs::openat(here, &target, flags, Mode::empty())?;
    match rustix::fs::fstat(&opened)?.st_uid == owner {
        true => Ok(opened),
        false => Err(Errno::LOOP),
    }
}

/// Returns the owner of an open symbolic link; `None` for any other object.
fn link_owner(opened: &OwnedFd) -> rustix::io::Result<Option<u32>> {
    let stat = rustix::fs::fstat(opened)?;
    let link = FileType::from_raw_mode(stat.st_mode).is_symlink();
    Ok(link.then_some(stat.st_uid))
}

fn joined(parts: &[&[u8]]) -> PathBuf {
    parts.iter().map(|part| OsStr::from_bytes(part)).collect()
}

/// Returns the path without slashes at its start; one at its end stays, as it requires a directory.
fn relative(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let begin = bytes.iter().position(|byte| *byte != b'/').unwrap_or(bytes.len());
    Path::new(OsStr::from_bytes(bytes.get(begin..).unwrap_or_default()))
}

/// Opens a directory, links followed; that needs no permission but search.
fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    super::super::retry(|| rustix::fs::open(path, DIRECTORY, Mode::empty()))
}

fn open_root() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open("/", DIRECTORY, Mode::empty())
}

/// Flags for describing an object.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = LOOK.union(OFlags::DIRECTORY);
const LINK: OFlags = LOOK.union(OFlags::NOFOLLOW);
