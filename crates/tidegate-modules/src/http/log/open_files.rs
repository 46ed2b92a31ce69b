//! `open_log_file_cache`: open descriptors of logs whose names have variables.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_core::log_file::open_append;
use tidegate_os::file;

use super::conf::OpenFilesConf;

/// The files that are kept open.
pub(super) struct OpenFiles {
    conf: OpenFilesConf,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_path: HashMap<PathBuf, Entry>,
    /// Uses of all entries so far: the clock is too coarse to order them.
    uses: u64,
}

struct Entry {
    file: Option<Arc<File>>,
    uses: u64,
    used: Instant,
    /// The value of `uses` at its last use.
    last_use: u64,
    /// Time when the name was last found to refer to this file.
    checked: Instant,
}

impl OpenFiles {
    pub(super) fn new(conf: OpenFilesConf) -> OpenFiles {
        OpenFiles { conf, entries: Mutex::default() }
    }

    /// Returns the limits.
    pub(super) fn limits(&self) -> &OpenFilesConf {
        &self.conf
    }

    /// Returns the open file of this name, if it is kept and needs no check of the disk. Never blocks.
    pub(super) fn known(&self, path: &Path, now: Instant) -> Option<Arc<File>> {
        self.entries.try_lock().ok()?.fresh(path, now, &self.conf)
    }

    /// Returns the open file of this name, opened if it is not or if the name refers to another file by now.
    /// Blocks.
    ///
    /// Invariant: at most `max` names are kept, and a descriptor only of those that were used `min_uses` times
    /// within `inactive`. One that was not compared with the disk for `valid` is compared now, and reopened where
    /// its name refers to another file. The lock is held during file access; an event loop uses
    /// [`OpenFiles::known`], which does not wait for it. Source: `open_log_file_cache`.
    pub(super) fn open(&self, path: &Path, now: Instant) -> io::Result<Arc<File>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = entries.fresh(path, now, &self.conf) {
            return Ok(file);
        }
        let Entries { by_path: entries, uses } = &mut *entries;
        *uses += 1;
        let last_use = *uses;
        let since = |then: Instant| now.saturating_duration_since(then);
        let known = entries.get_mut(path).filter(|entry| since(entry.used) < self.conf.inactive);
        if let Some(entry) = known {
            entry.uses += 1;
            (entry.used, entry.last_use) = (now, last_use);
            if let Some(file) = &entry.file {
                if is_same(path, file) {
                    entry.checked = now;
                    return Ok(file.clone());
                }
                entry.file = None;
            }
            let file = Arc::new(open_append(path)?);
            if entry.uses >= self.conf.min_uses {
                entry.file = Some(file.clone());
                entry.checked = now;
            }
            return Ok(file);
        }
        let file = Arc::new(open_append(path)?);
        entries.retain(|_, entry| since(entry.used) < self.conf.inactive);
        if entries.len() >= self.conf.max
            && let Some(oldest) =
                entries.iter().min_by_key(|(_, entry)| entry.last_use).map(|(path, _)| path.clone())
        {
            entries.remove(&oldest);
        }
        let kept = (self.conf.min_uses <= 1).then(|| file.clone());
        let entry = Entry { file: kept, uses: 1, used: now, last_use, checked: now };
        entries.insert(path.to_path_buf(), entry);
        Ok(file)
    }
}

impl Entries {
    /// Returns a file that was used and checked recently, and counts a use of it.
    fn fresh(&mut self, path: &Path, now: Instant, conf: &OpenFilesConf) -> Option<Arc<File>> {
        let entry = self.by_path.get_mut(path)?;
        let file = entry.file.as_ref()?;
        let since = |then: Instant| now.saturating_duration_since(then);
        if since(entry.used) >= conf.inactive || since(entry.checked) >= conf.valid {
            return None;
        }
        self.uses += 1;
        entry.uses += 1;
        (entry.used, entry.last_use) = (now, self.uses);
        Some(file.clone())
    }
}

fn is_same(path: &Path, open: &File) -> bool {
    match (file::stat(path, true), file::fstat(open)) {
        (Ok(named), Ok(open)) => (named.device, named.inode) == (open.device, open.inode),
        _ => false,
    }
}
