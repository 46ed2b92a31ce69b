//! The files of an issuer: in a directory, or in memory (`state_path off`).

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_acme::Change;
use tidegate_os::file;

/// Where the files of an issuer are. Clones share them.
#[derive(Clone)]
pub(super) enum Store {
    Directory(PathBuf),
    Memory(Arc<Mutex<BTreeMap<String, Vec<u8>>>>),
}

/// The file that the process which orders certificates locks, in the directory.
const LOCK: &str = ".lock";
/// The end of the name of a file that is written and not complete yet.
const UNFINISHED: &str = ".new";
/// Certificate and key in one file.
const PAIR: &str = ".pem";
/// A copy of the certificate without its key, for programs that watch or serve it.
const CHAIN: &str = ".crt";
/// Permissions of a directory that is made here.
const DIRECTORY_MODE: u32 = 0o700;
/// The most bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl Store {
    /// Returns the contents of a file; `None` without one.
    ///
    /// # Errors
    /// There is one, and it cannot be read: it must not be taken for an absent one, which would be written anew.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let directory = match self {
            Store::Memory(files) => {
                let files = files.lock().unwrap_or_else(PoisonError::into_inner);
                return Ok(files.get(name).cloned());
            }
            Store::Directory(directory) => directory,
        };
        let path = directory.join(name);
        let read = fs::metadata(&path).and_then(|metadata| match metadata.len() {
            length if length > FILE_BYTES_MAX => Err(io::ErrorKind::FileTooLarge.into()),
            _ => fs::read(&path),
        });
        match read {
            Ok(contents) => Ok(Some(contents)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(named(&path, &error)),
        }
    }

    /// Returns the contents of the file with a certificate and its key, where it can be read.
    pub(super) fn read_pair(&self, stem: &str) -> Option<Vec<u8>> {
        self.read(&format!("{stem}{PAIR}")).ok().flatten()
    }

    /// Makes a change durable. It blocks on the disk.
    ///
    /// # Errors
    /// Those of the disk, with the name of the file. The old contents are then still there.
    pub(super) fn store(&self, change: Change) -> io::Result<()> {
        let directory = match self {
            Store::Memory(files) => {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                match change.contents {
                    Some(contents) => drop(files.insert(change.file, contents)),
                    None => drop(files.remove(&change.file)),
                }
                return Ok(());
            }
            Store::Directory(directory) => directory,
        };
        let path = directory.join(&change.file);
        let named = |error: io::Error| named(&path, &error);
        match &change.contents {
            Some(contents) => write(directory, &change.file, contents).map_err(named)?,
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
                _ => sync(directory).map_err(named)?,
            },
        }
        if let (Some(stem), Some(contents)) = (change.file.strip_suffix(PAIR), &change.contents) {
            // The pair is what counts: without the copy nothing is lost.
            let _ = write(directory, &format!("{stem}{CHAIN}"), chain(contents));
        }
        Ok(())
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("\"{}\": {error}", path.display()))
}

/// Returns the certificates behind the key.
fn chain(contents: &[u8]) -> &[u8] {
    let begin = b"-----BEGIN CERTIFICATE-----";
    let at = contents.windows(begin.len()).position(|window| window == begin);
    at.and_then(|at| contents.get(at..)).unwrap_or_default()
}

/// Writes a file beside its name and renames it, both flushed to the disk, mode 0600.
fn write(directory: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    // Always the same name: a file that a kill has left is written again.
    let new = directory.join(format!("{name}{UNFINISHED}"));
    let written = file::open_plain(&new, true).and_then(|mut file| {
        file.set_len(0)?;
        file.write_all(contents)?;
        file.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&new, directory.join(name)));
    if done.is_err() {
        // A full disk gets its room back.
        let _ = fs::remove_file(&new);
    }
    done.and_then(|()| sync(directory))
}

/// Flushes the names in a directory to the disk, where directories can be opened.
fn sync(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Locks a directory, which is made if it is missing; `None` while another process has the lock.
///
/// # Errors
/// The directory cannot be made, or its lock cannot be opened.
pub(super) fn lock(directory: &Path) -> io::Result<Option<File>> {
    if !directory.is_dir() {
        file::create_directory(directory, DIRECTORY_MODE, true)?;
    }
    let lock = file::open_plain(&directory.join(LOCK), true)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
