//! The library's random bytes, prepared before the first handshake needs them.
//!
//! The library measures the jitter of the processor when a process first needs random bytes, for some 50 ms. Within a
//! handshake that would hold up all clients of an event loop.

use std::sync::atomic::{AtomicBool, Ordering};

/// This process, or the one that it was forked by, has settings of TLS.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// Records that handshakes may follow.
pub(crate) fn need() {
    IS_NEEDED.store(true, Ordering::Relaxed);
}

/// Prepares random bytes, once in a process, where settings of TLS have been made. May block for 100 ms; handshakes that
/// begin meanwhile wait for the rest. To be called in the process that serves: a copy of a prepared process is not
/// prepared.
pub fn prepare() {
    if IS_NEEDED.load(Ordering::Relaxed) && !IS_PREPARED.swap(true, Ordering::Relaxed) {
        // Where there are none, each handshake fails with its own error.
        let _ = aws_lc_rs::rand::fill(&mut [0]);
    }
}
