//! A store as its callers have it: opening it, filling keys, opening files.

use std::io;
use std::sync::Arc;

use super::failures::DiskFailures;
use super::inner::StoreInner;
use super::options::{Options, ReconfigureError};
use super::walk::Loader;
use crate::disk::Disk;
use crate::fill::{Fill, FillLimits};
use crate::hot::OpenEntry;
use crate::index::Begun;
use crate::key::Key;
use crate::writer::FillWriter;

/// A cache. Cheap to clone; all clones are one cache.
#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<StoreInner>,
}

impl Store {
    /// Opens a cache and creates its directories. Blocks. The files in it are found by `load_step`.
    ///
    /// # Errors
    /// Those of the disk; `ResourceBusy` when another server uses the directory.
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

    /// The settings as they are now.
    pub fn options(&self) -> Arc<Options> {
        self.inner.options()
    }

    /// Takes up new settings; path and levels must be the old ones. Does not block; what no longer
    /// fits goes with the next `manage_step`.
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

    /// Starts to fill a key; if somebody does so already, his fill to follow. Never blocks.
    ///
    /// Where the index has no room, or another key of the same hash is being filled, the fill
    /// goes to its own readers only: nobody else will find it and nothing is stored.
    pub fn begin_fill(&self, key: &Key, now: u64) -> Result<FillWriter, Arc<Fill>> {
        match self.inner.clone().begin_fill(key, now, false) {
            Err(running) if self.inner.is_fill_purged(&running) => {
                Ok(self.take_over_fill(key, now))
            }
            begun => begun,
        }
    }

    /// Starts to fill a key though it may be being filled: nobody new will find the other fill, but
    /// if it becomes whole after all, it is stored. For fills that make no progress. Never blocks.
    pub fn take_over_fill(&self, key: &Key, now: u64) -> FillWriter {
        let inner = &self.inner;
        match inner.clone().begin_fill(key, now, true) {
            Ok(writer) => writer,
            Err(_) => FillWriter::new(inner.new_fill(key, now, false), inner.clone()),
        }
    }

    /// Starts a fill that nobody else will find, for callers who do not share: whichever of several
    /// is whole last is what stays stored. Nothing is stored if the key is removed meanwhile, or was
    /// never looked up. Never blocks.
    pub fn begin_fill_beside(&self, key: &Key, now: u64) -> FillWriter {
        let fill = self.inner.new_fill(key, now, true);
        fill.set_beside();
        FillWriter::new(fill, self.inner.clone())
    }

    /// Opens the file of a key. Blocks, unless the open entry is at hand (see [`crate::Lookup::open`]).
    ///
    /// `None`: there is no such file, or it is torn (then it is removed), or it is another key's
    /// of the same hash. An error: the disk failed; the entry stays known.
    pub fn open_entry(&self, key: &Key, now: u64) -> io::Result<Option<OpenEntry>> {
        let opened = self.inner.open_entry(key, now)?;
        Ok(opened.and_then(|entry| self.inner.unless_purged(key, entry)))
    }

    /// What the disk has refused since the last call. In memory only; never blocks.
    pub fn take_failures(&self) -> Option<DiskFailures> {
        self.inner.failures.take()
    }

    /// Removes a key's file. A fill that runs is left to the readers that it has and stores
    /// nothing, since it may have read what was to be removed. Blocks. Whether anything was known.
    pub fn remove(&self, key: &Key) -> io::Result<bool> {
        self.inner.remove(key.hash())
    }
}

impl StoreInner {
    fn begin_fill(
        self: Arc<Self>,
        key: &Key,
        now: u64,
        replace: bool,
    ) -> Result<FillWriter, Arc<Fill>> {
        let fill = self.new_fill(key, now, true);
        let evicted = |hash, bytes| self.discard_entry(hash, bytes);
        match self.index.begin(key, &fill, now, replace, evicted) {
            Begun::Started { replaced } => {
                replaced.into_iter().for_each(|replaced| replaced.succeeded_by(&fill));
                Ok(FillWriter::new(fill, self))
            }
            Begun::Running(running) => Err(running),
            Begun::Refused => Ok(FillWriter::new(self.new_fill(key, now, false), self)),
        }
    }

    fn new_fill(&self, key: &Key, now: u64, storing: bool) -> Arc<Fill> {
        let options = self.options.read();
        let limits = FillLimits {
            tail_bytes_max: options.fill_tail_bytes_max.max(1) as u64,
            kept_bytes_max: options.memory_body_bytes_max.min(options.fill_tail_bytes_max) as u64,
        };
        drop(options);
        let now = self.purges.after_all(now);
        Fill::new(key.clone(), now, storing, self.index.removals(), limits)
    }
}
