//! Counters of events that are rare, or that are counted under a lock anyway: limits, name servers, handshakes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A row of counters, changed by all threads.
#[derive(Debug)]
pub struct Tally {
    counters: Box<[AtomicU64]>,
    /// The counts at the last reset.
    before: Mutex<Box<[u64]>>,
}

impl Tally {
    /// Makes `width` counters.
    pub fn new(width: usize) -> Tally {
        Tally {
            counters: (0..width).map(|_| AtomicU64::new(0)).collect(),
            before: Mutex::new(vec![0; width].into()),
        }
    }

    /// Counts an event; one without a counter is not counted.
    pub fn count(&self, event: usize) {
        if let Some(counter) = self.counters.get(event) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counts since the last reset.
    pub fn totals(&self) -> Vec<u64> {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        self.now().zip(before.iter()).map(|(now, before)| now - before).collect()
    }

    /// Lets all counts start at zero again.
    pub fn reset(&self) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        *before = self.now().collect();
    }

    fn now(&self) -> impl Iterator<Item = u64> {
        self.counters.iter().map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// What is counted of TLS handshakes, by nginx Plus' names.
pub const HANDSHAKES: [&str; 7] = [
    "handshakes",
    "handshakes_failed",
    "session_reuses",
    "no_common_protocol",
    "no_common_cipher",
    "handshake_timeout",
    "peer_rejected_cert",
];

/// What is counted of certificates that are not trusted, behind [`HANDSHAKES`].
pub const VERIFY_FAILURES: [&str; 5] =
    ["no_cert", "expired_cert", "revoked_cert", "hostname_mismatch", "other"];

/// What is counted of limits of requests: nginx Plus' counters, then Angie's further ones, of requests without a key and of
/// those that the zone had no room for.
pub const LIMIT_REQ: [&str; 7] = [
    "passed",
    "delayed",
    "rejected",
    "delayed_dry_run",
    "rejected_dry_run",
    "skipped",
    "exhausted",
];

/// What is counted of limits of connections, as [`LIMIT_REQ`].
pub const LIMIT_CONN: [&str; 5] =
    ["passed", "rejected", "rejected_dry_run", "skipped", "exhausted"];

/// Returns the counters of all TLS handshakes with clients.
pub fn handshakes() -> &'static Tally {
    static ALL: LazyLock<Tally> = LazyLock::new(new_handshakes);
    &ALL
}

/// Makes counters of handshakes.
pub fn new_handshakes() -> Tally {
    Tally::new(HANDSHAKES.len() + VERIFY_FAILURES.len())
}
