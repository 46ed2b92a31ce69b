//! The directory of a running case: making and changing files, reading them for conditions, and
//! ringing the bell when anything in it changes.

use crate::bell::Failure;
use crate::origin::Shared;
use crate::syntax::FileOp;
use rustix::fs::{CWD, Mode, inotify, mkfifoat};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Directories below this depth are not watched.
const DEPTH_MAX: usize = 8;

/// A case's directory with its watch.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Its path.
    pub path: PathBuf,
    watch: Arc<OwnedFd>,
    watched: BTreeSet<PathBuf>,
}

impl Directory {
    /// Watches `path`; each change rings the bell. The watching thread ends with the process or
    /// at the first change after the case is over (the removal of the directory is one).
    pub(crate) fn new(path: PathBuf, shared: Arc<Shared>) -> Result<Self, Failure> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC)
            .map_err(|error| Failure::new(format!("inotify: {error}")))?;
        let watch = Arc::new(watch);
        let events = Arc::clone(&watch);
        std::thread::spawn(move || {
            let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(&*events, &mut buffer);
            while reader.next().is_ok() {
                shared.bell.ring();
                if shared.over.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
            }
        });
        let mut directory = Self { path, watch, watched: BTreeSet::new() };
        directory.watch_all();
        Ok(directory)
    }

    /// Adds watches for new directories.
    pub(crate) fn watch_all(&mut self) {
        use inotify::WatchFlags as Flags;
        let mut directories = vec![(self.path.clone(), 0)];
        while let Some((path, depth)) = directories.pop() {
            if !self.watched.contains(&path) {
                let flags = Flags::MODIFY
                    | Flags::CREATE
                    | Flags::DELETE
                    | Flags::MOVED_TO
                    | Flags::MOVED_FROM
                    | Flags::DELETE_SELF;
                if inotify::add_watch(&*self.watch, &path, flags).is_ok() {
                    self.watched.insert(path.clone());
                }
            }
            let Ok(entries) = std::fs::read_dir(&path) else { continue };
            let below = entries.flatten().filter(|entry| {
                depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir())
            });
            directories.extend(below.map(|entry| (entry.path(), depth + 1)));
        }
    }

    /// Returns the content of a file, lossy; empty when it does not exist.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path.join(name)).unwrap_or_default()
    }

    /// Whether a file exists.
    pub(crate) fn exists(&self, name: &str) -> bool {
        std::fs::symlink_metadata(self.path.join(name)).is_ok()
    }

    /// Returns the size of a file in bytes; 0 when it does not exist.
    pub(crate) fn size(&self, name: &str) -> u64 {
        std::fs::metadata(self.path.join(name)).map_or(0, |metadata| metadata.len())
    }

    /// Octal permissions of a file or directory, as a decimal number; with `/*` at the end those of a file below.
    pub(crate) fn mode(&self, name: &str) -> Option<i64> {
        let path = match name.strip_suffix("/*") {
            Some(directory) => self.files(directory).into_iter().next()?,
            None => self.path.join(name),
        };
        let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o7777;
        format!("{mode:o}").parse().ok()
    }

    /// Files below a directory, but for those whose name begins with a dot: what a server keeps there
    /// for itself.
    pub(crate) fn files(&self, name: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.path.join(name), 0, &mut found);
        found
    }

    /// Applies one change.
    pub(crate) fn apply(&self, op: &FileOp) -> Result<(), Failure> {
        self.change(op).map_err(|error| Failure::new(format!("{op:?}: {error}")))
    }

    fn change(&self, op: &FileOp) -> std::io::Result<()> {
        use std::io::{Seek, Write};
        let at = |name: &str| self.path.join(name);
        match op {
            FileOp::Write(name, content) => write_new(&at(name), content),
            FileOp::Append(name, content) => {
                std::fs::OpenOptions::new().append(true).open(at(name))?.write_all(content)
            }
            FileOp::Delete(name) if at(name).is_dir() => std::fs::remove_dir_all(at(name)),
            FileOp::Delete(name) => std::fs::remove_file(at(name)),
            FileOp::Directory(name) => open_directories(&at(name)),
            FileOp::Fifo(name) => Ok(mkfifoat(CWD, at(name), Mode::from_raw_mode(0o666))?),
            FileOp::Link(name, target) => std::os::unix::fs::symlink(target, at(name)),
            FileOp::Move(name, to) => std::fs::rename(at(name), at(to)),
            FileOp::Time(name, seconds) => std::fs::File::open(at(name))?
                .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(*seconds)),
            FileOp::Mode(name, mode) => {
                std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(*mode))
            }
            FileOp::Truncate(name, size) => self.files(name).iter().try_for_each(|path| {
                std::fs::OpenOptions::new().write(true).open(path)?.set_len(*size)
            }),
            FileOp::Overwrite(name, offset, content) => {
                self.files(name).iter().try_for_each(|path| {
                    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
                    file.seek(std::io::SeekFrom::Start(*offset))?;
                    file.write_all(content)
                })
            }
        }
    }
}

/// Writes a file and the directories above it, writable for any user: the server's workers may run
/// as another one.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        open_directories(parent)?;
    }
    std::fs::write(path, content)
}

/// Makes a directory and those above it, writable for any user.
pub(crate) fn open_directories(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        open_directories(parent)?;
    }
    std::fs::create_dir(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
}

fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_owned());
    } else if depth < DEPTH_MAX
        && let Ok(entries) = std::fs::read_dir(path)
    {
        let is_shown = |name: &std::ffi::OsStr| !name.as_encoded_bytes().starts_with(b".");
        for entry in entries.flatten().filter(|entry| is_shown(&entry.file_name())) {
            collect(&entry.path(), depth + 1, found);
        }
    }
}
