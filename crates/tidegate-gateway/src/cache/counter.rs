//! Counters of what a cache shares with others, and their names.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A figure of counters `C`: its name in the API and (behind a prefix, before `_total`) as a metric, its description, and how to
/// read it.
pub(crate) struct Figure<C: 'static> {
    pub name: &'static str,
    pub help: &'static str,
    pub of: fn(&C) -> u64,
}

/// Makes a figure.
pub(crate) const fn figure<C>(
    name: &'static str,
    help: &'static str,
    of: fn(&C) -> u64,
) -> Figure<C> {
    Figure { name, help, of }
}
