//! Whether a tier is asked at all: one that fails is left alone for a while.
//!
//! ```text
//! closed ── 5 failures in a row ──► open for 5 s ── asked again, fails ──► open for twice the time, 60 s at most
//!    ▲                                   │
//!    └────────── a request succeeds ─────┘
//! ```

use std::time::{Duration, Instant};

/// Failures in a row after which a tier is not asked for a while.
pub(super) const FAILURES_MAX: u32 = 5;
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The state of a tier's breaker. Time is an argument.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// Length of the last pause.
    pause: Option<Duration>,
    /// When it ends.
    until: Option<Instant>,
}

impl Breaker {
    /// Returns whether the tier may be asked.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Notes that the tier has replied.
    pub(super) fn succeeded(&mut self) {
        *self = Breaker::default();
    }

    /// Notes that the tier has failed; returns the pause that begins with this failure.
    pub(super) fn failed(&mut self, now: Instant) -> Option<Duration> {
        if !self.allows(now) {
            // It was asked before the pause.
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES_MAX {
            return None;
        }
        let pause = self.pause.map_or(PAUSE_MIN, |pause| (pause * 2).min(PAUSE_MAX));
        self.pause = Some(pause);
        self.until = now.checked_add(pause);
        Some(pause)
    }
}
