//! The leaky bucket of one key, and the delay of a request by its excess. `now` is an argument.
//!
//! Each request fills the bucket by one; it leaks at the rate. Its contents beyond the request that is being served
//! are the excess, counted in thousandths of a request.

use std::time::{Duration, Instant};

/// One request, in the unit of excesses.
pub(super) const REQUEST: u64 = 1000;

/// The bucket of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    excess: u64,
    last: Instant,
}

impl Bucket {
    /// Makes the bucket of a key's first request.
    pub(super) fn new(now: Instant) -> Bucket {
        Bucket { excess: 0, last: now }
    }

    /// Returns the excess that one more request would have; `rate` in thousandths of a request per second.
    pub(super) fn excess(&self, rate: u64, now: Instant) -> u64 {
        (self.excess + REQUEST).saturating_sub(self.leaked(rate, now))
    }

    /// Counts a request.
    pub(super) fn fill(&mut self, rate: u64, now: Instant) {
        let excess = self.excess(rate, now);
        *self = Bucket { excess, last: self.last.max(now) };
    }

    /// Returns whether it has been empty for `time`: a new bucket would be the same.
    pub(super) fn is_stale(&self, rate: u64, now: Instant, time: Duration) -> bool {
        now.saturating_duration_since(self.last) >= time && self.leaked(rate, now) >= self.excess
    }

    fn leaked(&self, rate: u64, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.last).as_millis();
        u64::try_from(passed).unwrap_or(u64::MAX).saturating_mul(rate) / 1000
    }
}

/// Returns the delay of a request with `excess`, so that requests continue at the rate; excess up to `free` is not
/// delayed.
pub(super) fn delay(excess: u64, free: u64, rate: u64) -> Duration {
    Duration::from_millis(excess.saturating_sub(free).saturating_mul(1000) / rate.max(1))
}

/// Parses `10r/s` or `30r/m` as thousandths of a request per second.
pub(super) fn parse_rate(text: &str) -> Option<u64> {
    // A number alone is per second, as in nginx.
    let (count, seconds) = match text.strip_suffix("r/m") {
        Some(count) => (count, 60),
        None => (text.strip_suffix("r/s").unwrap_or(text), 1),
    };
    let count = tidegate_conf::parse_number(count.as_bytes()).filter(|count| *count > 0)?;
    // A rate below a thousandth would never leak.
    Some((count.checked_mul(1000)? / seconds).max(1))
}
