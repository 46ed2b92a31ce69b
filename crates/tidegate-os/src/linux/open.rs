//! Opening files below a directory so that no name can lead out of it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::types::OpenHow;

/// Symbolic links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Tries when a rename elsewhere makes the kernel give up on a `..`.
const MAX_RACES: usize = 8;

/// Set once the kernel (before 5.6) or a sandbox refused openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

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

/// Opens a path for reading where symbolic links below `from` bytes of it are refused, or must
/// belong to the owner of what they point to (`disable_symlinks`). With `describe_only` the
/// descriptor can only be described (fstat), and nothing is really opened: no FIFO's writer and no
/// device notices.
///
/// # Errors
/// `FilesystemLoop` (ELOOP) for a link that is not allowed, and those of open.
pub fn open_checking_links(
    path: &Path,
    from: usize,
    same_owner: bool,
    describe_only: bool,
) -> io::Result<File> {
    let bytes = path.as_os_str().as_bytes();
    let (start, rest) = bytes.split_at(from.min(bytes.len()));
    let start = if start.is_empty() && bytes.starts_with(b"/") { b"/" } else { start };
    let start = open_directory(or_dot(Path::new(OsStr::from_bytes(start))))?;
    let first = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
    let rest = Path::new(OsStr::from_bytes(rest.get(first..).unwrap_or_default()));
    let last = if describe_only { OFlags::PATH } else { open_flags(&OpenHow::default()) };
    let last = last | OFlags::CLOEXEC;
    if same_owner {
        return Ok(open_same_owner(start, rest, last)?.into());
    }
    if !NO_OPENAT2.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&start, or_dot(rest), last, Mode::empty(), resolve) {
            Err(Errno::NOSYS | Errno::PERM) if refuses_openat2(start.as_fd()) => {
                NO_OPENAT2.store(true, Ordering::Relaxed);
            }
            other => return Ok(other?.into()),
        }
    }
    let how = OpenHow { no_symlinks: true, ..OpenHow::default() };
    Ok(open_by_steps(start.as_fd(), rest, &how)?.into())
}

/// Walks component by component; a link's owner must be that of what it leads to.
fn open_same_owner(start: OwnedFd, path: &Path, last: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut here = start;
    let mut parts = path.components().peekable();
    let slash_ends = path.as_os_str().as_bytes().ends_with(b"/");
    if parts.peek().is_none() {
        return rustix::fs::openat(&here, ".", last, Mode::empty());
    }
    while let Some(part) = parts.next() {
        let name = part.as_os_str();
        let flags = match parts.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None if slash_ends => last | OFlags::DIRECTORY,
            None => last,
        };
        let next = rustix::fs::openat(&here, name, flags, Mode::empty())?;
        let named = rustix::fs::statat(&here, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        let link = rustix::fs::FileType::from_raw_mode(named.st_mode).is_symlink();
        if link && named.st_uid != rustix::fs::fstat(&next)?.st_uid {
            return Err(Errno::LOOP);
        }
        here = next;
    }
    Ok(here)
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
    let mut walk = Walk { start: directory, opened: Vec::new(), links: 0 };
    let mut rest: VecDeque<OsString> = VecDeque::new();
    push_components(&mut rest, path.as_os_str())?;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            walk.opened.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let last = rest.is_empty();
        let step = if last { walk.open_last(&name, how) } else { walk.open_folder(&name) };
        match step {
            Ok(fd) if last => return Ok(fd),
            Ok(fd) => walk.opened.push(fd),
            // A link answers ELOOP (O_NOFOLLOW) or, where a folder was wanted, ENOTDIR.
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => {
                let target = walk.read_link(&name).ok_or(error)?;
                walk.links += 1;
                if how.no_symlinks || walk.links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                push_components(&mut rest, &target)?;
            }
            Err(error) => return Err(error),
        }
    }
    // The path ended with `..`, `.` or nothing: it names a folder that the walk stands in.
    walk.open_last(OsStr::new("."), how)
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
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(self.here(), name, flags, Mode::empty())
    }

    fn open_last(&self, name: &OsStr, how: &OpenHow) -> rustix::io::Result<OwnedFd> {
        loop {
            let flags = open_flags(how) | OFlags::NOFOLLOW;
            match rustix::fs::openat(self.here(), name, flags, create_mode(how)) {
                Err(Errno::INTR) => {}
                other => return other,
            }
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
