//! The leaky bucket of one key, the delay of a request by its excess, and the terms of buckets that servers share. `now` is an
//! argument.
//!
//! Each request fills the bucket by one; it leaks at the rate. Its contents beyond the request that is being served
//! are the excess, counted in thousandths of a request.

use std::time::{Duration, Instant};

/// One request, in the unit of excesses.
pub(super) const REQUEST: u64 = 1000;

/// The bucket of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// The contents at `last`: the last request included, so one more than its excess.
    level: u64,
    last: Instant,
}

impl Bucket {
    /// Makes a bucket with these contents.
    pub(super) fn with_level(level: u64, now: Instant) -> Bucket {
        Bucket { level, last: now }
    }

    /// Returns the excess that one more request would have; `rate` in thousandths of a request per second.
    pub(super) fn excess(&self, rate: u64, now: Instant) -> u64 {
        self.level.saturating_sub(self.leaked(rate, now))
    }

    /// Counts a request, or what it stands for.
    pub(super) fn fill(&mut self, amount: u64, rate: u64, now: Instant) {
        let level = self.excess(rate, now).saturating_add(amount);
        *self = Bucket { level, last: self.last.max(now) };
    }

    /// Returns whether it has been empty for `time`: a new bucket would be the same.
    pub(super) fn is_stale(&self, rate: u64, now: Instant, time: Duration) -> bool {
        let excess = self.level.saturating_sub(REQUEST);
        now.saturating_duration_since(self.last) >= time && self.leaked(rate, now) >= excess
    }

    fn leaked(&self, rate: u64, now: Instant) -> u64 {
        // Parts of a millisecond count: the clock's readings are no multiples of one, and each request would lose some.
        let passed = now.saturating_duration_since(self.last).as_nanos();
        let leaked = passed.saturating_mul(u128::from(rate)) / NANOS;
        u64::try_from(leaked).unwrap_or(u64::MAX)
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

/// Nanoseconds in a second.
const NANOS: u128 = 1_000_000_000;
/// Microseconds in a second.
const MICROS: u128 = 1_000_000;
/// The longest time that is sent to an engine, in microseconds: its scripts calculate with 53 bits.
pub(super) const MICROS_MAX: u64 = 1 << 51;

/// Returns the time in which contents leak, in microseconds, rounded to the nearest.
pub(super) fn micros_of(level: u64, rate: u64) -> u64 {
    let rate = u128::from(rate.max(1));
    ((u128::from(level) * MICROS + rate / 2) / rate).min(u128::from(MICROS_MAX)) as u64
}

/// Returns the contents that leak in this many microseconds.
pub(super) fn level_of(micros: u64, rate: u64) -> u64 {
    let level = u128::from(micros) * u128::from(rate) / MICROS;
    u64::try_from(level).unwrap_or(u64::MAX)
}

/// A part of the whole, in thousandths.
pub(super) type Share = u64;
/// The whole.
pub(super) const WHOLE: Share = 1000;

/// The recent requests of a key: those of this server, and those of all servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    own: f32,
    all: f32,
}

/// What a round leaves of the counts before it.
const FADING: f32 = 0.9;

impl Recent {
    /// Counts the requests between two rounds.
    pub(super) fn count(&mut self, own: u64, all: u64) {
        if all > 0 {
            self.own = self.own * FADING + own.min(all) as f32;
            self.all = self.all * FADING + all as f32;
        }
    }

    /// Returns this server's share. A server without requests keeps a quarter of an even share, since requests may move to
    /// it; so does one that does not know its share, but with an even one.
    pub(super) fn share(&self, nodes: u32) -> Share {
        let even = WHOLE / u64::from(nodes.max(1));
        if self.all < 1.0 {
            return even.max(1);
        }
        let share = (self.own / self.all * WHOLE as f32) as u64;
        share.clamp((even / 4).max(1), WHOLE)
    }
}
