//! Rate limits in bytes a second (`limit_rate`, `proxy_limit_rate`, `proxy_download_rate` and others): how many bytes
//! may pass now, and how long to wait for more.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;

use crate::timeline::{Cause, waits_for};

#[cfg(test)]
mod tests;

/// How often a second bytes are granted. A limited transfer wakes up no more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantInterval {
    /// Once, as nginx does.
    Seconds = 1,
    /// Four times: responses flow more evenly, and end no later than nginx's.
    Quarters = 4,
}

/// A limit in bytes a second.
pub struct Rate {
    bytes: u64,
    steps: GrantInterval,
    since: Instant,
    timer: Deadline,
}

impl Rate {
    /// Creates a limit of `bytes` a second from `since` on; `None` for 0, which is no limit.
    pub fn new(bytes: u64, steps: GrantInterval, since: Instant) -> Option<Rate> {
        (bytes > 0).then(|| Rate { bytes, steps, since, timer: Deadline::new() })
    }

    /// Returns how many more bytes may pass after `passed` bytes, at least one. Pending until then.
    pub fn poll_allowance(&self, context: &mut Context<'_>, passed: u64) -> Poll<u64> {
        loop {
            let now = clock::exact_now();
            let time = now.saturating_duration_since(self.since);
            match allowance(self.bytes, self.steps, passed, time) {
                Ok(bytes) => return Poll::Ready(bytes),
                Err(wait) => self.timer.set(now + wait),
            }
            if self.timer.poll_elapsed(context).is_pending() {
                waits_for(Cause::Limit);
                return Poll::Pending;
            }
        }
    }
}

/// Computes the bytes that may pass now at `rate` bytes a second, when `passed` bytes have in `time`; or how long to
/// wait. The bytes of one second may pass at once.
fn allowance(
    rate: u64,
    steps: GrantInterval,
    passed: u64,
    time: Duration,
) -> Result<u64, Duration> {
    let in_second = steps as u128;
    let begun = time.as_millis() * in_second / 1000 + in_second;
    let granted = u128::from(rate).saturating_mul(begun) / in_second;
    let granted = u64::try_from(granted).unwrap_or(u64::MAX);
    if granted > passed {
        return Ok(granted - passed);
    }
    // The first grant that allows another byte, counted from the beginning.
    let wanted = (u128::from(passed) + 1) * in_second;
    let step = wanted.div_ceil(rate.max(1).into()).saturating_sub(in_second);
    let at = Duration::from_millis(u64::try_from(step * 1000 / in_second).unwrap_or(u64::MAX));
    Err(at.saturating_sub(time).clamp(Duration::from_millis(1), WAIT_MAX))
}

/// Longest wait before the allowance is computed again: far below the range of a clock.
const WAIT_MAX: Duration = Duration::from_hours(24);
