//! Log files that can be reopened while they are in use: `USR1`, `-s reopen`.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use tidegate_os::open::append_at_once;
use tidegate_rt::iteration;

/// A log file. Each write is one system call in append mode, so lines of several threads do not mix.
pub struct LogFile {
    path: PathBuf,
    file: ArcSwap<File>,
}

/// Shows the path.
impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.path, f)
    }
}

impl LogFile {
    /// Wraps an open file.
    pub fn new(path: PathBuf, file: File) -> LogFile {
        LogFile { path, file: ArcSwap::from_pointee(file) }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes whole lines; with a full disk they are lost, as a log must not stop the server.
    pub fn write(&self, lines: &[u8]) {
        let file = self.file.load();
        let _ = (&**file).write_all(lines);
    }

    /// Writes a whole line at the end of the event-loop iteration, together with the iteration's other lines: a busy
    /// loop makes one system call for many lines. On threads without an event loop the line is written at once.
    pub fn write_at_iteration_end(self: &Arc<LogFile>, line: &[u8]) {
        PENDING_LINES.with_borrow_mut(|gathered| gathered.add(self, line));
    }

    /// Writes to another file descriptor from now on.
    pub fn replace(&self, file: File) {
        self.file.store(Arc::new(file));
    }
}

/// Lines of one thread that wait for the end of the event-loop iteration.
#[derive(Default)]
struct PendingLines {
    files: Vec<(Arc<LogFile>, Vec<u8>)>,
    /// An emptied buffer of an earlier iteration.
    spare: Vec<u8>,
}

/// Most bytes of one write: a pipe does not mix these with another writer's (`PIPE_BUF`).
const PENDING_BYTES_MAX: usize = 4096;

thread_local! {
    static PENDING_LINES: RefCell<PendingLines> = RefCell::default();
}

impl PendingLines {
    fn add(&mut self, file: &Arc<LogFile>, line: &[u8]) {
        if self.files.is_empty() && !iteration::at_end(write_pending_lines) {
            return file.write(line);
        }
        let place = match self.files.iter().position(|(known, _)| Arc::ptr_eq(known, file)) {
            Some(place) => place,
            None => {
                self.files.push((file.clone(), std::mem::take(&mut self.spare)));
                self.files.len() - 1
            }
        };
        let (file, lines) = &mut self.files[place];
        if lines.len() + line.len() > PENDING_BYTES_MAX {
            file.write(lines);
            lines.clear();
        }
        lines.extend_from_slice(line);
    }

    fn write(&mut self) {
        for (file, mut lines) in self.files.drain(..) {
            file.write(&lines);
            if lines.len() <= PENDING_BYTES_MAX {
                lines.clear();
                self.spare = lines;
            }
        }
    }
}

/// Writes this thread's waiting lines before the iteration's end.
pub fn write_pending_lines() {
    PENDING_LINES.with_borrow_mut(PendingLines::write);
}

/// Opens a log for appending; creates it with mode 0644. It waits for the reader of a FIFO.
pub fn open_append(path: &Path) -> io::Result<File> {
    open_with_mode(path, 0o644)
}

fn open_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    tidegate_os::file::with_mode(&mut options, mode).open(path)
}

/// All open log files of the process, one per path.
#[derive(Default)]
pub struct LogFiles {
    files: Mutex<FileTable>,
    /// Paths of files with secrets.
    private: Mutex<HashSet<PathBuf>>,
}

#[derive(Default)]
struct FileTable {
    by_path: HashMap<PathBuf, Weak<LogFile>>,
    /// Number of entries at which those of closed files are removed. It doubles with the table, so that the work per
    /// entry is bounded.
    clean_at: usize,
}

impl FileTable {
    fn clean(&mut self) {
        if self.by_path.len() >= self.clean_at {
            self.by_path.retain(|_, file| file.strong_count() > 0);
            self.clean_at = (2 * self.by_path.len()).max(KNOWN_MIN);
        }
    }
}

/// Fewer entries than this are not cleaned.
const KNOWN_MIN: usize = 64;

impl LogFiles {
    /// Returns the open file of `path`; opens it by `open` at the first call.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open(
        &self,
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<File>,
    ) -> io::Result<Arc<LogFile>> {
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = known.by_path.get(path).and_then(Weak::upgrade) {
            return Ok(file);
        }
        known.clean();
        let file = Arc::new(LogFile::new(path.to_path_buf(), open(path)?));
        known.by_path.insert(path.to_path_buf(), Arc::downgrade(&file));
        Ok(file)
    }

    /// Notes that a file has secrets: [`LogFiles::append`] creates it for its owner alone.
    pub fn make_private(&self, path: &Path) {
        let mut private = self.private.lock().unwrap_or_else(PoisonError::into_inner);
        private.insert(path.to_path_buf());
    }

    /// Opens a file for appending; creates it with mode 0644, or 0600 if it is private. It waits for the reader of a FIFO.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append(&self, path: &Path) -> io::Result<File> {
        open_with_mode(path, self.mode(path))
    }

    /// As [`LogFiles::append`], in a server that runs: it must not stop for a log.
    ///
    /// # Errors
    /// Those of the file system, and a FIFO that has no reader.
    pub fn append_at_once(&self, path: &Path) -> io::Result<File> {
        append_at_once(path, self.mode(path))
    }

    fn mode(&self, path: &Path) -> u32 {
        let private = self.private.lock().unwrap_or_else(PoisonError::into_inner);
        if private.contains(path) { 0o600 } else { 0o644 }
    }

    /// Returns the files in use by path.
    pub fn by_path(&self) -> HashMap<PathBuf, Arc<LogFile>> {
        self.in_use().into_iter().map(|file| (file.path.clone(), file)).collect()
    }

    /// Returns the files in use.
    pub fn in_use(&self) -> Vec<Arc<LogFile>> {
        let known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_path.values().filter_map(Weak::upgrade).collect()
    }

    /// Reopens all files. Returns paths and errors of those that failed; their old descriptors stay in use.
    pub fn reopen(&self) -> Vec<(PathBuf, io::Error)> {
        let mut failed = Vec::new();
        for log in self.in_use() {
            match self.append_at_once(&log.path) {
                Ok(file) => log.replace(file),
                Err(error) => failed.push((log.path.clone(), error)),
            }
        }
        failed
    }
}
