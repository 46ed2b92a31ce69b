//! Counters of the whole process for `stub_status` and its variables. Each thread has counters of its own, so that
//! counting costs no locked instruction and moves no cache line; readers sum them.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counters of one thread's drivers. Written by that thread alone.
#[derive(Default)]
pub struct Counters {
    accepted: AtomicI64,
    requests: AtomicI64,
    active: AtomicI64,
    reading: AtomicI64,
    writing: AtomicI64,
}

/// The sums of all threads at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFigures {
    /// Connections taken from listeners.
    pub accepted: u64,
    /// Accepted connections that were served: all, as none is accepted while `worker_connections` are in use.
    pub handled: u64,
    /// Requests of all clients.
    pub requests: u64,
    /// Open client connections.
    pub active: u64,
    /// Connections on which a request head is being read.
    pub reading: u64,
    /// Connections on which a request is processed or a response is written.
    pub writing: u64,
    /// Idle connections: open, neither reading nor writing.
    pub waiting: u64,
}

/// The counters of all threads, ended ones included: totals never decrease.
static ALL: Mutex<Vec<Arc<Counters>>> = Mutex::new(Vec::new());

/// Returns the sums of all threads.
pub fn figures() -> ConnectionFigures {
    let (active, reading, writing) = (active(), sum(|c| &c.reading), sum(|c| &c.writing));
    let accepted = sum(|c| &c.accepted);
    ConnectionFigures {
        accepted,
        handled: accepted,
        requests: sum(|c| &c.requests),
        active,
        reading,
        writing,
        waiting: active.saturating_sub(reading + writing),
    }
}

/// Returns the figures of each thread that runs, in the order in which they began.
pub fn threads() -> Vec<ConnectionFigures> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let running = all.iter().filter(|counters| Arc::strong_count(counters) > 1);
    running.map(|counters| counters.figures()).collect()
}

/// Returns the open client connections of all threads.
pub fn active() -> u64 {
    sum(|counters| &counters.active)
}

/// Sums one figure over all threads.
fn sum(figure: fn(&Counters) -> &AtomicI64) -> u64 {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let total: i64 = all.iter().map(|counters| figure(counters).load(Ordering::Relaxed)).sum();
    u64::try_from(total).unwrap_or(0)
}

/// Changes one thread's figure. Only that thread writes, so a load and a store suffice.
fn add(figure: &AtomicI64, change: i64) {
    figure.store(figure.load(Ordering::Relaxed) + change, Ordering::Relaxed);
}

impl Counters {
    /// Creates the calling thread's counters and adds them to the sums.
    pub fn register() -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    /// Counts an accepted connection, which is open until the returned value is dropped.
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        add(&self.accepted, 1);
        add(&self.active, 1);
        OpenConnection(self.clone())
    }

    /// Returns the open client connections of this thread.
    pub fn active(&self) -> u64 {
        u64::try_from(self.active.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn figures(&self) -> ConnectionFigures {
        let load = |figure: &AtomicI64| u64::try_from(figure.load(Ordering::Relaxed)).unwrap_or(0);
        let Counters { accepted, requests, active, reading, writing } = self;
        let (accepted, active) = (load(accepted), load(active));
        let (reading, writing) = (load(reading), load(writing));
        ConnectionFigures {
            accepted,
            handled: accepted,
            requests: load(requests),
            active,
            reading,
            writing,
            waiting: active.saturating_sub(reading + writing),
        }
    }

    /// Counts a request.
    pub fn request(&self) {
        add(&self.requests, 1);
    }

    /// Counts a connection as reading a request head until the returned value is dropped.
    pub fn reading(&self) -> CountedState<'_> {
        CountedState::new(&self.reading)
    }

    /// Counts a connection as processing a request or writing a response until the returned value is dropped.
    pub fn writing(&self) -> CountedState<'_> {
        CountedState::new(&self.writing)
    }
}

/// The count of an open connection; must be dropped on the thread that opened it.
pub struct OpenConnection(Arc<Counters>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        add(&self.0.active, -1);
    }
}

/// The count of a connection in one state; must be dropped on the same thread.
pub struct CountedState<'a>(&'a AtomicI64);

impl<'a> CountedState<'a> {
    fn new(figure: &'a AtomicI64) -> CountedState<'a> {
        add(figure, 1);
        CountedState(figure)
    }
}

impl Drop for CountedState<'_> {
    fn drop(&mut self) {
        add(self.0, -1);
    }
}
