//! The deadlines of all connections of an endpoint.

use std::collections::BTreeSet;
use std::time::Instant;

/// At most one deadline for each connection, by its number in the table.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Instant, usize)>,
    by_number: Vec<Option<Instant>>,
}

impl Timers {
    /// Sets or removes a connection's deadline.
    pub(crate) fn set(&mut self, number: usize, at: Option<Instant>) {
        if self.by_number.len() <= number {
            if at.is_none() {
                return;
            }
            self.by_number.resize(number + 1, None);
        }
        let old = std::mem::replace(&mut self.by_number[number], at);
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.by_time.remove(&(old, number));
        }
        if let Some(at) = at {
            self.by_time.insert((at, number));
        }
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes a deadline that has passed, and returns its connection.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<usize> {
        let (at, number) = *self.by_time.first()?;
        if at > now {
            return None;
        }
        self.set(number, None);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn deadlines_are_replaced_and_expire_in_order() {
        let (start, mut timers) = (tidegate_rt::clock::exact_now(), Timers::default());
        let at = |millis| start + Duration::from_millis(millis);
        timers.set(9, None);
        for (number, millis) in [(2, 30), (0, 20), (2, 10), (1, 40)] {
            timers.set(number, Some(at(millis)));
        }
        timers.set(1, None);
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.expired(at(9)), None);
        let expired: Vec<_> = std::iter::from_fn(|| timers.expired(at(100))).collect();
        assert_eq!(expired, [2, 0]);
        assert_eq!(timers.next(), None);
    }
}
