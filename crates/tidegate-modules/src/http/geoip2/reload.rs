//! `auto_reload`: a file that has changed is read again, while requests use the one before.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use arc_swap::ArcSwap;
use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_core::plan::Service;
use tidegate_os::os_error;
use tidegate_rt::clock;

use super::database::Database;

/// A file in use.
pub(super) struct CurrentDatabase {
    path: PathBuf,
    database: ArcSwap<Database>,
    /// Unix seconds.
    last_check: AtomicI64,
    /// Unix seconds.
    last_change: AtomicI64,
}

impl CurrentDatabase {
    pub(super) fn new(path: PathBuf, database: Database) -> CurrentDatabase {
        let now = clock::unix_seconds();
        CurrentDatabase {
            path,
            database: ArcSwap::from_pointee(database),
            last_check: AtomicI64::new(now),
            last_change: AtomicI64::new(now),
        }
    }

    pub(super) fn database(&self) -> arc_swap::Guard<Arc<Database>> {
        self.database.load()
    }

    /// Returns the Unix seconds of the last look for a changed file.
    pub(super) fn last_check(&self) -> i64 {
        self.last_check.load(Ordering::Relaxed)
    }

    /// Returns the Unix seconds at which the file was read.
    pub(super) fn last_change(&self) -> i64 {
        self.last_change.load(Ordering::Relaxed)
    }
}

/// The files that are looked at from time to time.
#[derive(Default)]
pub(super) struct DatabaseReloader {
    files: Mutex<Vec<WatchedFile>>,
    pub log: Option<ErrorLog>,
}

struct WatchedFile {
    current: Arc<CurrentDatabase>,
    interval: Duration,
    due: Instant,
    /// Time of change and size of the file that was read last, or failed to be; `None` before the first look.
    seen: Option<FileStamp>,
}

/// Time of change and size of a file.
pub(super) type FileStamp = (SystemTime, u64);

/// Longest time between looks, a century: a clock does not reach much further.
const INTERVAL_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl DatabaseReloader {
    /// Adds a file whose stamp was `seen` before it was read.
    pub(super) fn add(
        &mut self,
        current: Arc<CurrentDatabase>,
        interval: Duration,
        seen: Option<FileStamp>,
    ) {
        let interval = interval.min(INTERVAL_MAX);
        let due = clock::exact_now() + interval;
        let files = self.files.get_mut().unwrap_or_else(PoisonError::into_inner);
        files.push(WatchedFile { current, interval, due, seen });
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.files.get_mut().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn write(&self, level: Level, message: &str) {
        if let Some(log) = &self.log {
            log.say(level, format_args!("{message}"));
        }
    }

    fn check(&self, file: &mut WatchedFile) {
        let current = &file.current;
        let path = current.path.display();
        current.last_check.store(clock::unix_seconds(), Ordering::Relaxed);
        let seen = match stamp(&current.path) {
            Ok(seen) => seen,
            // The file is being replaced: the next look finds the new one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let reason = os_error(&error);
                return self.write(Level::Error, &format!("stat(\"{path}\") failed ({reason})"));
            }
        };
        if file.seen == Some(seen) {
            return;
        }
        let bytes = match fs::read(&current.path) {
            Ok(bytes) => bytes,
            // Permissions and descriptors change without a new stamp: the next look tries again.
            Err(error) => {
                let reason = os_error(&error);
                return self.write(Level::Error, &format!("open(\"{path}\") failed ({reason})"));
            }
        };
        file.seen = Some(seen);
        match Database::parse(bytes) {
            Ok(database) => {
                current.database.store(Arc::new(database));
                current.last_change.store(clock::unix_seconds(), Ordering::Relaxed);
                self.write(Level::Info, &format!("Reload MMDB \"{path}\""));
            }
            Err(reason) => {
                let message = format!(
                    "MMDB_open(\"{path}\") failed to reload - {reason}; the one before stays in use"
                );
                self.write(Level::Error, &message);
            }
        }
    }
}

/// Returns the stamp of a file.
///
/// # Errors
/// Those of the system; `InvalidInput` for anything but a file, as reading a pipe could wait for ever.
pub(super) fn stamp(path: &Path) -> io::Result<FileStamp> {
    let data = fs::metadata(path)?;
    if !data.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((data.modified()?, data.len()))
}

impl Service for DatabaseReloader {
    fn name(&self) -> String {
        "geoip2 reload".to_owned()
    }

    fn step(&self) -> Duration {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // One file in a step: other services wait for the end of it.
        let due = files.iter_mut().filter(|file| file.due <= clock::exact_now());
        if let Some(file) = due.min_by_key(|file| file.due) {
            self.check(file);
            file.due = clock::exact_now() + file.interval;
        }
        let now = clock::exact_now();
        let next = files.iter().map(|file| file.due.saturating_duration_since(now)).min();
        next.unwrap_or(PAUSE_MAX)
    }
}

/// Time between steps without files.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
