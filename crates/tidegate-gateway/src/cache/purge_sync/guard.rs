//! Whether a cache may be served: for as long as it is known to be up to date, or as its rule for a server that is cut off
//! says. A request compares two numbers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_rt::sync::watch;
use tidegate_rt::{clock, timer};

/// The longest time for which a request waits until the cache may be served: an engine that is not there is noticed within
/// about a second, so that this is for a server that has missed very many purges.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// The moment until which a cache may be served. At the start it may not. The time of day is no measure of it: it may be set.
#[derive(Debug)]
pub(crate) struct Guard {
    began: Instant,
    /// In milliseconds since it began.
    until: AtomicU64,
    changes: watch::Sender<()>,
}

impl Default for Guard {
    fn default() -> Guard {
        let (until, changes) = (AtomicU64::new(0), watch::Sender::new(()));
        Guard { began: clock::now(), until, changes }
    }
}

impl Guard {
    /// Returns whether the cache may be served.
    pub(crate) fn is_open(&self) -> bool {
        self.passed() < self.until.load(Ordering::Acquire)
    }

    /// Lets the cache be served for this time.
    pub(super) fn open_for(&self, time: Duration) {
        let until = self.passed().saturating_add(time.as_millis() as u64);
        self.until.store(until, Ordering::Release);
        self.changes.send_replace(());
    }

    fn passed(&self) -> u64 {
        clock::since(self.began).as_millis() as u64
    }

    /// Waits until the cache may be served; `false`: that takes too long.
    ///
    /// Cancelling: nothing is left behind.
    pub(crate) async fn opened(&self) -> bool {
        let mut changes = self.changes.subscribe();
        let opened = async {
            while !self.is_open() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        timer::timeout(WAIT_MAX, opened).await.is_ok()
    }
}
