//! A disk in memory, for tests and simulation. The n-th call can fail, writes can be short, and the machine
//! can crash, after which only the written bytes remain.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use crate::disk::{DirectoryItem, Disk, DiskFile, FileHandle, Stamp};
use crate::sync::Mutex;

/// The failures of a disk. Calls are counted from 1 over all calls of the disk and its files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The call that fails.
    pub fail_at: Option<u64>,
    /// Whether all later calls fail as well: the disk stays full, or the machine is down.
    pub fail_on: bool,
    /// Whether a failing write still writes its first half (a torn write).
    pub torn_writes: bool,
    /// The most bytes of one read or write; 0: unlimited.
    pub bytes_max: usize,
}

/// A file system in memory. Clones are the same file system.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    files: BTreeMap<PathBuf, Contents>,
    directories: BTreeSet<PathBuf>,
    faults: Faults,
    /// The error of calls that fail; `None`: the disk is full.
    error: Option<io::ErrorKind>,
    calls: u64,
    free: Option<u64>,
    now: u64,
    /// The paths of locked files.
    locks: BTreeSet<PathBuf>,
    /// Calls that made something survive a power failure.
    syncs: u64,
}

#[derive(Clone)]
struct Contents {
    bytes: Arc<Mutex<Vec<u8>>>,
    modified_at: u64,
}

struct MemoryFile {
    shared: Arc<Mutex<Shared>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The name that is unlocked when this handle is dropped.
    locked: Option<PathBuf>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if let Some(path) = self.locked.take() {
            self.shared.lock().locks.remove(&path);
        }
    }
}

impl MemoryDisk {
    /// Sets the failures from now on, and counts calls anew.
    pub fn set_faults(&self, faults: Faults) {
        let mut shared = self.shared.lock();
        shared.faults = faults;
        shared.calls = 0;
    }

    /// Sets the error kind of failing calls.
    pub fn set_error(&self, error: io::ErrorKind) {
        self.shared.lock().error = Some(error);
    }

    /// Returns the number of calls since the faults were set.
    pub fn calls(&self) -> u64 {
        self.shared.lock().calls
    }

    /// Returns the number of calls that made something survive a power failure.
    pub fn syncs(&self) -> u64 {
        self.shared.lock().syncs
    }

    /// Limits the space, in bytes; `None` is unlimited.
    pub fn set_free_bytes(&self, free: Option<u64>) {
        self.shared.lock().free = free;
    }

    /// Sets the time that new files carry, in Unix milliseconds.
    pub fn set_now(&self, now: u64) {
        self.shared.lock().now = now;
    }

    /// Returns the paths of all files except those whose name begins with a dot: these are the store's own.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.shared.lock().files.keys().filter(|path| is_shown(path)).cloned().collect()
    }

    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        self.shared.lock().files.get(path).map(|file| file.bytes.lock().clone())
    }

    /// Returns the room that the files take, in blocks of 4096 bytes.
    pub fn blocks(&self) -> u64 {
        let shared = self.shared.lock();
        let shown = shared.files.iter().filter(|(path, _)| is_shown(path));
        shown.map(|(_, file)| (file.bytes.lock().len() as u64).div_ceil(4096)).sum()
    }

    /// Adds a file, as another program might.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut shared = self.shared.lock();
        let modified_at = shared.now;
        let contents = Contents { bytes: Arc::new(Mutex::new(bytes)), modified_at };
        shared.files.insert(path.to_path_buf(), contents);
        shared.directories.extend(path.ancestors().skip(1).map(Path::to_path_buf));
    }

    /// Overwrites a file in place, as another program might. Readers that have it open see the new bytes.
    pub fn overwrite(&self, path: &Path, bytes: Vec<u8>) {
        if let Some(file) = self.shared.lock().files.get(path) {
            *file.bytes.lock() = bytes;
        }
    }

    /// Returns the disk after a crash: the same names and bytes, and no shared open file.
    pub fn after_crash(&self) -> MemoryDisk {
        let shared = self.shared.lock();
        let files = shared.files.iter().map(|(path, file)| {
            let bytes = Arc::new(Mutex::new(file.bytes.lock().clone()));
            (path.clone(), Contents { bytes, modified_at: file.modified_at })
        });
        let copy = Shared {
            files: files.collect(),
            directories: shared.directories.clone(),
            now: shared.now,
            ..Shared::default()
        };
        MemoryDisk { shared: Arc::new(Mutex::new(copy)) }
    }

    fn call(&self) -> io::Result<MutexGuard<'_, Shared>> {
        let mut shared = self.shared.lock();
        shared.count_call()?;
        Ok(shared)
    }
}

impl Shared {
    fn count_call(&mut self) -> io::Result<()> {
        self.calls += 1;
        let Some(fail_at) = self.faults.fail_at else { return Ok(()) };
        if self.calls == fail_at || self.faults.fail_on && self.calls > fail_at {
            return Err(self.error.unwrap_or(io::ErrorKind::StorageFull).into());
        }
        Ok(())
    }

    fn file(&self, path: &Path) -> io::Result<&Contents> {
        self.files.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn check_directory_of(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(directory) if !self.directories.contains(directory) => {
                Err(io::ErrorKind::NotFound.into())
            }
            _ => Ok(()),
        }
    }
}

impl Disk for MemoryDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.call()?.directories.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<FileHandle> {
        let mut shared = self.call()?;
        shared.check_directory_of(path)?;
        if shared.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let contents = Contents { bytes: bytes.clone(), modified_at: shared.now };
        shared.files.insert(path.to_path_buf(), contents);
        Ok(Arc::new(MemoryFile { shared: self.shared.clone(), bytes, locked: None }))
    }

    fn open(&self, path: &Path) -> io::Result<FileHandle> {
        let bytes = self.call()?.file(path)?.bytes.clone();
        Ok(Arc::new(MemoryFile { shared: self.shared.clone(), bytes, locked: None }))
    }

    fn open_for_update(&self, path: &Path) -> io::Result<FileHandle> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut shared = self.call()?;
        shared.check_directory_of(to)?;
        let contents = shared.file(from)?.clone();
        shared.files.remove(from);
        shared.files.insert(to.to_path_buf(), contents);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.call()?;
        shared.file(path)?;
        shared.files.remove(path);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryItem>> {
        let shared = self.call()?;
        let item = |path: &PathBuf, is_directory| DirectoryItem {
            name: path.file_name().map_or(String::new(), |name| name.to_string_lossy().into()),
            path: path.clone(),
            is_directory,
        };
        let inside = |found: &&PathBuf| found.parent() == Some(path);
        let files = shared.files.keys().filter(inside).map(|path| item(path, false));
        let directories = shared.directories.iter().filter(inside).map(|path| item(path, true));
        Ok(files.chain(directories).collect())
    }

    fn modified_at(&self, path: &Path) -> io::Result<u64> {
        Ok(self.call()?.file(path)?.modified_at)
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        let length = self.call()?.file(path)?.bytes.lock().len();
        Ok(length as u64)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<FileHandle>> {
        let mut shared = self.call()?;
        if !shared.locks.insert(path.to_path_buf()) {
            return Ok(None);
        }
        let modified_at = shared.now;
        let contents = shared
            .files
            .entry(path.to_path_buf())
            .or_insert_with(|| Contents { bytes: Arc::default(), modified_at });
        let bytes = contents.bytes.clone();
        let locked = Some(path.to_path_buf());
        Ok(Some(Arc::new(MemoryFile { shared: self.shared.clone(), bytes, locked })))
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        self.call()?.syncs += 1;
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let shared = self.call()?;
        let Some(space) = shared.free else { return Ok(u64::MAX) };
        let used: u64 = shared.files.values().map(|file| file.bytes.lock().len() as u64).sum();
        Ok(space.saturating_sub(used))
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut shared = self.shared.lock();
        shared.count_call()?;
        let bytes = self.bytes.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let count = at_most(buffer.len().min(bytes.len() - from), shared.faults.bytes_max);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut shared = self.shared.lock();
        let result = shared.count_call();
        let count = match &result {
            Ok(()) => at_most(bytes.len(), shared.faults.bytes_max),
            Err(_) if shared.faults.torn_writes => bytes.len() / 2,
            Err(_) => 0,
        };
        let from = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if count > 0 {
            let mut contents = self.bytes.lock();
            if contents.len() < from + count {
                contents.resize(from + count, 0);
            }
            contents[from..from + count].copy_from_slice(&bytes[..count]);
        }
        result.map(|()| count)
    }

    fn length(&self) -> io::Result<u64> {
        self.shared.lock().count_call()?;
        Ok(self.bytes.lock().len() as u64)
    }

    /// Counts any change of the bytes as one of the times.
    fn stamp(&self) -> io::Result<Stamp> {
        let bytes = self.bytes.lock();
        let modified = i128::from(xxhash_rust::xxh3::xxh3_64(&bytes));
        // Long before any moment of a test: no change is recent enough to hide another one.
        Ok(Stamp { bytes: bytes.len() as u64, modified, changed: i128::from(i64::MIN) })
    }

    fn sync(&self, _data_only: bool) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.count_call()?;
        shared.syncs += 1;
        Ok(())
    }

    fn system_file(&self) -> Option<&Arc<fs::File>> {
        None
    }
}

fn is_shown(path: &Path) -> bool {
    path.file_name().is_none_or(|name| !name.as_encoded_bytes().starts_with(b"."))
}

fn at_most(count: usize, limit: usize) -> usize {
    if limit == 0 { count } else { count.min(limit) }
}
