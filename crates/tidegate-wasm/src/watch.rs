//! How an instance learns that nobody waits for its response any more.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// Shared by the thread that runs an instance and who ends it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    over: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl Watch {
    /// Nobody waits any more: wakes the instance's thread, if it waits for something.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        // A thread that sees the tick which follows sees this too, though ticks order nothing themselves.
        fence(Ordering::SeqCst);
        let waker = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        fence(Ordering::SeqCst);
        self.over.load(Ordering::Acquire)
    }

    /// As [`Watch::is_over`]; if not, has `waker` woken when that changes.
    pub(crate) fn poll_over(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &*waiting {
            Some(known) if known.will_wake(waker) => {}
            _ => *waiting = Some(waker.clone()),
        }
        self.is_over()
    }
}
