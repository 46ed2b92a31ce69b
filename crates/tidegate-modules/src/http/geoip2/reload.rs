//! `auto_reload`: a file that has changed is read again, while requests use the one before.

use std::path::PathBuf;
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
    seen: Option<(SystemTime, u64)>,
}

impl DatabaseReloader {
    pub(super) fn add(&mut self, current: Arc<CurrentDatabase>, interval: Duration) {
        let seen = stamp(&current).ok();
        let due = clock::exact_now() + interval;
        let files = self.files.get_mut().unwrap_or_else(PoisonError::into_inner);
        files.push(WatchedFile { current, interval, due, seen });
    }

    pub(super) fn is_empty(&mut self) -> bool {
        self.files.get_mut().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn write(&self, level: Level, message: &str) {
        if let Some(log) = &self.log {
            log.write(level, 0, message);
        }
    }

    fn check(&self, file: &mut WatchedFile) {
        let current = &file.current;
        let path = current.path.display();
        current.last_check.store(clock::unix_seconds(), Ordering::Relaxed);
        let seen = match stamp(current) {
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
        file.seen = Some(seen);
        let read = fs::read(&current.path).map_err(|error| os_error(&error).to_string());
        match read.and_then(Database::parse) {
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

fn stamp(current: &CurrentDatabase) -> io::Result<(SystemTime, u64)> {
    let data = fs::metadata(&current.path)?;
    Ok((data.modified()?, data.len()))
}

impl Service for DatabaseReloader {
    fn name(&self) -> String {
        "geoip2 reload".to_owned()
    }

    fn step(&self) -> Duration {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files.iter_mut() {
            if file.due <= clock::exact_now() {
                self.check(file);
                file.due = clock::exact_now() + file.interval;
            }
        }
        let now = clock::exact_now();
        let next = files.iter().map(|file| file.due.saturating_duration_since(now)).min();
        next.unwrap_or(PAUSE_MAX)
    }
}

/// Time between steps without files.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
