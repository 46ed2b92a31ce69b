//! Directories that only one server may use: the master's part of their locks.
//!
//! The worker locks a cache's directory as well (`tidegate-cache`), and accepts processes of the same instance: the worker that replaces
//! it, and that of a new binary. Between the end of one worker and the start of the next the lock would be free. So
//! each master of an instance (one server and its new binaries) shares a lock for as long as it lives: the new binary
//! holds it before the old one is asked to end, and a worker that dies leaves no gap. Other servers get no share.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::instance;
use tidegate_os::file;

/// The file that masters lock, in the directory itself. It contains the name of the instance.
pub(crate) const CLAIM: &str = ".instance";

/// Attempts to take a lock, and the pause between them: another server may be about to end, as with a taken port.
const TRIES: usize = 25;
const PAUSE: Duration = Duration::from_millis(100);

/// Longest name of an instance that is read, bytes.
const NAME_BYTES_MAX: u64 = 256;

/// Permissions of a directory that is made here.
const DIRECTORY_MODE: u32 = 0o700;

/// The result of one attempt.
enum Attempt {
    Shared(File),
    /// The name of the other instance, as far as it could be read.
    Taken(String),
}

/// A directory that another server uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimError {
    directory: PathBuf,
    /// The name of the other instance, as far as it could be read.
    instance: String,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (directory, instance) = (self.directory.display(), &self.instance);
        write!(f, "directory \"{directory}\" is in use by another server ({instance})")
    }
}

impl std::error::Error for ClaimError {}

/// Takes a share of the lock of each directory. Where the system gives no locks (a disk that is read-only or full, a
/// file of another user) there is nothing to share; the worker reports the consequences.
///
/// # Errors
/// Another server uses one of them.
pub(crate) fn take(directories: &[PathBuf]) -> Result<Vec<File>, ClaimError> {
    let mut claims = Vec::new();
    for directory in directories {
        claims.extend(take_patiently(directory, instance::name())?);
    }
    Ok(claims)
}

fn take_patiently(directory: &Path, name: &str) -> Result<Option<File>, ClaimError> {
    let mut tries = 1;
    loop {
        match attempt(directory, name) {
            Ok(Attempt::Shared(file)) => return Ok(Some(file)),
            Ok(Attempt::Taken(instance)) if tries == TRIES => {
                return Err(ClaimError { directory: directory.to_owned(), instance });
            }
            Ok(Attempt::Taken(_)) => tries += 1,
            Err(_) => return Ok(None),
        }
        tidegate_rt::timer::pause(PAUSE);
    }
}

/// Makes one attempt. The name is written under the exclusive lock, and read under a shared one: as long as it is
/// shared, the name does not change. Between the two the lock is free for a moment, so the name is read again after it.
fn attempt(directory: &Path, name: &str) -> io::Result<Attempt> {
    if !directory.exists() {
        file::create_directory(directory, DIRECTORY_MODE, true)?;
    }
    let mut file = file::open_plain(&directory.join(CLAIM), true)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            file.write_all(name.as_bytes())?;
        }
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let shared = match file.try_lock_shared() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => return Err(error),
    };
    let mut found = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    (&file).take(NAME_BYTES_MAX).read_to_end(&mut found)?;
    if shared && found == name.as_bytes() {
        return Ok(Attempt::Shared(file));
    }
    Ok(Attempt::Taken(String::from_utf8_lossy(&found).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relatives_share_and_others_wait_for_the_last_of_them() {
        let top = std::env::temp_dir().join(format!("tidegate-claims-{}", std::process::id()));
        let directory = top.join("made/cache");
        let shared = |name: &str| match attempt(&directory, name).unwrap() {
            Attempt::Shared(file) => Ok(file),
            Attempt::Taken(by) => Err(by),
        };
        let old = shared("ours").unwrap();
        assert_eq!(shared("theirs").map(drop), Err("ours".to_owned()));
        let new = shared("ours").unwrap();
        drop(old);
        assert_eq!(shared("theirs").map(drop), Err("ours".to_owned()));
        drop(new);
        let theirs = shared("theirs").unwrap();
        assert_eq!(shared("ours").map(drop), Err("theirs".to_owned()));
        drop(theirs);
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn what_is_no_file_of_its_own_is_not_touched() {
        let top = std::env::temp_dir().join(format!("tidegate-claimed-{}", std::process::id()));
        std::fs::create_dir_all(&top).unwrap();
        let (other, claim) = (top.join("other"), top.join(CLAIM));
        std::fs::write(&other, "text").unwrap();
        std::os::unix::fs::symlink(&other, &claim).unwrap();
        assert!(attempt(&top, "ours").is_err());
        std::fs::remove_file(&claim).unwrap();
        std::fs::hard_link(&other, &claim).unwrap();
        assert!(attempt(&top, "ours").is_err());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "text");
        std::fs::remove_dir_all(top).unwrap();
    }
}
