//! How often the readers of a fill are woken. Each of them costs some system calls whenever it is, however
//! little has come: of a fast origin's bytes many readers get more at a time. Slow origins are not held up by
//! that, nor is the first byte.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// From so many readers on they are woken in rounds.
pub(crate) const MANY_READERS: usize = 16;

/// What there is of time between two rounds for each reader: about twice of what serving it takes.
const TIME_FOR_EACH: Duration = Duration::from_micros(40);

/// The longest between two rounds.
const BETWEEN_MAX: Duration = Duration::from_millis(20);

/// When readers were woken last.
#[derive(Default)]
pub(crate) struct WakeupBatcher {
    last: Cell<Option<Instant>>,
}

impl WakeupBatcher {
    /// How long the next round has to wait; zero: it may begin.
    pub(crate) fn wait(&self, readers: usize, now: Instant) -> Duration {
        let Some(last) = self.last.get().filter(|_| readers >= MANY_READERS) else {
            return Duration::ZERO;
        };
        let number = u32::try_from(readers).unwrap_or(u32::MAX);
        let between = TIME_FOR_EACH.saturating_mul(number).min(BETWEEN_MAX);
        between.saturating_sub(now.saturating_duration_since(last))
    }

    /// A round begins.
    pub(crate) fn begin(&self, now: Instant) {
        self.last.set(Some(now));
    }

    /// The next round need not wait.
    pub(crate) fn reset(&self) {
        self.last.set(None);
    }
}
