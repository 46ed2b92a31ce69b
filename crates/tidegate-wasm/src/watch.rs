//! The signal to an instance that its request is abandoned.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The state of a request, shared by the instance's thread and the server.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    over: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl Watch {
    /// Marks the request as abandoned and wakes the instance's thread.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        // A thread that sees the following tick sees this store as well, though ticks order no memory accesses.
        fence(Ordering::SeqCst);
        let waker = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether the request is abandoned.
    pub(crate) fn is_over(&self) -> bool {
        fence(Ordering::SeqCst);
        self.over.load(Ordering::Acquire)
    }

    /// Like [`Watch::is_over`]; if the request is not abandoned, `waker` is woken when it is.
    pub(crate) fn poll_over(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match &*waiting {
            Some(known) if known.will_wake(waker) => {}
            _ => *waiting = Some(waker.clone()),
        }
        self.is_over()
    }
}
