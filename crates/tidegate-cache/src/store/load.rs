//! The cache loader: walks the cache directory after a start and adds the files that it finds. Blocks.
//!
//! First it restores the index of the last owner. Then it compares the directory with it: a file that the
//! index has, of the right size, is not opened.
//!
//! It touches only names that a store makes: directories and files as `levels` places them, and temporary
//! files. All other names are left alone.

use std::sync::atomic::Ordering;

use super::files::Examined;
use super::handle::Store;
use super::inner::StoreInner;
use super::options::Options;
use super::room::present;
use super::walk::{Directory, DirectoryKind};
use crate::disk::DirectoryItem;
use crate::index::FileCheck;
use crate::journal::journal_sequence;
use crate::key::{KeyHash, is_temporary_name};

/// The result of one step of the loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Entries added to the index.
    pub added: usize,
    /// Torn files, misplaced files and leftovers that were removed.
    pub removed: usize,
    /// Items with other names, left alone.
    pub ignored: usize,
    /// Directories and files that could not be read.
    pub failed: usize,
    /// Whether the index of the last owner is being restored: the next step should follow at once.
    pub restoring: bool,
    /// Whether the whole cache has been walked.
    pub done: bool,
}

impl Store {
    /// Runs one step of the cache loader: examines about `budget` files (`loader_files`) and adds them to the
    /// index; removes leftovers. Blocks.
    pub fn load_step(&self, now: u64, budget: usize) -> LoadReport {
        self.inner.load_step(now, budget)
    }
}

impl StoreInner {
    /// Runs one step of the loader's walk, whose state is [`super::walk::Loader`]:
    ///
    /// ```text
    /// restoring ──→ walking: a file, or the next directory ──→ checking files not found, shard by shard ──→
    /// loaded
    /// ```
    /// Each iteration of the loop takes one item off a list or fills a list; a list holds the items of one
    /// directory or one shard of the index. The loader's lock is held, so two steps never run at once. When a
    /// guest becomes the owner, a new walk begins between two steps. Until `loaded` a miss of the index is
    /// not final: [`StoreInner::open_entry`] looks on the disk. Sources: `loader_files`, `loader_sleep`.
    pub(super) fn load_step(&self, now: u64, budget: usize) -> LoadReport {
        let options = self.options();
        let mut report = LoadReport::default();
        let mut loader = self.loader.lock();
        // The index of the last owner comes first: the walk compares the directory with it.
        if let Some(restoring) = loader.restoring.take() {
            loader.restoring = self.restore_step(&options, restoring, now);
            report.restoring = true;
            return report;
        }
        for _ in 0..budget.max(1) {
            if let Some(item) = loader.items.pop() {
                let place = loader.place;
                match (place, item.is_directory) {
                    (DirectoryKind::Cache(depth), true)
                        if options.levels.is_directory(depth, &item.name) =>
                    {
                        let place = DirectoryKind::Cache(depth + 1);
                        loader.directories.push(Directory { path: item.path, place });
                    }
                    (_, true) => report.ignored += 1,
                    (place, false) => self.load_file(&options, place, &item, now, &mut report),
                }
            } else if let Some(directory) = loader.directories.pop() {
                loader.place = directory.place;
                match self.disk.list(&directory.path) {
                    Ok(items) => loader.items = items,
                    Err(error) => {
                        self.disk_failed("listing a directory", &error);
                        report.failed += 1;
                    }
                }
            } else if let Some(hash) = loader.unseen.pop() {
                // All directories were walked: check the files of the snapshot that were not found.
                self.check_unseen(&hash);
            } else if let Some(unseen) = self.index.unseen(loader.shards_checked) {
                loader.shards_checked += 1;
                loader.unseen = unseen;
            } else {
                self.counters.loaded.store(true, Ordering::Release);
                report.done = true;
                return report;
            }
        }
        report
    }

    /// Adds a file of the walk, or removes a file that no request can find: a journal or a temporary file of
    /// an earlier process, a file of other `levels`, a torn one. Names that no store makes are left alone.
    ///
    /// A temporary file is left over when it was last written before this process started. A newer one is
    /// being filled, by this process or by another one of the same server instance.
    fn load_file(
        &self,
        options: &Options,
        place: DirectoryKind,
        item: &DirectoryItem,
        now: u64,
        report: &mut LoadReport,
    ) {
        if item.name.starts_with('.') {
            if journal_sequence(&item.name).is_some_and(|number| self.is_stale_journal(number)) {
                report.removed += usize::from(self.remove_quietly(&item.path));
            }
            return;
        }
        if is_temporary_name(&item.name) {
            match self.disk.modified_at(&item.path) {
                Ok(modified) if modified < options.started_at => {
                    report.removed += usize::from(self.remove_quietly(&item.path));
                }
                // Written by this process, or by the one that it replaces.
                Ok(_) => report.ignored += 1,
                Err(_) => report.failed += 1,
            }
            return;
        }
        let Some(hash) = KeyHash::from_hexadecimal(&item.name) else {
            report.ignored += 1;
            return;
        };
        if place == DirectoryKind::TemporaryDirectory {
            report.ignored += 1;
            return;
        }
        let _path_lock = self.lock_path(&hash);
        if self.path_of(&hash) != item.path {
            // A file of other levels: no request would find it.
            report.removed += usize::from(self.remove_quietly(&item.path));
            return;
        }
        self.load_entry(&hash, item, now, report);
    }

    /// Compares a file under its right name with the index. The caller has its path lock.
    fn load_entry(&self, hash: &KeyHash, item: &DirectoryItem, now: u64, report: &mut LoadReport) {
        if self.remove_of_later(hash, item, now) {
            report.removed += 1;
            return;
        }
        let generation = match self.disk.file_bytes(&item.path) {
            Ok(bytes) => match self.index.check_file(hash, bytes) {
                FileCheck::Same => return,
                FileCheck::Other(generation) => Some(generation),
                FileCheck::Unknown => None,
            },
            Err(_) => None,
        };
        match self.examine_header(hash, &item.path) {
            Ok(Examined::Whole(opened)) => match generation {
                None => {
                    let added = self.add_found(hash, &opened.header, now);
                    report.added += usize::from(added.is_some());
                }
                // Replaced since the snapshot by the owner of that time.
                Some(generation) => {
                    let header = &opened.header;
                    let known = present(&self.index, header.layout, header.body_bytes);
                    self.index.renew(hash, generation, known, 0);
                }
            },
            Ok(Examined::Torn) => {
                if let Some(generation) = generation {
                    self.index.forget_file(hash, generation);
                    self.note_removed(hash);
                }
                self.remove_torn(&item.path);
                report.removed += 1;
            }
            Ok(Examined::Nothing) => {}
            Err(_) => report.failed += 1,
        }
    }

    /// Removes a file of a clock that was ahead: once the time has come it would be like any other. Returns whether
    /// it was one.
    fn remove_of_later(&self, hash: &KeyHash, item: &DirectoryItem, now: u64) -> bool {
        if self.disk.modified_at(&item.path).is_ok_and(|at| at <= now) {
            return false;
        }
        let Ok(Examined::Whole(opened)) = self.examine_header(hash, &item.path) else {
            return false;
        };
        if !self.purges.is_of_later(&opened.header.metadata, now) {
            return false;
        }
        if let Some(known) = self.index.peek(hash).present {
            self.forget_file(hash, known.generation);
        }
        self.remove_quietly(&item.path)
    }
}
