//! Logs whose names depend on the request. Files that can be written without waiting are written at once, as other
//! logs are; a pool thread opens and creates those that may wait for a disk.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tidegate_core::error_log::ErrorLog;
use tidegate_core::log_context::with_context;
use tidegate_core::log_file::open_append;
use tidegate_core::{Exchange, Level, Template, blocking, file_path};
use tidegate_os::os_error;
use tidegate_os::{FileKind, Stat, file, open, path};
use tidegate_rt::clock;
use tidegate_rt::sync::oneshot;

use super::open_files::OpenFiles;

/// Bytes of lines that may wait for a disk; further ones are written by the event loop itself.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// One `access_log` with variables in its name.
pub(super) struct VariableLog {
    path: Template,
    prefix: String,
    files: Arc<Files>,
}

/// Shows the settings.
impl fmt::Debug for VariableLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.path, self.files.kept.as_ref().map(OpenFiles::limits)).fmt(f)
    }
}

struct Files {
    kept: Option<OpenFiles>,
    waiting: Mutex<PendingLines>,
    /// Time of the last logged failure, seconds since 1970.
    last_failure: AtomicI64,
}

/// The lines that a pool thread is to write, in this order.
#[derive(Default)]
struct PendingLines {
    lines: Vec<PendingLine>,
    bytes: usize,
    /// Whether a pool thread is writing; later lines are then appended behind its own.
    is_served: bool,
}

struct PendingLine {
    /// The request's root directory, where it must exist.
    root: Option<PathBuf>,
    path: PathBuf,
    text: Vec<u8>,
    /// Dropped when the line is written, which its connection waits for.
    _written: oneshot::Sender<()>,
    /// Error log for failures.
    log: ErrorLog,
    number: u64,
    context: String,
}

impl VariableLog {
    pub(super) fn new(path: Template, prefix: String, kept: Option<OpenFiles>) -> VariableLog {
        let (waiting, last_failure) = (Mutex::default(), AtomicI64::new(0));
        VariableLog { path, prefix, files: Arc::new(Files { kept, waiting, last_failure }) }
    }

    pub(super) fn write(&self, x: &mut Exchange, text: &[u8], now: Instant) {
        let name = self.path.value(x);
        let path = Path::new(&self.prefix).join(path::of(&name));
        let root = x.session().is_none().then(|| {
            let mut root = Vec::new();
            file_path::append_root(x, &mut root);
            path::of_vec(root)
        });
        let own_from = if path.starts_with(&self.prefix) { self.prefix.len() } else { 0 };
        let place = path::check(&path, own_from)
            .map_err(|error| VariableLogError::Open(path.clone(), error));
        match place.and_then(|()| self.files.at_once(root.as_deref(), &path, now)) {
            Ok(Some(file)) => append(&file, text),
            Ok(None) => {
                let (written, logging) = oneshot::channel();
                x.outcome.logging = Some(logging);
                self.files.write_behind(PendingLine {
                    root,
                    path,
                    text: text.to_vec(),
                    _written: written,
                    log: x.settings().error_log.clone(),
                    number: x.connection.number,
                    context: with_context(x, format_args!("")),
                });
            }
            Err(error) if self.files.may_log_failure(clock::unix_seconds()) => {
                x.log(Level::Crit, format_args!("{error}"));
            }
            Err(_) => {}
        }
    }
}

impl Files {
    /// Returns the open file if neither a disk nor earlier lines have to be waited for.
    fn at_once(
        &self,
        root: Option<&Path>,
        path: &Path,
        now: Instant,
    ) -> Result<Option<Arc<File>>, VariableLogError> {
        if self.waiting().is_served {
            return Ok(None);
        }
        if let Some(root) = root {
            let Some(found) = open::stat_if_cached(root, root.as_os_str().len()) else {
                return Ok(None);
            };
            check_root(root, found)?;
        }
        Ok(match &self.kept {
            // A write to a FIFO may wait for its reader.
            Some(kept) => kept
                .known(path, now)
                .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file())),
            None => open::append_if_cached(path).map(Arc::new),
        })
    }

    fn write_behind(self: &Arc<Files>, line: PendingLine) {
        let mut waiting = self.waiting();
        if waiting.bytes + line.text.len() > WAITING_BYTES_MAX {
            drop(waiting);
            return self.write_line(&line, clock::exact_now());
        }
        waiting.bytes += line.text.len();
        waiting.lines.push(line);
        if std::mem::replace(&mut waiting.is_served, true) {
            return;
        }
        drop(waiting);
        let files = self.clone();
        blocking::detach(move || files.serve());
    }

    /// Writes the waiting lines; lines that are there at the same time share one reading of the clock. Blocks.
    fn serve(&self) {
        loop {
            let mut waiting = self.waiting();
            let PendingLines { lines, .. } = std::mem::take(&mut *waiting);
            waiting.is_served = !lines.is_empty();
            drop(waiting);
            if lines.is_empty() {
                return;
            }
            let now = clock::exact_now();
            lines.into_iter().for_each(|line| self.write_line(&line, now));
        }
    }

    /// Writes one line. Blocks.
    fn write_line(&self, line: &PendingLine, now: Instant) {
        if let Err(error) = self.try_line(line, now)
            && self.may_log_failure(clock::unix_seconds())
        {
            line.log.write(Level::Crit, line.number, &format!("{error}{}", line.context));
        }
    }

    fn try_line(&self, line: &PendingLine, now: Instant) -> Result<(), VariableLogError> {
        if let Some(root) = &line.root {
            check_root(root, file::stat(root, true))?;
        }
        let file = match &self.kept {
            Some(kept) => kept.open(&line.path, now),
            None => open_append(&line.path).map(Arc::new),
        };
        let file = file.map_err(|error| VariableLogError::Open(line.path.clone(), error))?;
        append(&file, &line.text);
        Ok(())
    }

    /// Returns whether a failure may be logged: at most one a minute, as requests must not fill the error log.
    /// `now` is seconds since 1970.
    fn may_log_failure(&self, now: i64) -> bool {
        let before = self.last_failure.load(Ordering::Relaxed);
        let may = now - before >= 60;
        if may {
            self.last_failure.store(now, Ordering::Relaxed);
        }
        may
    }

    /// Locks the waiting lines; also after a panic, as they are always whole.
    fn waiting(&self) -> MutexGuard<'_, PendingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the request's root directory. Without it there is no log, as nginx documents, so that a client cannot
/// create files by inventing host names.
fn check_root(root: &Path, found: io::Result<Stat>) -> Result<(), VariableLogError> {
    match found {
        Ok(found) if found.kind == FileKind::Directory => Ok(()),
        _ => Err(VariableLogError::Root(root.to_owned())),
    }
}

/// Why a line is not written.
#[derive(Debug)]
enum VariableLogError {
    /// The request's root directory does not exist.
    Root(PathBuf),
    Open(PathBuf, io::Error),
}

impl fmt::Display for VariableLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VariableLogError::Root(root) => {
                write!(f, "testing \"{}\" existence failed", root.display())
            }
            VariableLogError::Open(path, error) => {
                write!(f, "open() \"{}\" failed ({})", path.display(), os_error(error))
            }
        }
    }
}

impl std::error::Error for VariableLogError {}

/// Appends to a file. A full disk loses lines, as a log must not stop the server.
fn append(mut file: &File, text: &[u8]) {
    let _ = file.write_all(text);
}
