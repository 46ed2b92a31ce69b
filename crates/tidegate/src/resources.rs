//! Files that a plan is built from: opened here by the master, passed to the worker.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_conf::NameLookup;
use tidegate_core::log_file::{LogFile, LogFiles};
use tidegate_os::{Stat, file};
use tidegate_plan::{Machine, ReloadState, Resources, SystemNames};

use crate::generation::FIRST_GENERATION;

/// Contents of files by their paths.
pub(crate) type Contents = Vec<(PathBuf, Vec<u8>)>;

/// Addresses of host names; empty for an unknown name.
pub(crate) type Names = Vec<(String, Vec<IpAddr>)>;

/// Results of queries made while a plan was built, for building the same plan again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub machine: Machine,
    pub names: Names,
    /// Other files that the configuration names: certificates, keys, passwords.
    pub contents: Contents,
}

/// Directories that the worker needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directories {
    /// Directories that requests write into.
    pub written: Vec<PathBuf>,
    /// Directories that only one server may use.
    pub claimed: Vec<PathBuf>,
}

/// Files of certificates and keys, and what was parsed of them, for the next generation
/// (`ssl_object_cache_inheritable`). Files that the last two generations did not name are forgotten.
#[derive(Default)]
pub(crate) struct KeptFiles {
    pub parsed: ReloadState,
    files: Mutex<HashMap<PathBuf, KeptFile>>,
}

struct KeptFile {
    stat: Stat,
    content: Vec<u8>,
    generation: u64,
}

impl KeptFiles {
    /// Forgets the files that the generations before `generation` have not used.
    pub(crate) fn begin(&self, generation: u64) {
        self.files().retain(|_, file| file.generation + 1 >= generation);
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, KeptFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the content of a file; it is read only if it is another file or has changed.
    fn content(&self, path: &Path, generation: u64) -> io::Result<Vec<u8>> {
        // Described before it is read, so that a change in between is noticed by the next generation.
        let stat = file::stat(path, true)?;
        if let Some(kept) = self.files().get_mut(path)
            && is_unchanged(&kept.stat, &stat)
        {
            kept.generation = generation;
            return Ok(kept.content.clone());
        }
        let content = std::fs::read(path)?;
        let kept = KeptFile { stat, content: content.clone(), generation };
        self.files().insert(path.to_owned(), kept);
        Ok(content)
    }
}

/// Compares inode and time of modification as nginx does, in seconds; the fractions of both count where both have one, so
/// that two changes within a second are two.
fn is_unchanged(old: &Stat, new: &Stat) -> bool {
    let fractions =
        old.mtime_nanos == new.mtime_nanos || old.mtime_nanos == 0 || new.mtime_nanos == 0;
    (old.inode, old.device, old.mtime_seconds) == (new.inode, new.device, new.mtime_seconds)
        && fractions
}

/// The file system, with a memory of the files that were read.
pub(crate) struct MasterResources<'a> {
    logs: &'a LogFiles,
    kept: &'a KeptFiles,
    generation: u64,
    /// Logs are kept open as long as this lives, so that each is opened once.
    held: RefCell<HashMap<PathBuf, Arc<LogFile>>>,
    /// Logs that could not be opened: reported once, however many servers write to them.
    refused: RefCell<HashSet<PathBuf>>,
    /// Each file is read once, however many servers name it: all get the same bytes, and the worker gets it once.
    contents: RefCell<HashMap<PathBuf, Vec<u8>>>,
    machine: Machine,
    /// Each name is looked up once.
    names: RefCell<HashMap<String, Vec<IpAddr>>>,
    directories: RefCell<HashSet<PathBuf>>,
    claimed: RefCell<HashSet<PathBuf>>,
    sends_from_anywhere: Cell<bool>,
}

impl<'a> MasterResources<'a> {
    pub(crate) fn new(logs: &'a LogFiles, kept: &'a KeptFiles, generation: u64) -> Self {
        MasterResources {
            logs,
            kept,
            generation,
            held: RefCell::default(),
            refused: RefCell::default(),
            contents: RefCell::default(),
            machine: Machine::look(),
            names: RefCell::default(),
            directories: RefCell::default(),
            claimed: RefCell::default(),
            sends_from_anywhere: Cell::default(),
        }
    }

    /// Whether the worker needs the right to send from addresses that are not the machine's own.
    pub(crate) fn sends_from_anywhere(&self) -> bool {
        self.sends_from_anywhere.get()
    }

    /// Returns the logs that were opened, the findings, and the directories that the worker needs.
    pub(crate) fn into_parts(self) -> (Vec<Arc<LogFile>>, Findings, Directories) {
        let findings = Findings {
            machine: self.machine,
            names: self.names.into_inner().into_iter().collect(),
            contents: self.contents.into_inner().into_iter().collect(),
        };
        let directories = Directories {
            written: self.directories.into_inner().into_iter().collect(),
            claimed: self.claimed.into_inner().into_iter().collect(),
        };
        (self.held.into_inner().into_values().collect(), findings, directories)
    }
}

impl Resources for MasterResources<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(content) = self.contents.borrow().get(path) {
            return Ok(content.clone());
        }
        let content = std::fs::read(path)?;
        self.contents.borrow_mut().insert(path.to_owned(), content.clone());
        Ok(content)
    }

    fn read_unless_unchanged(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(content) = self.contents.borrow().get(path) {
            return Ok(content.clone());
        }
        let content = self.kept.content(path, self.generation)?;
        self.contents.borrow_mut().insert(path.to_owned(), content.clone());
        Ok(content)
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        if self.refused.borrow().contains(path) {
            // The plan has failed by then; this log is never written to.
            let nothing = File::options().append(true).open(tidegate_os::platform::NULL)?;
            return Ok(Arc::new(LogFile::new(path.to_owned(), nothing)));
        }
        let mut held = self.held.borrow_mut();
        if let Some(log) = held.get(path) {
            return Ok(log.clone());
        }
        let open = |path: &Path| match self.generation {
            // As nginx does, a server that starts waits for the reader of a FIFO.
            FIRST_GENERATION => self.logs.append(path),
            _ => self.logs.append_at_once(path),
        };
        let log = self.logs.open(path, open).inspect_err(|_| {
            self.refused.borrow_mut().insert(path.to_owned());
        })?;
        held.insert(path.to_owned(), log.clone());
        Ok(log)
    }

    fn private_log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        self.logs.make_private(path);
        self.log_file(path)
    }

    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Some(known) = self.names.borrow().get(host) {
            return as_found(known);
        }
        let found = SystemNames.addresses(host);
        let known = found.as_ref().cloned().unwrap_or_default();
        self.names.borrow_mut().insert(host.to_owned(), known);
        found
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }

    fn directory(&self, path: &Path) {
        let mut directories = self.directories.borrow_mut();
        if !directories.contains(path) {
            directories.insert(path.to_owned());
        }
    }

    fn claim(&self, path: &Path) {
        self.claimed.borrow_mut().insert(path.to_owned());
    }

    fn send_from_anywhere(&self) {
        self.sends_from_anywhere.set(true);
    }
}

/// Returns stored addresses; an empty list stands for an unknown name.
fn as_found(known: &[IpAddr]) -> io::Result<Vec<IpAddr>> {
    match known {
        [] => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(known.to_vec()),
    }
}

/// The resources that the master passed on. Only unknown ones are looked up with the worker's own rights: files and
/// names that have been added while the server runs (`state`).
pub(crate) struct WorkerResources<'a> {
    logs: &'a LogFiles,
    machine: Machine,
    names: HashMap<String, Vec<IpAddr>>,
    contents: HashMap<PathBuf, Vec<u8>>,
    files: Mutex<HashMap<PathBuf, File>>,
}

impl<'a> WorkerResources<'a> {
    pub(crate) fn new(logs: &'a LogFiles, findings: Findings, files: Vec<(PathBuf, File)>) -> Self {
        WorkerResources {
            logs,
            machine: findings.machine,
            names: findings.names.into_iter().collect(),
            contents: findings.contents.into_iter().collect(),
            files: Mutex::new(files.into_iter().collect()),
        }
    }

    /// Returns the open files that no log uses: those of logs that were open before.
    pub(crate) fn into_unused(self) -> Vec<(PathBuf, File)> {
        self.files.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
    }
}

impl Resources for WorkerResources<'_> {
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
                None => self.logs.append(path),
            }
        })
    }

    fn private_log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        self.logs.make_private(path);
        self.log_file(path)
    }

    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        match self.names.get(host) {
            Some(known) => as_found(known),
            None => SystemNames.addresses(host),
        }
    }

    fn machine(&self) -> Machine {
        self.machine.clone()
    }
}

#[cfg(test)]
mod tests;
