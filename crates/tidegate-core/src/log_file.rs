//! Log files that can be reopened while they are written: `USR1`, `-s reopen`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;

/// A log file; each write is one system call in append mode, so lines of several threads do not mix.
pub struct LogFile {
    path: PathBuf,
    file: ArcSwap<File>,
}

impl LogFile {
    /// Wraps an open file.
    pub fn new(path: PathBuf, file: File) -> LogFile {
        LogFile { path, file: ArcSwap::from_pointee(file) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes whole lines; a full disk loses them, as a log must not stop the server.
    pub fn write(&self, lines: &[u8]) {
        let file = self.file.load();
        let _ = (&**file).write_all(lines);
    }

    /// Goes on with another file descriptor.
    pub fn replace(&self, file: File) {
        self.file.store(Arc::new(file));
    }
}

/// Opens a log for appending, creating it.
pub fn open_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    tidegate_os::file::with_mode(&mut options, 0o644).open(path)
}

/// All open log files of the process, one for each path.
#[derive(Default)]
pub struct LogFiles {
    files: Mutex<Vec<Weak<LogFile>>>,
}

impl LogFiles {
    /// The open file of `path`, opened by `open` if it is not yet.
    pub fn open(
        &self,
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<File>,
    ) -> io::Result<Arc<LogFile>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.strong_count() > 0);
        if let Some(file) = files.iter().filter_map(Weak::upgrade).find(|file| file.path == path) {
            return Ok(file);
        }
        let file = Arc::new(LogFile::new(path.to_path_buf(), open(path)?));
        files.push(Arc::downgrade(&file));
        Ok(file)
    }

    /// The files that are in use.
    pub fn in_use(&self) -> Vec<Arc<LogFile>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().filter_map(Weak::upgrade).collect()
    }

    /// Reopens all by `open`; answers what failed, whose old descriptors stay in use.
    pub fn reopen(
        &self,
        mut open: impl FnMut(&Path) -> io::Result<File>,
    ) -> Vec<(PathBuf, io::Error)> {
        let mut failed = Vec::new();
        for log in self.in_use() {
            match open(&log.path) {
                Ok(file) => log.replace(file),
                Err(error) => failed.push((log.path.clone(), error)),
            }
        }
        failed
    }
}
