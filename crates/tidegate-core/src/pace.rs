//! Limits of bytes a second (`limit_rate`, `proxy_limit_rate`, `proxy_download_rate` and their like): how many bytes
//! may pass now, and how long to wait for more.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

#[cfg(test)]
mod tests;

/// How often a second bytes are granted. A limited transfer wakes no more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// As nginx does.
    Seconds = 1,
    /// Responses flow more evenly, and end no later than nginx's.
    Quarters = 4,
}

/// A limit of bytes a second.
pub struct Rate {
    bytes: u64,
    steps: Steps,
    since: Instant,
    timer: Deadline,
}

impl Rate {
    /// `bytes` a second from `since` on; `None` for 0, which is no limit.
    pub fn new(bytes: u64, steps: Steps, since: Instant) -> Option<Rate> {
        (bytes > 0).then(|| Rate { bytes, steps, since, timer: Deadline::new() })
    }

    /// How many bytes may pass when `passed` have; at least one. Pending when it is to be waited.
    pub fn poll_allowance(&self, context: &mut Context<'_>, passed: u64) -> Poll<u64> {
        loop {
            let now = clock::exact_now();
            let time = now.saturating_duration_since(self.since);
            match allowance(self.bytes, self.steps, passed, time) {
                Ok(bytes) => return Poll::Ready(bytes),
                Err(wait) => self.timer.set(now + wait),
            }
            ready!(self.timer.poll_elapsed(context));
        }
    }
}

/// Bytes that may pass now, of `rate` a second, when `passed` have in the time that went by; or how long to wait. A
/// second's worth may pass at once.
fn allowance(rate: u64, steps: Steps, passed: u64, time: Duration) -> Result<u64, Duration> {
    let in_second = steps as u128;
    let begun = time.as_millis() * in_second / 1000 + in_second;
    let granted = u128::from(rate).saturating_mul(begun) / in_second;
    let granted = u64::try_from(granted).unwrap_or(u64::MAX);
    if granted > passed {
        return Ok(granted - passed);
    }
    // The first step that grants a byte more, counted from the beginning.
    let wanted = (u128::from(passed) + 1) * in_second;
    let step = wanted.div_ceil(rate.max(1).into()).saturating_sub(in_second);
    let at = Duration::from_millis(u64::try_from(step * 1000 / in_second).unwrap_or(u64::MAX));
    Err(at.saturating_sub(time).clamp(Duration::from_millis(1), WAIT_MAX))
}

/// Then it is counted again: far below what a clock can hold.
const WAIT_MAX: Duration = Duration::from_hours(24);
