//! The records of a zone behind a lock, and their file (`state=`).
//!
//! A lookup takes the lock for reading. The file is written on a pool thread, or on that of the zones' service: one
//! writer at a time, and changes that arrive meanwhile share the next file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime};

use tidegate_core::blocking::default_pool;
use tidegate_os::file;
use tidegate_rt::blocking::submit;
use tidegate_rt::clock;
use tidegate_rt::sync::watch;

use super::index::Matching;
use super::pairs::{self, Pair, PairsError, Wanted, write_text};
use super::table::{Record, Table, TableError};

/// The records of a zone. Reloads keep it.
pub(crate) struct Store {
    matching: Matching,
    table: RwLock<Table>,
    writer: Mutex<Writer>,
    /// Held while a file is written.
    writing: Mutex<()>,
    written: watch::Sender<Written>,
    /// The process ends: the next one may have the file.
    ending: AtomicBool,
}

/// The same moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) monotonic: Instant,
    /// Milliseconds since 1970.
    pub(crate) unix_millis: u64,
}

/// The job that writes the file.
#[derive(Default)]
struct Writer {
    runs: bool,
    /// There are changes that the running job may not have seen.
    again: bool,
    path: PathBuf,
}

/// The last file that was written, or was to be.
#[derive(Clone, Default)]
struct Written {
    version: u64,
    path: PathBuf,
    /// How the file was left; `None`: there is none.
    stamp: Option<Stamp>,
    error: Option<Arc<str>>,
}

/// By which a file is recognized: its time and its length.
type Stamp = (SystemTime, u64);

/// What a file lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// Nothing, or nothing that a job does not write right now.
    Nothing,
    Changes,
    /// Changes, as the last attempt to write it has failed.
    Failed,
}

/// Bytes of JSON that are made under one hold of the lock, for which changes wait.
const BYTES_AT_ONCE: usize = 16 << 10;
/// The end of the name of a file that is written and not complete yet.
const UNFINISHED: &str = ".new";
/// The field with the time at which a record expires, in milliseconds since 1970.
const EXPIRES: &str = "expires";
/// The most bytes of a file for each byte of a zone: a control character in JSON has six.
const FILE_BYTES_FOR_BYTE: u64 = 6;

impl Moment {
    pub(crate) fn read() -> Moment {
        Moment { monotonic: clock::now(), unix_millis: clock::unix_millis() }
    }

    fn unix_of(self, instant: Instant) -> u64 {
        let from_now = instant.saturating_duration_since(self.monotonic);
        let millis = u64::try_from(from_now.as_millis()).unwrap_or(u64::MAX);
        self.unix_millis.saturating_add(millis)
    }
}

impl Store {
    pub(crate) fn new(matching: Matching) -> Store {
        Store {
            matching,
            table: RwLock::new(Table::new(matching)),
            writer: Mutex::default(),
            writing: Mutex::default(),
            written: watch::Sender::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// Reads a zone's records from its file; none where there is no file yet.
    ///
    /// # Errors
    /// It cannot be read, it is not a file of pairs, or they do not fit into `bytes_max`.
    pub(crate) fn read(
        matching: Matching,
        path: &Path,
        (bytes_max, timeout): (usize, Option<Duration>),
        now: Moment,
    ) -> Result<Store, String> {
        let store = Store::new(matching);
        let shown = path.display();
        let fail = |error: io::Error| {
            format!("open() \"{shown}\" failed ({})", tidegate_os::os_error(&error))
        };
        let full = || format!("{} in state file \"{shown}\"", TableError::NoRoom);
        let text = match fs::metadata(path) {
            Ok(file) if file.len() > FILE_BYTES_FOR_BYTE.saturating_mul(bytes_max as u64) => {
                return Err(full());
            }
            Ok(_) => fs::read(path).map_err(fail)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(fail(error)),
        };
        if !text.is_empty() {
            let records = records_of(&text, timeout, now);
            let records = records.map_err(|error| format!("{error} in state file \"{shown}\""))?;
            let filled = Table::of(matching, records, bytes_max, now.monotonic);
            let filled = filled.map_err(|error| format!("{error} in state file \"{shown}\""))?;
            store.change().replace(filled);
        }
        let version = store.table().version();
        store.note(version, path, None);
        Ok(store)
    }

    pub(crate) fn matching(&self) -> Matching {
        self.matching
    }

    /// Locks the records for reading.
    pub(crate) fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the records for a change.
    pub(crate) fn change(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a function that appends the next records to a JSON object of texts, and returns whether there are more.
    pub(crate) fn show(
        self: Arc<Self>,
        now: Instant,
    ) -> impl FnMut(&mut Vec<u8>) -> bool + Send + 'static {
        let mut object = ObjectWriter::default();
        move |out| object.write(&self, now, out, |record, out| write_text(out, &record.value))
    }

    /// Writes the records to a file, on a pool thread, and waits until the changes so far are in it.
    ///
    /// Dropped while it waits, it writes all the same.
    ///
    /// # Errors
    /// Those of the disk, and of a pool that takes no more work; the file from before is then still there.
    pub(crate) async fn save(self: &Arc<Self>, path: &Path) -> io::Result<()> {
        let wanted = self.table().version();
        let mut written = self.written.subscribe();
        self.begin_write(path);
        loop {
            let seen = written.borrow_and_update().clone();
            // A plan with another file may have taken the turn of this one.
            match seen.error {
                _ if seen.version < wanted => {}
                None => return Ok(()),
                Some(error) => return Err(io::Error::other(&*error)),
            }
            written.changed().await.map_err(io::Error::other)?;
        }
    }

    /// Returns what the file of this name lacks.
    pub(crate) fn unwritten(&self, path: &Path) -> Unwritten {
        if self.lock_writer().runs {
            return Unwritten::Nothing;
        }
        self.lacking(path)
    }

    fn lacking(&self, path: &Path) -> Unwritten {
        let written = self.written.borrow();
        match written.path == path {
            true if written.error.is_some() => Unwritten::Failed,
            true if written.version == self.table().version() => Unwritten::Nothing,
            _ => Unwritten::Changes,
        }
    }

    /// Writes the file on this thread, where the changes so far are not in it.
    ///
    /// # Errors
    /// Those of the disk; the process ends, and the file is the next one's.
    pub(crate) fn write_now(&self, path: &Path) -> io::Result<()> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.written.borrow().clone();
        let is_foreign = before.path == path && before.stamp != stamp(path);
        if is_foreign && self.ending.load(Ordering::Relaxed) {
            let reason = "the next process has written it";
            self.note_failure(reason);
            return Err(io::Error::other(reason));
        }
        // What is in the file may be newer, but not older.
        let version = self.table().version();
        let done = self.write_file(path, Moment::read());
        self.note(version, path, done.as_ref().err().map(|error| error.to_string().into()));
        done
    }

    /// From now on a file that another process has written is left to it.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Notes what was written, and wakes those who wait for it.
    fn note(&self, version: u64, path: &Path, error: Option<Arc<str>>) {
        let (path, stamp) = (path.to_owned(), stamp(path));
        self.written.send_replace(Written { version, path, stamp, error });
    }

    fn begin_write(self: &Arc<Self>, path: &Path) {
        let mut writer = self.lock_writer();
        path.clone_into(&mut writer.path);
        if std::mem::replace(&mut writer.runs, true) {
            writer.again = true;
            return;
        }
        drop(writer);
        let store = self.clone();
        let job = default_pool().map(|pool| submit(&*pool, move || store.write_all()));
        match job {
            Some(Ok(job)) => job.detach(),
            _ => self.give_up("thread pool queue overflow"),
        }
    }

    /// Ends the job before it begins.
    fn give_up(&self, reason: &str) {
        self.lock_writer().runs = false;
        self.note_failure(reason);
    }

    /// Notes that the changes so far are not written, where the file is what it was.
    fn note_failure(&self, reason: &str) {
        let version = self.table().version();
        self.written.send_modify(|written| {
            written.version = version;
            written.error = Some(reason.into());
        });
    }

    /// Writes files until one has all changes.
    fn write_all(&self) {
        loop {
            let path = self.lock_writer().path.clone();
            // The error is in what was written.
            let _ = self.write_now(&path);
            let mut writer = self.lock_writer();
            let again = std::mem::take(&mut writer.again);
            // Those who came while it was written may have their changes in it.
            if !again || self.lacking(&writer.path) == Unwritten::Nothing {
                writer.runs = false;
                return;
            }
        }
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file beside the name and renames it, both flushed to the disk, mode 0600.
    fn write_file(&self, path: &Path, now: Moment) -> io::Result<()> {
        let mut name = path.to_owned().into_os_string();
        name.push(UNFINISHED);
        // Always the same name: a file that a kill has left is written again.
        let new = PathBuf::from(name);
        let written = file::open_plain(&new, true).and_then(|file| {
            file.set_len(0)?;
            self.write_records(&file, now)?;
            file.sync_all()
        });
        let done = written.and_then(|()| fs::rename(&new, path));
        if done.is_err() {
            // A full disk gets its room back.
            let _ = fs::remove_file(&new);
        }
        done.and_then(|()| sync_directory(path))
    }

    fn write_records(&self, file: &File, now: Moment) -> io::Result<()> {
        let mut out = BufWriter::new(file);
        let (mut object, mut piece) = (ObjectWriter::default(), Vec::new());
        let write = |record: &Record, out: &mut Vec<u8>| match record.expires {
            None => write_text(out, &record.value),
            Some(expires) => {
                out.extend_from_slice(b"{\"value\":");
                write_text(out, &record.value);
                let end = format!(",\"{EXPIRES}\":{}}}", now.unix_of(expires));
                out.extend_from_slice(end.as_bytes());
            }
        };
        loop {
            let more = object.write(self, now.monotonic, &mut piece, write);
            out.write_all(&piece)?;
            piece.clear();
            if !more {
                return out.flush();
            }
        }
    }
}

/// The position in a JSON object of records.
#[derive(Default)]
struct ObjectWriter {
    at: usize,
    opened: bool,
    followed: bool,
}

impl ObjectWriter {
    /// Appends the next records; returns `false` behind the last one.
    fn write(
        &mut self,
        store: &Store,
        now: Instant,
        out: &mut Vec<u8>,
        value: impl Fn(&Record, &mut Vec<u8>),
    ) -> bool {
        if !std::mem::replace(&mut self.opened, true) {
            out.push(b'{');
        }
        let (table, end) = (store.table(), out.len() + BYTES_AT_ONCE);
        for (place, record) in table.records(self.at, now) {
            if out.len() >= end {
                self.at = place;
                return true;
            }
            out.extend_from_slice(if self.followed { b",\n" } else { b"\n" });
            self.followed = true;
            write_text(out, &record.key);
            out.push(b':');
            value(record, out);
        }
        out.extend_from_slice(if self.followed { b"\n}" } else { b"}" });
        false
    }
}

/// Reads the records of a file. Those that have expired are left out; where the zone has no `timeout`, none expire.
fn records_of(
    text: &[u8],
    timeout: Option<Duration>,
    now: Moment,
) -> Result<Vec<Record>, PairsError> {
    let mut records = Vec::new();
    for Pair { key, wanted } in pairs::parse(text, EXPIRES)? {
        let Wanted::Value { value: Some(value), time } = wanted else {
            return Err(PairsError::Form(format!("no value for key \"{key}\"")));
        };
        let left = match (timeout, time) {
            (None, _) => None,
            (Some(timeout), None) => Some(timeout),
            (Some(_), Some(until)) => match until.checked_sub(now.unix_millis) {
                None | Some(0) => continue,
                Some(millis) => Some(Duration::from_millis(millis)),
            },
        };
        let expires = left.and_then(|left| now.monotonic.checked_add(left));
        records.push(Record { key: key.into(), value: value.into(), expires });
    }
    Ok(records)
}

/// Returns time and length of a file; `None` without one.
fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len()))
}

/// Flushes the names in a file's directory to the disk, where directories can be opened.
fn sync_directory(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}
