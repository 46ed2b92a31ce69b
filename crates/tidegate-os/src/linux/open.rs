//! Opening files below a directory so that no name can lead out of it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::types::{OpenHow, Stat};

/// Whether an open file keeps its name from being given to another one.
pub const HOLDS_NAME: bool = false;

mod links;

pub use links::open_checking_links;
#[cfg(test)]
pub(super) use links::open_checking_links_by;

/// Symbolic links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Tries when a rename elsewhere makes the kernel give up on a `..`.
const MAX_RACES: usize = 8;

/// Set once the kernel (before 5.6) or a sandbox refused openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Set once the kernel (before 5.12) or a sandbox refused RESOLVE_CACHED.
static NO_CACHED: AtomicBool = AtomicBool::new(false);

/// Opens a directory as the start of [`open_beneath`]; reading it needs no permission but search.
///
/// # Errors
/// Absent, not a directory, no permission.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    super::retry(|| rustix::fs::open(path, flags, Mode::empty()))
}

/// Opens `path`, relative to a directory, without ever leaving that directory: neither `..` nor a
/// symbolic link leads out (RESOLVE_BENEATH). A FIFO or device does not make the call wait.
///
/// # Errors
/// `CrossesDevices` (EXDEV) for a path that leads out or is absolute, `FilesystemLoop` (ELOOP) for
/// a symbolic link where they are refused, and those of open.
pub fn open_beneath(directory: impl AsFd, path: &Path, how: &OpenHow) -> io::Result<File> {
    let directory = directory.as_fd();
    if !NO_OPENAT2.load(Ordering::Relaxed) {
        match open_by_kernel(directory, path, how) {
            Err(Errno::NOSYS | Errno::PERM) if refuses_openat2(directory) => {
                NO_OPENAT2.store(true, Ordering::Relaxed);
            }
            other => return Ok(other?.into()),
        }
    }
    Ok(open_by_steps(directory, path, how)?.into())
}

/// Opens a file for reading by its whole path, following links to anywhere, without waiting for
/// the other side of a FIFO: for names that the configuration gives.
///
/// # Errors
/// Those of open.
pub fn open_nonblock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(super::retry(|| rustix::fs::open(path, flags, Mode::empty()))?.into())
}

/// Opens a file for reading under its own name. Here every name is a file's own.
///
/// # Errors
/// As [`open_nonblock`].
#[inline]
pub fn open_own(path: &Path, _from: usize) -> io::Result<File> {
    open_nonblock(path)
}

/// Whether the kernel has all names of a path in memory, also one that does not exist, so that asking for it waits
/// for no disk (RESOLVE_CACHED, Linux 5.12). Where the kernel cannot tell, it is taken to have them.
pub fn is_remembered(path: &Path) -> bool {
    if NO_CACHED.load(Ordering::Relaxed) {
        return true;
    }
    let look = |path: &Path| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let (mode, resolve) = (Mode::empty(), ResolveFlags::CACHED);
        rustix::fs::openat2(rustix::fs::CWD, path, flags, mode, resolve).err()
    };
    let refused = |error| matches!(error, Some(Errno::NOSYS | Errno::INVAL | Errno::PERM));
    match look(path) {
        Some(Errno::AGAIN) => false,
        // It may also be the path that is invalid.
        error if refused(error) && refused(look(Path::new("/"))) => {
            NO_CACHED.store(true, Ordering::Relaxed);
            true
        }
        _ => true,
    }
}

/// Describes what is at a path, links followed, under its own name.
///
/// # Errors
/// Absent, no permission.
#[inline]
pub fn stat_own(path: &Path, _from: usize) -> io::Result<Stat> {
    super::file::stat(path, true)
}

/// Opens a path relative to a directory as nginx does by default: links may lead anywhere, but the
/// name itself must not contain `..` nor be absolute.
///
/// # Errors
/// `CrossesDevices` (EXDEV) for such a name, and those of open.
pub fn open_following(directory: impl AsFd, path: &Path, how: &OpenHow) -> io::Result<File> {
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Errno::XDEV.into());
    }
    let fd = super::retry(|| {
        rustix::fs::openat(directory.as_fd(), or_dot(path), open_flags(how), create_mode(how))
    })?;
    Ok(fd.into())
}

pub(super) fn open_by_kernel(
    directory: BorrowedFd<'_>,
    path: &Path,
    how: &OpenHow,
) -> rustix::io::Result<OwnedFd> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if how.no_symlinks {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    let mut races = 0;
    loop {
        let flags = open_flags(how);
        match rustix::fs::openat2(directory, or_dot(path), flags, create_mode(how), resolve) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if races < MAX_RACES => races += 1,
            other => return other,
        }
    }
}

/// The same walk as openat2's, one component at a time, for kernels without it.
pub(super) fn open_by_steps(
    directory: BorrowedFd<'_>,
    path: &Path,
    how: &OpenHow,
) -> rustix::io::Result<OwnedFd> {
    let steps = Steps {
        flags: open_flags(how),
        mode: create_mode(how),
        links: !how.no_symlinks,
        beneath: true,
    };
    walk(directory, path, steps)
}

/// How a path is walked.
#[derive(Clone, Copy)]
struct Steps {
    /// For the last name.
    flags: OFlags,
    mode: Mode,
    /// Links are followed.
    links: bool,
    /// `..` does not leave the folder where the walk begins.
    beneath: bool,
}

fn walk(directory: BorrowedFd<'_>, path: &Path, steps: Steps) -> rustix::io::Result<OwnedFd> {
    let mut walk = Walk { start: directory, opened: Vec::new(), links: 0 };
    let mut rest: VecDeque<OsString> = VecDeque::new();
    push_components(&mut rest, path.as_os_str())?;
    while let Some(name) = rest.pop_front() {
        if name == ".." && steps.beneath {
            walk.opened.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let last = rest.is_empty();
        let step = if last { walk.open_last(&name, steps) } else { walk.open_folder(&name) };
        match step {
            Ok(fd) if last => return Ok(fd),
            Ok(fd) => walk.opened.push(fd),
            // A link (O_NOFOLLOW).
            Err(Errno::LOOP) => {
                // What is no link any more is looked at again.
                let target = walk.read_link(&name).unwrap_or(name);
                walk.links += 1;
                if !steps.links || walk.links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                push_components(&mut rest, &target)?;
            }
            Err(error) => return Err(error),
        }
    }
    // The path ended with `..`, `.` or nothing: it names a folder that the walk stands in.
    walk.open_last(OsStr::new("."), steps)
}

struct Walk<'a> {
    start: BorrowedFd<'a>,
    opened: Vec<OwnedFd>,
    links: usize,
}

impl Walk<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.opened.last().map_or(self.start, |fd| fd.as_fd())
    }

    fn open_folder(&self, name: &OsStr) -> rustix::io::Result<OwnedFd> {
        self.open_name(name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    fn open_last(&self, name: &OsStr, steps: Steps) -> rustix::io::Result<OwnedFd> {
        self.open_name(name, steps.flags, steps.mode)
    }

    /// Opens what a name is; a link is ELOOP, whatever is wanted.
    fn open_name(&self, name: &OsStr, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let open = |flags| loop {
            match rustix::fs::openat(self.here(), name, flags | OFlags::NOFOLLOW, mode) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        };
        let looked = OFlags::PATH | OFlags::CLOEXEC;
        let opened = match open(flags) {
            // A link, a file, or by now a folder after all.
            Err(Errno::NOTDIR) if flags.contains(OFlags::DIRECTORY) => open(looked)?,
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

    fn read_link(&self, name: &OsStr) -> Option<OsString> {
        let target = rustix::fs::readlinkat(self.here(), name, Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()))
    }
}

/// Puts the components of `path` before the others. A slash at the end demands a folder, which a
/// final `.` component does.
fn push_components(rest: &mut VecDeque<OsString>, path: &OsStr) -> rustix::io::Result<()> {
    let bytes = path.as_bytes();
    if bytes.starts_with(b"/") {
        return Err(Errno::XDEV);
    }
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        rest.push_front(".".into());
    }
    let names = bytes.split(|byte| *byte == b'/').rev();
    for name in names.filter(|name| !name.is_empty() && *name != b".") {
        rest.push_front(OsStr::from_bytes(name).to_os_string());
    }
    Ok(())
}

/// Whether openat2 itself is refused (absent, or forbidden by a sandbox), not just this file.
fn refuses_openat2(directory: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let probe = rustix::fs::openat2(directory, ".", flags, Mode::empty(), ResolveFlags::BENEATH);
    matches!(probe, Err(Errno::NOSYS | Errno::PERM))
}

fn open_flags(how: &OpenHow) -> OFlags {
    let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let write = how.write || how.create;
    flags |= if write { OFlags::RDWR } else { OFlags::RDONLY };
    for (wanted, flag) in [
        (how.create, OFlags::CREATE),
        (how.create && how.exclusive, OFlags::EXCL),
        (write && how.truncate, OFlags::TRUNC),
        (how.directory, OFlags::DIRECTORY),
    ] {
        if wanted {
            flags |= flag;
        }
    }
    flags
}

/// openat2 refuses a mode unless a file may be created.
fn create_mode(how: &OpenHow) -> Mode {
    match how.mode {
        _ if !how.create => Mode::empty(),
        0 => Mode::RUSR | Mode::WUSR,
        mode => Mode::from_raw_mode(mode & 0o7777),
    }
}

fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}
