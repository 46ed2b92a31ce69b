//! A gate that threads wait at.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A gate that lets through the number of threads that it was opened for.
pub(crate) struct Gate {
    /// Threads that have arrived so far, and how many waiting or later threads may pass.
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

    /// Returns the number of threads that have arrived so far.
    pub(crate) fn arrived(&self) -> usize {
        self.state().0
    }

    /// Waits until this thread may pass.
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
