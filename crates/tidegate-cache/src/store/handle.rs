//! A store for its callers: opening it, filling keys, opening files.

use std::io;
use std::sync::Arc;

use super::failures::DiskFailures;
use super::inner::StoreInner;
use super::options::{Options, ReconfigureError};
use super::walk::Loader;
use crate::disk::Disk;
use crate::fill::{Fill, FillLimits};
use crate::hot::OpenEntry;
use crate::index::{BeginResult, Replaceable};
use crate::key::Key;
use crate::writer::FillWriter;

/// Called with a running fill, and with the one that takes its place.
type Replaced = fn(&Arc<Fill>, &Arc<Fill>);

const SUCCEEDED: Replaced = |running, fill| running.succeeded_by(fill);

/// A cache. Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<StoreInner>,
}

impl Store {
    /// Opens a cache and creates its directories. Blocks. `load_step` finds the files in it.
    ///
    /// # Errors
    /// Errors of the disk; `ResourceBusy` when another server uses the directory.
    pub fn open(options: Options, disk: Arc<dyn Disk>) -> io::Result<Store> {
        disk.create_directory(&options.path)?;
        if let Some(directory) = &options.temporary_directory {
            disk.create_directory(directory)?;
        }
        let inner = StoreInner::new(options, disk);
        inner.lock_directory()?;
        *inner.loader.lock() = Loader::new(&inner.options(), inner.is_owner());
        Ok(Store { inner })
    }

    /// Returns the current settings.
    pub fn options(&self) -> Arc<Options> {
        self.inner.options()
    }

    /// Applies new settings; path and levels must be the old ones. Does not block. Objects that no longer fit
    /// are removed by the next `manage_step`.
    pub fn reconfigure(&self, options: Options) -> Result<(), ReconfigureError> {
        let mut current = self.inner.options.write();
        if current.path != options.path {
            return Err(ReconfigureError::Path);
        }
        if current.levels != options.levels {
            return Err(ReconfigureError::Levels);
        }
        self.inner.index.limit_keys(options.keys_bytes);
        self.inner.hot.limit(options.memory_bytes, options.open_files_max);
        *current = Arc::new(options);
        Ok(())
    }

    /// Starts to fill a key; returns the running fill, to be followed, if there is one. Never blocks.
    ///
    /// When the index has no room, or another key of the same hash is being filled, the fill serves its own
    /// readers only: no other request finds it, and nothing is stored.
    pub fn begin_fill(&self, key: &Key, now: u64) -> Result<FillWriter, Arc<Fill>> {
        match self.inner.begin_fill(key, now, None) {
            Err(running) if self.inner.is_fill_purged(&running) => {
                Ok(self.take_over_fill(key, now))
            }
            begun => begun,
        }
    }

    /// Starts to fill a key though a fill of it may be running. New requests do not find the other fill, but
    /// if it becomes complete after all, it is stored. It is for fills that make no progress. Never blocks.
    pub fn take_over_fill(&self, key: &Key, now: u64) -> FillWriter {
        self.begin_in_place(key, now, SUCCEEDED)
    }

    /// As [`Store::take_over_fill`], where the running fill is `silent`; else returns the one that is running, which
    /// another request has begun in its place. Never blocks.
    pub fn replace_fill(
        &self,
        key: &Key,
        silent: &Arc<Fill>,
        now: u64,
    ) -> Result<FillWriter, Arc<Fill>> {
        self.inner.begin_fill(key, now, Some((Replaceable::This(silent), SUCCEEDED)))
    }

    /// Starts to fill a key in the place of a running fill.
    fn begin_in_place(&self, key: &Key, now: u64, replaced: Replaced) -> FillWriter {
        let inner = &self.inner;
        match inner.begin_fill(key, now, Some((Replaceable::Any, replaced))) {
            Ok(writer) => writer,
            Err(_) => FillWriter::new(inner.new_fill(key, now, false), inner.clone()),
        }
    }

    /// Starts to fill a key for a caller that uses nothing of what is stored or being filled. New requests find this fill
    /// in place of a running one, which continues for its readers, and is found again if this one fails. If that
    /// one has its last byte, they find it until this one has, and no older object meanwhile: others may have got
    /// it whole. Never blocks.
    pub fn refill(&self, key: &Key, now: u64) -> FillWriter {
        match self.begin_fill(key, now) {
            Ok(writer) => writer,
            Err(running) if running.has_last_byte() => {
                // Of the two, the one that is complete last is kept.
                self.begin_fill_beside(key, now)
            }
            Err(_) => self.begin_in_place(key, now, |running, fill| fill.hide(running)),
        }
    }

    /// Starts a fill that no other request finds, for callers that do not share. Of several such fills the
    /// one that completes last is kept. Nothing is stored if the key is removed meanwhile, or was never
    /// looked up. Never blocks.
    pub fn begin_fill_beside(&self, key: &Key, now: u64) -> FillWriter {
        let fill = self.inner.new_fill(key, now, true);
        fill.set_beside(true);
        FillWriter::new(fill, self.inner.clone())
    }

    /// As [`Store::begin_fill_beside`], for the response to the request of another fill of the key: a removal since that
    /// one began is of this response as well.
    pub fn begin_fill_beside_for(&self, fill: &Fill) -> FillWriter {
        let began = (fill.started_at(), fill.removals);
        let own = self.inner.fill_of(fill.key(), began, true);
        own.set_beside(true);
        FillWriter::new(own, self.inner.clone())
    }

    /// Opens the file of a key. Blocks, unless the entry is open (see [`crate::Lookup::open`]).
    ///
    /// Returns `None` when there is no such file, when it is torn (it is then removed), or when it belongs to
    /// another key of the same hash.
    ///
    /// # Errors
    /// The disk failed; the entry stays in the index.
    pub fn open_entry(&self, key: &Key, now: u64) -> io::Result<Option<OpenEntry>> {
        let opened = self.inner.open_entry(key, now)?;
        Ok(opened.and_then(|entry| self.inner.unless_purged(key, entry, now)))
    }

    /// Returns the failures of the disk since the last call. In memory only; never blocks.
    pub fn take_failures(&self) -> Option<DiskFailures> {
        self.inner.failures.take()
    }

    /// Removes the object of a generation ([`crate::EntryInfo::generation`]), and not one that was stored since. A running
    /// fill goes on. Returns whether there was one. Blocks.
    pub fn remove_generation(&self, key: &Key, generation: u64) -> io::Result<bool> {
        self.inner.remove_generation(key.hash(), generation)
    }

    /// Removes a key's file. A running fill continues for its present readers and stores nothing, since it
    /// may have read the response that was to be removed. Returns whether there was an entry or a fill.
    /// Blocks.
    pub fn remove(&self, key: &Key) -> io::Result<bool> {
        self.inner.remove(key.hash())
    }
}

impl StoreInner {
    fn begin_fill(
        self: &Arc<Self>,
        key: &Key,
        now: u64,
        replaced: Option<(Replaceable<'_>, Replaced)>,
    ) -> Result<FillWriter, Arc<Fill>> {
        let fill = self.new_fill(key, now, true);
        let evicted = |hash, bytes| self.discard_entry(hash, bytes);
        let (replaceable, replaced) = replaced.unzip();
        match self.index.begin(key, &fill, now, replaceable, evicted) {
            BeginResult::Started { replaced: running } => {
                if let (Some(running), Some(replaced)) = (running, replaced) {
                    replaced(&running, &fill);
                }
                Ok(FillWriter::new(fill, self.clone()))
            }
            BeginResult::Running(running) => Err(running),
            BeginResult::Refused => {
                Ok(FillWriter::new(self.new_fill(key, now, false), self.clone()))
            }
        }
    }

    fn new_fill(&self, key: &Key, now: u64, storing: bool) -> Arc<Fill> {
        let began = self.purges.after_all(now);
        self.fill_of(key, (began, self.index.removals(key.hash())), storing)
    }

    fn fill_of(&self, key: &Key, (began, removals): (u64, u64), storing: bool) -> Arc<Fill> {
        let options = self.options.read();
        let limits = FillLimits {
            tail_bytes_max: options.fill_tail_bytes_max.max(1) as u64,
            kept_bytes_max: options.memory_body_bytes_max.min(options.fill_tail_bytes_max) as u64,
        };
        drop(options);
        Fill::new(key.clone(), began, storing, removals, limits)
    }
}
