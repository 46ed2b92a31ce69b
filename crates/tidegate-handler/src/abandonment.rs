//! The signal to a handler that its request is abandoned.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A signal that the server sets once, and that the handler polls or listens to.
#[derive(Default)]
pub struct Abandonment {
    is_signalled: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

type Listener = Box<dyn FnOnce() + Send>;

impl Abandonment {
    /// Sets the signal and calls the listeners.
    pub fn signal(&self) {
        let listeners = {
            let mut listeners = self.listeners();
            self.is_signalled.store(true, Ordering::Relaxed);
            std::mem::take(&mut *listeners)
        };
        listeners.into_iter().for_each(|listener| listener());
    }

    /// Returns whether the signal is set.
    pub fn is_signalled(&self) -> bool {
        self.is_signalled.load(Ordering::Relaxed)
    }

    /// Calls a function when the signal is set, at once if it is.
    pub(crate) fn listen(&self, listener: Listener) {
        let mut listeners = self.listeners();
        if !self.is_signalled() {
            return listeners.push(listener);
        }
        drop(listeners);
        listener();
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Abandonment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Abandonment").field(&self.is_signalled()).finish()
    }
}
