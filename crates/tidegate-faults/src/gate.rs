//! What threads wait for until they are let through.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Lets as many through as it was opened for.
pub(crate) struct Gate {
    /// Threads that have come so far, and how many of them and later ones may go through.
    state: Mutex<(usize, usize)>,
    opened: Condvar,
}

impl Gate {
    pub(crate) const fn new() -> Gate {
        Gate { state: Mutex::new((0, 0)), opened: Condvar::new() }
    }

    /// Lets `count` threads through.
    pub(crate) fn open(&self, count: usize) {
        self.state().1 += count;
        self.opened.notify_all();
    }

    /// Threads that have come so far.
    pub(crate) fn arrived(&self) -> usize {
        self.state().0
    }

    /// Waits until it is let through.
    pub(crate) fn pass(&self) {
        let mut state = self.state();
        state.0 += 1;
        let waited = self.opened.wait_while(state, |state| state.1 == 0);
        waited.unwrap_or_else(PoisonError::into_inner).1 -= 1;
    }

    fn state(&self) -> MutexGuard<'_, (usize, usize)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
