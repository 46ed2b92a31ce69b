//! Examples of what a histogram counts: the latest traced request of each bucket, for OpenMetrics.

use std::sync::{Mutex, PoisonError, TryLockError};

use super::{BUCKETS, bucket};

/// A request that was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// The identifier of its trace.
    pub trace: [u8; 16],
    /// How long it took, in microseconds.
    pub micros: u64,
    /// When it ended, in Unix milliseconds.
    pub unix_millis: u64,
}

/// The latest one of each bucket.
#[derive(Debug, Default)]
pub(super) struct Exemplars(Mutex<[Option<Exemplar>; BUCKETS]>);

impl Exemplars {
    /// Keeps an example in place of an earlier one. While another thread does the same, that one is as good: no thread
    /// waits.
    pub(super) fn keep(&self, exemplar: Exemplar) {
        let mut all = match self.0.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        all[usize::from(bucket(exemplar.micros))] = Some(exemplar);
    }

    pub(super) fn all(&self) -> [Option<Exemplar>; BUCKETS] {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
