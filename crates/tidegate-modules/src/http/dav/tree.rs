//! Operations on files and directories, run on pool threads.
//!
//! A replacement is made beside its target under a hidden name and then renamed, so that a copy that fails half-way
//! leaves the target unchanged.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use tidegate_os::error::LINK_REFUSED;
use tidegate_os::file;

use super::fields::Depth;

/// Depth of nested directories that are copied: deeper ones are a loop of links, or an attack.
const DEPTH_MAX: usize = 256;

/// Why an operation failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub status: u16,
    /// Name of the failed call, or the rule that the path violates.
    pub call: &'static str,
    pub path: PathBuf,
    pub error: Option<io::Error>,
}

impl Failure {
    /// Makes the failure of a system call.
    pub(super) fn of(call: &'static str, path: &Path, error: io::Error) -> Failure {
        let status = match error.kind() {
            io::ErrorKind::NotFound => 404,
            io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::InvalidFilename => 409,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => 403,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 507,
            // There is no stable `ErrorKind` for a link that must not be followed.
            _ if error.raw_os_error() == Some(LINK_REFUSED) => 403,
            _ => 500,
        };
        Failure { status, call, path: path.to_path_buf(), error: Some(error) }
    }

    /// Makes the failure of a path that violates a rule.
    pub(super) fn rule(status: u16, what: &'static str, path: &Path) -> Failure {
        Failure { status, call: what, path: path.to_path_buf(), error: None }
    }

    /// Changes the status to 500 where the cause is not the request's path: 403 and the like would mislead.
    pub(super) fn of_server(mut self) -> Failure {
        if self.status != 507 {
            self.status = 500;
        }
        self
    }

    /// Changes the status to 409 where a parent directory is missing (RFC 4918 sections 9.3.1, 9.7.1, 9.8.5).
    fn or_conflict(mut self) -> Failure {
        if self.status == 404 {
            self.status = 409;
        }
        self
    }
}

/// A mapped path: its name and whether a directory is meant.
#[derive(Clone, Debug)]
pub(super) struct MappedPath {
    /// Path without trailing slashes.
    pub path: PathBuf,
    /// Whether the URI's path ends in a slash, which means a directory. The mapped path does not show it, as
    /// `alias` may add a slash.
    pub is_directory: bool,
}

impl MappedPath {
    pub(super) fn of(path: &[u8], uri: &[u8]) -> MappedPath {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let bare = if end == 0 { path } else { path.get(..end).unwrap_or(path) };
        MappedPath { path: super::path_of(bare), is_directory: uri.ends_with(b"/") }
    }
}

/// Removes a file, a link, or a directory with its contents. Links are removed, not followed.
pub(super) fn delete(place: &MappedPath, depth: Depth) -> Result<(), Failure> {
    let path = &*place.path;
    let stat = "lstat()";
    let metadata = fs::symlink_metadata(path).map_err(|error| Failure::of(stat, path, error))?;
    if metadata.is_dir() {
        if !place.is_directory {
            return Err(Failure::rule(409, "is a directory, whose path ends in a slash", path));
        }
        if depth != Depth::Infinity {
            return Err(Failure::rule(400, "is a directory: \"Depth\" must be infinity", path));
        }
        return fs::remove_dir_all(path).map_err(|error| Failure::of("rmdir()", path, error));
    }
    if place.is_directory && !leads_to_directory(path, &metadata) {
        return Err(Failure::rule(409, "is not a directory", path));
    }
    if depth == Depth::One {
        return Err(Failure::rule(400, "is a file: \"Depth\" must be 0 or infinity", path));
    }
    fs::remove_file(path).map_err(|error| Failure::of("unlink()", path, error))
}

fn leads_to_directory(path: &Path, metadata: &Metadata) -> bool {
    metadata.is_symlink() && fs::metadata(path).is_ok_and(|target| target.is_dir())
}

/// Makes one directory.
pub(super) fn make_directory(path: &Path, mode: u32) -> Result<(), Failure> {
    create_directory(path, mode).map_err(|error| {
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        let mut failure = Failure::of("mkdir()", path, error).or_conflict();
        if exists {
            failure.status = 405;
        }
        failure
    })
}

/// Makes a directory and its missing parents.
pub(super) fn make_directories(path: &Path, mode: u32) -> io::Result<()> {
    match create_directory(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            make_directories(parent.ok_or(error)?, mode)?;
            make_directories_beneath(path, mode)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

fn make_directories_beneath(path: &Path, mode: u32) -> io::Result<()> {
    match create_directory(path, mode) {
        // Another thread or process made it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Makes a directory with this mode, regardless of the process's umask.
fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    file::create_directory(path, 0o700, false)?;
    file::set_path_mode(path, mode)
}

/// A COPY or MOVE.
pub(super) struct Transfer {
    pub from: MappedPath,
    pub to: MappedPath,
    pub is_move: bool,
    pub depth: Depth,
    pub overwrite: bool,
    /// `disable_symlinks`: a directory that contains a link is not copied.
    pub refuse_links: bool,
    /// Mode of the parent directories that MOVE creates.
    pub directory_mode: u32,
}

impl Transfer {
    /// Runs the operation. Returns the status of its success: 201 for directories, 204 for files.
    pub(super) fn run(&self) -> Result<u16, Failure> {
        let (from, to) = (&*self.from.path, &*self.to.path);
        let found = fs::metadata(from).map_err(|error| Failure::of("stat()", from, error))?;
        match (found.is_dir(), self.from.is_directory) {
            (true, false) => return Err(Failure::rule(400, "must be a collection", from)),
            (false, true) => return Err(Failure::rule(404, "is not a directory", from)),
            _ => {}
        }
        let existing = fs::symlink_metadata(to).ok();
        if existing.is_some() && !self.overwrite {
            return Err(Failure::rule(412, "exists and must not be overwritten", to));
        }
        if !self.from.is_directory {
            if existing.is_some_and(|existing| existing.is_dir()) {
                return Err(Failure::rule(409, "could not be overwritten: it is a directory", to));
            }
            return self.transfer_file().map(|()| 204);
        }
        refuse_overlap(from, to)?;
        self.transfer_directory(existing.is_some()).map(|()| 201)
    }

    fn transfer_file(&self) -> Result<(), Failure> {
        let (from, to) = (&*self.from.path, &*self.to.path);
        if !self.is_move {
            return replace_by_copy(from, to).map_err(|error| copy_failure(to, error));
        }
        self.rename_or(|| {
            replace_by_copy(from, to)?;
            fs::remove_file(from)
        })
    }

    fn transfer_directory(&self, replaces: bool) -> Result<(), Failure> {
        let (from, to) = (&*self.from.path, &*self.to.path);
        let aside = replaces.then(|| beside(to));
        if self.is_move {
            if let Some(aside) = &aside {
                fs::rename(to, aside).map_err(|error| Failure::of("rename()", to, error))?;
            }
            let moved = self.rename_or(|| {
                self.copy_directory(from, to, Links::Keep)?;
                fs::remove_dir_all(from)
            });
            if let (Err(_), Some(aside)) = (&moved, &aside) {
                // A copy that was placed is complete, though the source could not be removed.
                let _ = match fs::symlink_metadata(to) {
                    Ok(_) => remove(aside),
                    Err(_) => fs::rename(aside, to),
                };
            }
            moved?;
        } else {
            let links = if self.refuse_links { Links::Refuse } else { Links::Follow };
            self.copy_directory(from, to, links).map_err(|error| copy_failure(to, error))?;
        }
        match aside.filter(|_| self.is_move) {
            Some(aside) => remove(&aside).map_err(|error| Failure::of("rmdir()", &aside, error)),
            None => Ok(()),
        }
    }

    /// Renames the source; `copy` replaces it across file systems. Missing parent directories are made, as in
    /// nginx.
    fn rename_or(&self, copy: impl Fn() -> io::Result<()>) -> Result<(), Failure> {
        let (from, to) = (&*self.from.path, &*self.to.path);
        let mut renamed = fs::rename(from, to);
        if renamed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
            && let Some(parent) = to.parent()
        {
            make_directories(parent, self.directory_mode)
                .map_err(|error| Failure::of("mkdir()", parent, error).or_conflict())?;
            renamed = fs::rename(from, to);
        }
        match renamed {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                copy().map_err(|error| copy_failure(to, error))
            }
            other => other.map_err(|error| Failure::of("rename()", to, error).or_conflict()),
        }
    }

    /// Copies a directory beside its target and renames it.
    fn copy_directory(&self, from: &Path, to: &Path, links: Links) -> io::Result<()> {
        let made = beside(to);
        let copied = match self.depth {
            Depth::Infinity => copy_tree(from, &made, links, &mut Vec::new()),
            // Only the directory itself (RFC 4918 section 9.8.3).
            Depth::Zero | Depth::One => copy_directory_alone(from, &made),
        };
        let placed = copied.and_then(|()| put_in_place(&made, to));
        if placed.is_err() {
            let _ = remove_tree(&made);
        }
        placed
    }
}

fn copy_failure(to: &Path, error: io::Error) -> Failure {
    Failure::of("copying to", to, error).or_conflict()
}

/// Refuses to put a directory into itself, or in place of one that contains it (RFC 4918 section 9.8.5).
fn refuse_overlap(from: &Path, to: &Path) -> Result<(), Failure> {
    let stat = |path: &Path, error| Failure::of("stat()", path, error);
    let real_from = fs::canonicalize(from).map_err(|error| stat(from, error))?;
    let real_to = match fs::canonicalize(to) {
        Ok(real) => real,
        // A missing target cannot contain the source, but its parents may be inside of it.
        Err(_) => real_parent(to),
    };
    if real_to.starts_with(&real_from) || (real_from.starts_with(&real_to) && to.exists()) {
        return Err(Failure::rule(403, "source and destination are in one another", to));
    }
    Ok(())
}

/// Returns the real path of the nearest existing parent.
fn real_parent(path: &Path) -> PathBuf {
    path.ancestors()
        .skip(1)
        .find_map(|directory| fs::canonicalize(directory).ok())
        .unwrap_or_default()
}

/// Renames the new directory to its target, after it has moved an existing one out of the way.
fn put_in_place(made: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_err() {
        return fs::rename(made, to);
    }
    let aside = beside(to);
    fs::rename(to, &aside)?;
    if let Err(error) = fs::rename(made, to) {
        let _ = fs::rename(&aside, to);
        return Err(error);
    }
    remove(&aside)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true => remove_tree(path),
        false => fs::remove_file(path),
    }
}

/// Removes a directory with its contents, those of directories that may not be written to as well: a copy has them as its
/// source has, and must not be left behind. Links are not followed.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mut waiting = vec![path.to_path_buf()];
            while let Some(directory) = waiting.pop() {
                file::set_path_mode(&directory, 0o700)?;
                for entry in fs::read_dir(&directory)? {
                    let entry = entry?;
                    if entry.file_type()?.is_dir() {
                        waiting.push(entry.path());
                    }
                }
            }
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Returns an unused hidden name in the same directory.
fn beside(path: &Path) -> PathBuf {
    let mut random = [0; 8];
    tidegate_rt::random::unpredictable(&mut random);
    path.with_file_name(format!(".dav-{:016x}", u64::from_ne_bytes(random)))
}

/// Copies a file with its mode and time, and replaces the target by a rename.
pub(super) fn replace_by_copy(from: &Path, to: &Path) -> io::Result<()> {
    let made = beside(to);
    let copied = copy_file(from, &made).and_then(|()| fs::rename(&made, to));
    if copied.is_err() {
        let _ = fs::remove_file(&made);
    }
    copied
}

/// Copies a regular file with its mode and time to a new file.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    // Opening a pipe would block the thread.
    let mut source = tidegate_os::open::open_nonblock(from)?;
    let metadata = source.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "not a regular file"));
    }
    // Private until its permissions are known.
    let mut options = File::options();
    options.write(true).create_new(true);
    let mut target = file::with_mode(&mut options, 0o600).open(to)?;
    io::copy(&mut source, &mut target)?;
    file::set_mode(&target, file::mode(&metadata) & 0o777)?;
    target.set_modified(metadata.modified()?)
}

/// The treatment of links in a copied directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    /// Their targets are copied.
    Follow,
    /// They are copied as links.
    Keep,
    Refuse,
}

/// Copies a directory with its contents. `way` lists the directories on the path from the top of the copy, to
/// detect loops.
fn copy_tree(from: &Path, to: &Path, links: Links, way: &mut Vec<(u64, u64)>) -> io::Result<()> {
    let metadata = fs::metadata(from)?;
    let stat = file::stat(from, true)?;
    let identity = (stat.device, stat.inode);
    if way.len() >= DEPTH_MAX || way.contains(&identity) {
        return Err(io::Error::from_raw_os_error(LINK_REFUSED));
    }
    way.push(identity);
    create_directory(to, 0o700)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            match links {
                Links::Refuse => return Err(io::Error::from_raw_os_error(LINK_REFUSED)),
                Links::Keep => {
                    file::copy_link(&source, &target)?;
                    continue;
                }
                Links::Follow => {}
            }
        }
        match kind.is_dir() || (kind.is_symlink() && source.is_dir()) {
            true => copy_tree(&source, &target, links, way)?,
            false => copy_file(&source, &target)?,
        }
    }
    way.pop();
    like(to, &metadata)
}

fn copy_directory_alone(from: &Path, to: &Path) -> io::Result<()> {
    create_directory(to, 0o700)?;
    like(to, &fs::metadata(from)?)
}

/// Gives a directory the mode and time in `metadata`.
fn like(path: &Path, metadata: &Metadata) -> io::Result<()> {
    file::set_path_mode(path, file::mode(metadata) & 0o777)?;
    file::set_modified(path, metadata.modified()?)
}
