//! The file with the master's process id, which init systems and `-s` read.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_os::file::with_mode;
use tidegate_os::os_error;

use crate::report::open_failed;

/// Suffix of the file while a newer binary has its name.
const OLD: &str = ".oldbin";
/// Its permissions, as in nginx, whatever the umask is: a daemon has none, and tools refuse a file that others may write.
const MODE: u32 = 0o644;

/// The file of this process; it stays when this is dropped.
///
/// ```text
///             set aside (a new binary is started)
///    plain ─────────────────────────────────────▶ old
///      ▲                                           │
///      └───────────────────────────────────────────┘
///             restored (the new binary has ended)
/// ```
///
/// While it is old its name belongs to the new binary, so a reload with another file name moves nothing.
pub(crate) struct PidFile {
    path: PathBuf,
    /// Named `….oldbin`, since a new binary runs.
    is_old: bool,
}

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn create(path: &Path) -> Result<PidFile, PidFileError> {
        write(path).map_err(|error| PidFileError::Open(path.to_owned(), error))?;
        Ok(PidFile { path: path.to_owned(), is_old: false })
    }

    /// Moves to another file, after a reload that names it.
    ///
    /// # Errors
    /// The new file cannot be written; the old one stays then.
    pub(crate) fn move_to(&mut self, path: &Path) -> Result<(), PidFileError> {
        if path == self.path || self.is_old {
            return Ok(());
        }
        let new = PidFile::create(path)?;
        let old = std::mem::replace(self, new);
        old.remove();
        Ok(())
    }

    /// Makes room for the file of a new binary.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub(crate) fn set_aside(&mut self) -> Result<(), PidFileError> {
        let to = old_name(&self.path);
        if let Err(error) = std::fs::rename(&self.path, &to) {
            return Err(PidFileError::Rename { from: self.path.clone(), to, error });
        }
        self.is_old = true;
        Ok(())
    }

    /// Takes the name back from a new binary that has ended.
    pub(crate) fn restore(&mut self) {
        if self.is_old {
            let _ = std::fs::rename(old_name(&self.path), &self.path);
            self.is_old = false;
        }
    }

    pub(crate) fn remove(&self) {
        let _ = match self.is_old {
            true => std::fs::remove_file(old_name(&self.path)),
            false => std::fs::remove_file(&self.path),
        };
    }
}

/// Checks that the file can be written, while an error can still be reported to the user who starts the program. Leaves
/// no file where there was none: the start may yet fail.
///
/// # Errors
/// It cannot be written.
pub(crate) fn check(path: &Path) -> Result<(), PidFileError> {
    try_open(path).map_err(|error| PidFileError::Open(path.to_owned(), error))
}

fn try_open(path: &Path) -> io::Result<()> {
    match File::options().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map(drop),
    }
    let file = with_mode(File::options().append(true).create(true), MODE).open(path)?;
    // Another program may have written its own meanwhile, and a link that led nowhere stays.
    match file.metadata()?.len() == 0 && !path.is_symlink() {
        true => std::fs::remove_file(path),
        false => Ok(()),
    }
}

/// Reads the process id in a file.
///
/// # Errors
/// There is no such file, or it contains something else.
pub(crate) fn read(path: &Path) -> Result<u32, PidFileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| PidFileError::Open(path.to_owned(), error))?;
    let text = text.trim();
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| PidFileError::Number(text.to_owned(), path.to_owned()))
}

/// An error of a pid file; as a text it is nginx's line.
#[derive(Debug)]
pub(crate) enum PidFileError {
    Open(PathBuf, io::Error),
    Rename {
        from: PathBuf,
        to: PathBuf,
        error: io::Error,
    },
    /// The text in it is not the number of a process.
    Number(String, PathBuf),
}

impl fmt::Display for PidFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PidFileError::Open(path, error) => f.write_str(&open_failed(path, error)),
            PidFileError::Rename { from, to, error } => {
                let (from, to, error) = (from.display(), to.display(), os_error(error));
                write!(f, "rename() {from} to {to} failed ({error})")
            }
            PidFileError::Number(text, path) => {
                write!(f, "invalid PID number \"{text}\" in \"{}\"", path.display())
            }
        }
    }
}

impl std::error::Error for PidFileError {}

fn write(path: &Path) -> io::Result<()> {
    let options = &mut File::options();
    let mut file = with_mode(options.write(true).create(true).truncate(true), MODE).open(path)?;
    writeln!(file, "{}", std::process::id())
}

fn old_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OLD);
    name.into()
}

#[cfg(test)]
mod tests;
