//! Files that a plan is built from: opened here by the master, handed over to the worker.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::builder::Resources;
use tidegate_core::log_file::{LogFile, LogFiles, open_append};

/// Contents of files by their paths.
pub type Contents = Vec<(PathBuf, Vec<u8>)>;

/// The file system, with a memory of what was read from it.
pub struct Opened<'a> {
    logs: &'a LogFiles,
    /// Logs are kept open as long as this lives, so that each is opened once.
    held: RefCell<HashMap<PathBuf, Arc<LogFile>>>,
    /// Each file is read once, however many servers name it: all see the same, and the worker gets it once.
    contents: RefCell<HashMap<PathBuf, Vec<u8>>>,
    folders: RefCell<HashSet<PathBuf>>,
    sends_from_anywhere: Cell<bool>,
}

impl<'a> Opened<'a> {
    pub fn new(logs: &'a LogFiles) -> Self {
        Opened {
            logs,
            held: RefCell::default(),
            contents: RefCell::default(),
            folders: RefCell::default(),
            sends_from_anywhere: Cell::default(),
        }
    }

    /// Whether the worker needs the right to send from addresses that are not the machine's own.
    pub fn sends_from_anywhere(&self) -> bool {
        self.sends_from_anywhere.get()
    }

    /// The logs that were opened, the files that were read, the folders that are written into.
    pub fn into_parts(self) -> (Vec<Arc<LogFile>>, Contents, Vec<PathBuf>) {
        let contents = self.contents.into_inner().into_iter().collect();
        let folders = self.folders.into_inner().into_iter().collect();
        (self.held.into_inner().into_values().collect(), contents, folders)
    }
}

impl Resources for Opened<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(content) = self.contents.borrow().get(path) {
            return Ok(content.clone());
        }
        let content = std::fs::read(path)?;
        self.contents.borrow_mut().insert(path.to_owned(), content.clone());
        Ok(content)
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        let mut held = self.held.borrow_mut();
        if let Some(log) = held.get(path) {
            return Ok(log.clone());
        }
        let log = self.logs.open(path, open_append)?;
        held.insert(path.to_owned(), log.clone());
        Ok(log)
    }

    fn folder(&self, path: &Path) {
        let mut folders = self.folders.borrow_mut();
        if !folders.contains(path) {
            folders.insert(path.to_owned());
        }
    }

    fn send_from_anywhere(&self) {
        self.sends_from_anywhere.set(true);
    }
}

/// What the master handed over; anything else is tried with the worker's own rights.
pub struct Received<'a> {
    logs: &'a LogFiles,
    contents: HashMap<PathBuf, Vec<u8>>,
    files: Mutex<HashMap<PathBuf, File>>,
}

impl<'a> Received<'a> {
    pub fn new(logs: &'a LogFiles, contents: Contents, files: Vec<(PathBuf, File)>) -> Self {
        Received {
            logs,
            contents: contents.into_iter().collect(),
            files: Mutex::new(files.into_iter().collect()),
        }
    }
}

impl Resources for Received<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.contents.get(path) {
            Some(content) => Ok(content.clone()),
            None => std::fs::read(path),
        }
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        self.logs.open(path, |path| {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            match files.remove(path) {
                Some(file) => Ok(file),
                None => open_append(path),
            }
        })
    }
}

#[cfg(test)]
mod tests;
