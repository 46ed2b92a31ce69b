//! Whether new connections bring their first request.
//!
//! With `deferred` they do, and so they do where a thread has so much to do that it accepts a connection later than its
//! request arrives. A read that finds a request saves the watch of its socket and two waits for events; one that finds
//! nothing costs a system call. So it pays from about one hit in six on, and a thread reads on the guess that what was
//! so for its last connections will be so again.

use std::cell::Cell;

/// The highest score.
const SCORE_MAX: u8 = 16;
/// The lowest score at which a request is expected.
const EXPECTED_FROM: u8 = 8;
/// What a request that was there adds; one that was not takes one away.
const HIT: u8 = 4;
/// Below that score one connection in so many is tried.
const TRY_EVERY: u8 = 64;

/// The guess of a thread.
pub(crate) struct FirstBytes {
    score: Cell<u8>,
    untried: Cell<u8>,
}

impl Default for FirstBytes {
    /// Expects requests.
    fn default() -> FirstBytes {
        FirstBytes { score: Cell::new(SCORE_MAX), untried: Cell::new(0) }
    }
}

impl FirstBytes {
    /// Whether to read from a connection that was just accepted. What came of it goes to [`FirstBytes::learn`].
    pub(crate) fn are_likely(&self) -> bool {
        if self.score.get() >= EXPECTED_FROM {
            return true;
        }
        self.untried.update(|count| (count + 1) % TRY_EVERY);
        self.untried.get() == 0
    }

    /// Whether the read has found bytes.
    pub(crate) fn learn(&self, have_arrived: bool) {
        self.score.update(|score| match have_arrived {
            true => (score + HIT).min(SCORE_MAX),
            false => score.saturating_sub(1),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `count` connections are read from, where every `each`th brings a request.
    fn reads(bytes: &FirstBytes, count: usize, each: usize) -> usize {
        let mut reads = 0;
        for number in 0..count {
            if bytes.are_likely() {
                reads += 1;
                bytes.learn(number % each == 0);
            }
        }
        reads
    }

    #[test]
    fn all_are_read_where_requests_are_there() {
        let bytes = FirstBytes::default();
        assert_eq!(reads(&bytes, 10_000, 1), 10_000);
        assert_eq!(reads(&bytes, 10_000, 4), 10_000);
    }

    #[test]
    fn few_are_read_where_requests_come_later() {
        let bytes = FirstBytes::default();
        let count = reads(&bytes, 6_400, usize::MAX);
        assert!((100..=109).contains(&count), "{count} reads");
    }

    #[test]
    fn a_change_is_noticed() {
        let bytes = FirstBytes::default();
        reads(&bytes, 1_000, usize::MAX);
        assert!(reads(&bytes, 1_000, 1) > 850);
    }
}
