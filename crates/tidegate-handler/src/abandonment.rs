//! How a handler learns that nobody waits for its response any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Told once by the server; asked, or listened to, by the handler.
#[derive(Default)]
pub struct Abandonment {
    told: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

type Listener = Box<dyn FnOnce() + Send>;

impl Abandonment {
    /// Nobody waits any more.
    pub fn tell(&self) {
        let listeners = {
            let mut listeners = self.listeners();
            self.told.store(true, Ordering::Relaxed);
            std::mem::take(&mut *listeners)
        };
        listeners.into_iter().for_each(|listener| listener());
    }

    /// Whether it was told.
    pub fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Has a function called when it is told, or now if it was.
    pub(crate) fn listen(&self, listener: Listener) {
        let mut listeners = self.listeners();
        if !self.is_told() {
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
        f.debug_tuple("Abandonment").field(&self.is_told()).finish()
    }
}
