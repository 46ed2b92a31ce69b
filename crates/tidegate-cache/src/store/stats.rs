//! The statistics of a store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::handle::Store;
use super::inner::StoreInner;
use crate::fill::Fill;

/// The statistics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys in the index, with or without a file.
    pub keys: usize,
    /// Keys that `keys_zone` has room for.
    pub keys_max: usize,
    /// Keys that have a file.
    pub entries: usize,
    /// Room taken by files, in bytes.
    pub disk_bytes: u64,
    /// The same with the bytes that fills have reserved or written, and those that are to be removed; never
    /// more than `max_size`, unless that was lowered or the loader found more.
    pub charged_bytes: u64,
    /// Bytes of memory that open entries take, small bodies included.
    pub memory_bytes: usize,
    /// Descriptors that open entries hold.
    pub open_files: usize,
    /// Files removed for want of room or after `inactive`.
    pub evicted: u64,
    /// Fills that were not stored for want of room (`max_size`, `min_free`).
    pub refused: u64,
    /// Files found torn, short or foreign, and removed.
    pub torn: u64,
    /// Failed disk calls, removals included.
    pub disk_errors: u64,
    /// Whether the loader has walked the whole cache since the start.
    pub loaded: bool,
}

impl Store {
    /// Returns the current statistics. Each value is exact; together they need not be of one moment. Never
    /// blocks for long.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Returns the running fills that requests find by their keys, in no order. Never blocks for long.
    pub fn fills(&self) -> Vec<Arc<Fill>> {
        self.inner.index.fills()
    }
}

impl StoreInner {
    fn stats(&self) -> Stats {
        let (memory_bytes, open_files) = self.hot.totals();
        Stats {
            keys: self.index.keys(),
            keys_max: self.index.keys_max(),
            entries: self.index.entries(),
            disk_bytes: self.index.disk_bytes(),
            charged_bytes: self.index.charged(),
            memory_bytes,
            open_files,
            evicted: self.counters.evicted.load(Ordering::Relaxed),
            refused: self.counters.refused.load(Ordering::Relaxed),
            torn: self.counters.torn.load(Ordering::Relaxed),
            disk_errors: self.counters.disk_errors.load(Ordering::Relaxed),
            loaded: self.is_loaded(),
        }
    }
}
