//! How often the readers of a fill are woken. Each wakeup of a reader costs some system calls, however few bytes have
//! arrived: from a fast origin, many readers get more bytes at a time. Slow origins are not delayed by that, nor is
//! the first byte.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Number of readers from which they are woken in rounds.
pub(crate) const MANY_READERS: usize = 16;

/// Time between two rounds for each reader: about twice the time to serve it.
const TIME_FOR_EACH: Duration = Duration::from_micros(40);

/// Longest time between two rounds.
const BETWEEN_MAX: Duration = Duration::from_millis(20);

/// When the readers were woken last.
#[derive(Default)]
pub(crate) struct WakeupBatcher {
    last: Cell<Option<Instant>>,
}

impl WakeupBatcher {
    /// Returns how long the next round has to wait; zero: it may begin.
    pub(crate) fn wait(&self, readers: usize, now: Instant) -> Duration {
        let Some(last) = self.last.get().filter(|_| readers >= MANY_READERS) else {
            return Duration::ZERO;
        };
        let number = u32::try_from(readers).unwrap_or(u32::MAX);
        let between = TIME_FOR_EACH.saturating_mul(number).min(BETWEEN_MAX);
        between.saturating_sub(now.saturating_duration_since(last))
    }

    /// Records that a round begins.
    pub(crate) fn begin(&self, now: Instant) {
        self.last.set(Some(now));
    }

    /// Lets the next round begin at once.
    pub(crate) fn reset(&self) {
        self.last.set(None);
    }
}
