//! Counters of the whole process for `stub_status` and its variables. The drivers count, all threads add.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What the drivers count. Relaxed atomics: figures for people need no order among each other.
#[derive(Default)]
pub struct Counters {
    /// Connections taken from listeners.
    pub accepted: AtomicU64,
    /// Connections of these that were served: fewer where `worker_connections` was reached.
    pub handled: AtomicU64,
    /// Requests of all clients.
    pub requests: AtomicU64,
    /// Open client connections.
    pub active: AtomicI64,
    /// Connections on which a request head is being read.
    pub reading: AtomicI64,
    /// Connections on which a request is worked on or an answer is written.
    pub writing: AtomicI64,
}

/// One moment's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    pub accepted: u64,
    pub handled: u64,
    pub requests: u64,
    pub active: u64,
    pub reading: u64,
    pub writing: u64,
    /// Idle connections: open, neither reading nor writing.
    pub waiting: u64,
}

/// The process's counters.
pub static COUNTERS: Counters = Counters {
    accepted: AtomicU64::new(0),
    handled: AtomicU64::new(0),
    requests: AtomicU64::new(0),
    active: AtomicI64::new(0),
    reading: AtomicI64::new(0),
    writing: AtomicI64::new(0),
};

impl Counters {
    /// A connection was accepted and is going to be served.
    pub fn connection_opened(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.handled.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was accepted and closed at once for want of room.
    pub fn connection_refused(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub fn connection_closed(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds to the connections that read a head (1 or -1).
    pub fn reading(&self, change: i64) {
        self.reading.fetch_add(change, Ordering::Relaxed);
    }

    /// Adds to the connections that work on a request (1 or -1).
    pub fn writing(&self, change: i64) {
        self.writing.fetch_add(change, Ordering::Relaxed);
    }

    pub fn figures(&self) -> Figures {
        let gauge = |value: &AtomicI64| u64::try_from(value.load(Ordering::Relaxed)).unwrap_or(0);
        let active = gauge(&self.active);
        let (reading, writing) = (gauge(&self.reading), gauge(&self.writing));
        Figures {
            accepted: self.accepted.load(Ordering::Relaxed),
            handled: self.handled.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            active,
            reading,
            writing,
            waiting: active.saturating_sub(reading + writing),
        }
    }
}
