//! How many keys a zone may send in a round, so that the engine replies well within the time limit.
//!
//! An engine handles a key in ten to twenty microseconds, a busy or a small one in more. The number doubles after a round that
//! has used it and took less than a quarter of the limit, and is halved after one that took more than half of it, or failed by
//! time. Keys beyond it wait for the next round.

use std::time::Duration;

/// The number at the beginning.
pub(super) const KEYS_FIRST: usize = 512;
/// The smallest and the largest number.
const KEYS: (usize, usize) = (64, 8192);

/// A round that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// The most keys of a zone.
    pub(super) keys: usize,
    pub(super) taken: Duration,
    /// The time limit of a command.
    pub(super) limit: Duration,
    /// Whether a reply was late or lost.
    pub(super) late: bool,
}

/// Returns the number for the next round.
pub(super) fn next(keys: usize, round: Round) -> usize {
    let next = match round {
        Round { late: true, .. } => keys / 2,
        Round { taken, limit, .. } if taken * 2 > limit => keys / 2,
        Round { keys: used, taken, limit, .. } if used >= keys && taken * 4 < limit => keys * 2,
        _ => keys,
    };
    next.clamp(KEYS.0, KEYS.1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Round, next};

    #[test]
    fn the_number_follows_the_time_of_rounds() {
        let table = [
            (512, 512, 5, false, 1024),
            (512, 100, 5, false, 512),
            (512, 512, 20, false, 512),
            (512, 512, 30, false, 256),
            (512, 100, 30, false, 256),
            (512, 512, 5, true, 256),
            (64, 0, 50, true, 64),
            (8192, 8192, 1, false, 8192),
        ];
        for (keys, used, millis, late, expected) in table {
            let (taken, limit) = (Duration::from_millis(millis), Duration::from_millis(50));
            let round = Round { keys: used, taken, limit, late };
            assert_eq!(next(keys, round), expected, "{keys} {round:?}");
        }
    }

    #[test]
    fn it_settles_where_an_engine_is_slow() {
        // Fifty microseconds for a key: 400 keys are two fifths of the limit.
        let (mut keys, limit) = (512, Duration::from_millis(50));
        let seen: Vec<usize> = (0..20)
            .map(|_| {
                let taken = Duration::from_micros(50 * keys as u64);
                keys = next(keys, Round { keys, taken, limit, late: taken > limit });
                keys
            })
            .collect();
        assert!(seen[1..].iter().all(|keys| (128..=512).contains(keys)), "{seen:?}");
    }
}
