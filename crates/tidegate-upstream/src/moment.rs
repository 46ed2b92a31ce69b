//! Times of the loop's clock as numbers, which threads share without a lock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Offset of the first time in this process: shortly earlier times have numbers of their own.
const BEFORE_FIRST: Duration = Duration::from_secs(3600);

/// Returns the nanoseconds since an hour before the first call in this process; never `u64::MAX`, and 0 for earlier
/// times.
pub(crate) fn nanos(time: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(|| time.checked_sub(BEFORE_FIRST).unwrap_or(time));
    u64::try_from(time.saturating_duration_since(*start).as_nanos()).unwrap_or(u64::MAX - 1)
}

/// The same in milliseconds.
pub(crate) fn millis(time: Instant) -> u64 {
    nanos(time) / 1_000_000
}
