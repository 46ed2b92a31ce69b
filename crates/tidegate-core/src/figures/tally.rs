//! Counters of events that are rare, or that are counted under a lock anyway: limits, name servers, handshakes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A row of counters, changed by all threads.
pub struct Tally {
    counters: Box<[AtomicU64]>,
    /// The counts at the last reset.
    before: Mutex<Box<[u64]>>,
}

impl Tally {
    /// Makes `width` counters.
    pub fn new(width: usize) -> Tally {
        Tally {
            counters: (0..width).map(|_| AtomicU64::new(0)).collect(),
            before: Mutex::new(vec![0; width].into()),
        }
    }

    /// Counts an event; one without a counter is not counted.
    pub fn count(&self, event: usize) {
        if let Some(counter) = self.counters.get(event) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counts since the last reset.
    pub fn totals(&self) -> Vec<u64> {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        self.now().zip(before.iter()).map(|(now, before)| now - before).collect()
    }

    /// Lets all counts start at zero again.
    pub fn reset(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        *before = self.now().collect();
    }

    fn now(&self) -> impl Iterator<Item = u64> {
        self.counters.iter().map(|counter| counter.load(Ordering::Relaxed))
    }
}
