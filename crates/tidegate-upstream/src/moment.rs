//! Times of the loop's clock as numbers, which threads share without a lock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Before the first time that is asked for: what was shortly before has a number of its own.
const BEFORE_FIRST: Duration = Duration::from_secs(3600);

/// Nanoseconds since an hour before the first time that was asked for in this process; never `u64::MAX`, and 0 for
/// what was before.
pub(crate) fn nanos(time: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(|| time.checked_sub(BEFORE_FIRST).unwrap_or(time));
    u64::try_from(time.saturating_duration_since(*start).as_nanos()).unwrap_or(u64::MAX - 1)
}

/// The same in milliseconds.
pub(crate) fn millis(time: Instant) -> u64 {
    nanos(time) / 1_000_000
}
