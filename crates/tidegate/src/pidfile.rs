//! The file with the master's process id, which init systems and `-s` read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidegate_core::builder::os_error;

use crate::report::open_failed;

/// What a file is called while a newer binary has the name.
const OLD: &str = ".oldbin";

/// The file of this process; it stays when this is dropped.
pub(crate) struct PidFile {
    path: PathBuf,
    /// Named `….oldbin`, since a new binary runs.
    is_old: bool,
}

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// nginx's line.
    pub(crate) fn create(path: &Path) -> Result<PidFile, String> {
        write(path).map_err(|error| open_failed(path, &error))?;
        Ok(PidFile { path: path.to_owned(), is_old: false })
    }

    /// After a reload that names another file.
    ///
    /// # Errors
    /// nginx's line; the old file stays then.
    pub(crate) fn move_to(&mut self, path: &Path) -> Result<(), String> {
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
    /// nginx's line.
    pub(crate) fn set_aside(&mut self) -> Result<(), String> {
        let old = old_name(&self.path);
        std::fs::rename(&self.path, &old).map_err(|error| {
            let (from, to) = (self.path.display(), old.display());
            format!("rename() {from} to {to} failed ({})", os_error(&error))
        })?;
        self.is_old = true;
        Ok(())
    }

    /// Takes the name back from a binary that ended.
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

/// Whether the file can be written, as long as that can be told to who starts the program.
///
/// # Errors
/// nginx's line.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let opened = std::fs::File::options().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| open_failed(path, &error))
}

/// The process id in a file.
///
/// # Errors
/// nginx's line.
pub(crate) fn read(path: &Path) -> Result<u32, String> {
    let text = std::fs::read_to_string(path).map_err(|error| open_failed(path, &error))?;
    let text = text.trim();
    text.parse()
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or_else(|| format!("invalid PID number \"{text}\" in \"{}\"", path.display()))
}

fn write(path: &Path) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    writeln!(file, "{}", std::process::id())
}

fn old_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OLD);
    name.into()
}

#[cfg(test)]
mod tests;
