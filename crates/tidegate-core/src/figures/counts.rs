//! A row of counters for each thread.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use super::thread::Slots;

/// A row of `N` counters for each thread that uses it; readers sum them.
pub struct Counts<const N: usize> {
    rows: Slots<Row<N>>,
    /// The sums at the last reset.
    before: Mutex<[u64; N]>,
}

struct Row<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Row<N> {
    fn default() -> Row<N> {
        Row([const { AtomicU64::new(0) }; N])
    }
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Counts<N> {
        Counts { rows: Slots::default(), before: Mutex::new([0; N]) }
    }
}

impl<const N: usize> Counts<N> {
    /// Adds to counters of the calling thread, from `first` on; those that do not exist are not counted.
    pub fn add_all<const M: usize>(&self, first: usize, changes: [u64; M]) {
        let row = self.rows.own().and_then(|row| row.0.get(first..));
        for (counter, change) in row.into_iter().flatten().zip(changes) {
            super::add(counter, change);
        }
    }

    /// Returns the sums since the last reset.
    pub fn totals(&self) -> [u64; N] {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = self.sums();
        totals.iter_mut().zip(before.iter()).for_each(|(sum, before)| *sum -= before);
        totals
    }

    /// Lets all sums start at zero again.
    pub fn reset(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        *before = self.sums();
    }

    fn sums(&self) -> [u64; N] {
        let mut sums = [0; N];
        for row in self.rows.all() {
            sums.iter_mut().zip(&row.0).for_each(|(sum, counter)| *sum += counter.load(Relaxed));
        }
        sums
    }
}
