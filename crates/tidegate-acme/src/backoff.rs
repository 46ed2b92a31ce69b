//! Pauses after failures: they grow to a limit, and are spread so that many servers do not come back at once.

use std::time::Duration;

/// A growing pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    factor: u32,
    longest: Duration,
}

/// After a request that has failed: 5 s, 10 s, … 1 h.
pub(crate) const REQUESTS: Backoff =
    Backoff { first: Duration::from_secs(5), factor: 2, longest: Duration::from_secs(3600) };

/// After an order that has failed: 1 min, 3 min, … 1 day. The fifth attempt is the last one within an hour: Let's Encrypt
/// accepts five failed validations of a name per hour.
pub(crate) const ORDERS: Backoff =
    Backoff { first: Duration::from_secs(60), factor: 3, longest: Duration::from_secs(24 * 3600) };

impl Backoff {
    /// Returns the pause after this number of failures in a row, from 3/4 to 5/4 of its nominal length.
    pub(crate) fn pause(self, failures: u32, random: u64) -> Duration {
        let growth = self.factor.saturating_pow(failures.saturating_sub(1));
        let nominal = self.first.saturating_mul(growth).min(self.longest);
        nominal * 3 / 4 + share(nominal / 2, random)
    }
}

/// Returns the part of a duration that a random number stands for: none of it for 0, nearly all for the largest.
pub(crate) fn share(of: Duration, random: u64) -> Duration {
    let part = (of.as_nanos().min(u128::from(u64::MAX)) * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ORDERS, REQUESTS, share};

    #[test]
    fn pauses_grow_to_a_limit_and_are_spread() {
        let orders: Vec<u64> =
            (1..=9).map(|failures| ORDERS.pause(failures, u64::MAX / 2 + 1).as_secs()).collect();
        assert_eq!(orders, [60, 180, 540, 1620, 4860, 14_580, 43_740, 86_400, 86_400]);
        assert_eq!(REQUESTS.pause(1, 0), Duration::from_millis(3750));
        assert_eq!(REQUESTS.pause(u32::MAX, 0), Duration::from_secs(2700));
        assert!(REQUESTS.pause(u32::MAX, u64::MAX) < Duration::from_secs(4500));
        assert_eq!(REQUESTS.pause(0, 0), REQUESTS.pause(1, 0));
        assert_eq!(share(Duration::from_secs(100), 1 << 62), Duration::from_secs(25));
        assert!(share(Duration::MAX, u64::MAX) < Duration::MAX);
    }
}
