//! Histograms of times that many threads count in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{BUCKETS, bucket};

/// How many times were not above each of [`BOUNDS_MILLIS`](super::BOUNDS_MILLIS) and above the one before, and longer
/// ones; and their sum.
#[derive(Debug)]
pub struct TimeCounts {
    counts: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

impl Default for TimeCounts {
    fn default() -> TimeCounts {
        let counts = [const { AtomicU64::new(0) }; BUCKETS];
        TimeCounts { counts, micros: AtomicU64::new(0) }
    }
}

impl TimeCounts {
    /// Counts a time.
    pub fn count(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts[usize::from(bucket(micros))].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the counts, and the sum in microseconds.
    pub fn totals(&self) -> ([u64; BUCKETS], u64) {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        (counts, self.micros.load(Ordering::Relaxed))
    }

    /// Sets all counters to zero.
    pub fn reset(&self) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.micros.store(0, Ordering::Relaxed);
    }
}
