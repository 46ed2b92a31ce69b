//! Draining: counting the work that still runs, and asking it to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

/// Counts connections (or other work) of one generation, on any number of threads.
#[derive(Clone, Debug)]
pub struct Drain {
    shared: Arc<DrainShared>,
}

/// One counted piece of work; it ends when the guard is dropped.
#[derive(Debug)]
pub struct DrainGuard {
    shared: Arc<DrainShared>,
}

/// Open → draining, finally ([`Drain::begin`]). Work may be counted in both states.
///
/// Invariant: `live` is the number of guards. It is 0 and draining when [`Drain::drained`] ends, and may grow again
/// after that: the caller has stopped what begins new work.
#[derive(Debug)]
struct DrainShared {
    live: AtomicUsize,
    closing: watch::Sender<bool>,
    empty: Notify,
}

impl Default for Drain {
    fn default() -> Self {
        Drain::new()
    }
}

impl Drain {
    /// Makes a counter with nothing counted, not draining.
    pub fn new() -> Drain {
        let shared = DrainShared {
            live: AtomicUsize::new(0),
            closing: watch::Sender::new(false),
            empty: Notify::new(),
        };
        Drain { shared: Arc::new(shared) }
    }

    /// Counts one more piece of work. Allowed while draining: a connection that was accepted before may still have to
    /// be counted.
    pub fn guard(&self) -> DrainGuard {
        self.shared.live.fetch_add(1, Ordering::Relaxed);
        DrainGuard { shared: Arc::clone(&self.shared) }
    }

    /// Asks all counted work to end.
    pub fn begin(&self) {
        self.shared.closing.send_replace(true);
        if self.live() == 0 {
            self.shared.empty.notify_waiters();
        }
    }

    /// Whether [`Drain::begin`] was called.
    pub fn is_draining(&self) -> bool {
        *self.shared.closing.borrow()
    }

    /// Returns the number of pieces of work that run.
    pub fn live(&self) -> usize {
        self.shared.live.load(Ordering::Acquire)
    }

    /// Waits until [`Drain::begin`] is called.
    pub async fn closing(&self) {
        wait_closing(&self.shared).await;
    }

    /// Waits until draining has begun and nothing runs any more.
    ///
    /// Dropped at an await it leaves nothing behind: the work continues, and another wait may begin.
    pub async fn drained(&self) {
        wait_closing(&self.shared).await;
        loop {
            // Registered before the count is read, so that an end in between is not missed.
            let mut empty = std::pin::pin!(self.shared.empty.notified());
            empty.as_mut().enable();
            if self.live() == 0 {
                return;
            }
            empty.await;
        }
    }
}

impl DrainGuard {
    /// Whether this work is asked to end.
    pub fn is_draining(&self) -> bool {
        *self.shared.closing.borrow()
    }

    /// Waits until this work is asked to end.
    pub async fn closing(&self) {
        wait_closing(&self.shared).await;
    }
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        if self.shared.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.empty.notify_waiters();
        }
    }
}

async fn wait_closing(shared: &DrainShared) {
    // Cannot fail: `shared` keeps the sender alive.
    let _ = shared.closing.subscribe().wait_for(|closing| *closing).await;
}
