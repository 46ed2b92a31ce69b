//! Waiting for events without sleeping: one bell per case, rung by each event that may change a
//! condition (an origin's counter, a file of the case's directory, the server's exit), and
//! one deadline that bounds every wait of the case.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The reason why a case failed, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl Failure {
    /// Returns a failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The moment at which a case stops waiting for anything.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the moment `span` from now.
    pub fn after(span: Duration) -> Self {
        Self(Instant::now() + span)
    }

    /// Returns the remaining time, or the failure that it is over.
    pub fn remaining(self) -> Result<Duration, Failure> {
        match self.0.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(Failure::new("the case's deadline passed while waiting")),
        }
    }
}

/// A counter of events that wakes all waiting threads.
#[derive(Debug, Default)]
pub struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// Wakes all waiting threads after a change.
    pub fn ring(&self) {
        *locked(&self.rings) += 1;
        self.rung.notify_all();
    }

    /// Waits until `holds` returns true; it is called again after each ring, and at least every
    /// `at_most` when that is given (for conditions that no event announces).
    pub fn wait_until(
        &self,
        deadline: Deadline,
        at_most: Option<Duration>,
        mut holds: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        loop {
            let seen = *locked(&self.rings);
            if holds()? {
                return Ok(());
            }
            let left = deadline.remaining()?;
            let pause = at_most.map_or(left, |most| most.min(left));
            let rings = locked(&self.rings);
            let _woken = self
                .rung
                .wait_timeout_while(rings, pause, |rings| *rings == seen)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Locks a mutex; a panic of another actor does not hide that actor's message behind a second one.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
