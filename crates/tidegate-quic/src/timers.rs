//! The deadlines of all connections of an endpoint.
//!
//! Most are moved to later times, with each packet, long before they pass. So a deadline that moves to a later time keeps
//! its place in the order until the earlier time has passed: only then is it sorted in anew.

use std::collections::BTreeSet;
use std::time::Instant;

/// At most one deadline for each connection, by its number in the table.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(Instant, usize)>,
    by_number: Vec<Deadline>,
}

/// The deadline of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Deadline {
    at: Option<Instant>,
    /// Its place in `by_time`: not later.
    place: Option<Instant>,
}

impl Timers {
    /// Sets or removes a connection's deadline.
    pub(crate) fn set(&mut self, number: usize, at: Option<Instant>) {
        if self.by_number.len() <= number {
            if at.is_none() {
                return;
            }
            self.by_number.resize(number + 1, Deadline::default());
        }
        let Some(deadline) = self.by_number.get_mut(number) else { return };
        deadline.at = at;
        match (deadline.place, at) {
            (_, None) => {}
            (Some(place), Some(at)) if place <= at => {}
            (place, Some(at)) => {
                deadline.place = Some(at);
                if let Some(place) = place {
                    self.by_time.remove(&(place, number));
                }
                self.by_time.insert((at, number));
            }
        }
    }

    /// Returns a time that is not later than the earliest deadline, at which [`Timers::expired`] is to be called.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes a deadline that has passed, and returns its connection.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<usize> {
        loop {
            let (place, number) = *self.by_time.first()?;
            if place > now {
                return None;
            }
            self.by_time.pop_first();
            let Some(deadline) = self.by_number.get_mut(number) else { continue };
            deadline.place = None;
            match deadline.at {
                Some(at) if at > now => self.set(number, Some(at)),
                Some(_) => {
                    deadline.at = None;
                    return Some(number);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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

    #[test]
    fn a_deadline_that_moves_away_is_kept_where_it_is() {
        let (start, mut timers) = (tidegate_rt::clock::exact_now(), Timers::default());
        let at = |millis| start + Duration::from_millis(millis);
        timers.set(0, Some(at(10)));
        timers.set(0, Some(at(30)));
        timers.set(1, Some(at(20)));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.expired(at(10)), None);
        assert_eq!(timers.next(), Some(at(20)));
        assert_eq!(timers.expired(at(29)), Some(1));
        // The same place, for another connection of this number.
        timers.set(1, Some(at(40)));
        timers.set(1, None);
        timers.set(1, Some(at(50)));
        assert_eq!([timers.expired(at(45)), timers.expired(at(45))], [Some(0), None]);
        assert_eq!(timers.expired(at(50)), Some(1));
        assert_eq!(timers.next(), None);
    }

    proptest! {
        /// Whatever is set, each connection expires at its last deadline, and not before.
        #[test]
        fn deadlines_expire_as_they_were_last_set(
            steps in proptest::collection::vec((0usize..4, proptest::option::of(0u64..50), 0u64..5), 0..60),
        ) {
            let (start, mut timers, mut now) = (tidegate_rt::clock::exact_now(), Timers::default(), 0);
            let at = |millis| start + Duration::from_millis(millis);
            let mut known = [None; 4];
            for (number, deadline, passes) in steps {
                let deadline = deadline.map(|after| now + after);
                timers.set(number, deadline.map(at));
                known[number] = deadline;
                let earliest = known.iter().flatten().min();
                prop_assert!(timers.next().is_none_or(|next| earliest.is_none_or(|at_| next <= at(*at_))));
                prop_assert!(earliest.is_none() || timers.next().is_some());
                now += passes;
                let mut expired: Vec<_> = std::iter::from_fn(|| timers.expired(at(now))).collect();
                expired.sort_unstable();
                let passed = (0..4).filter(|number| known[*number].is_some_and(|at| at <= now));
                prop_assert_eq!(expired, passed.clone().collect::<Vec<_>>());
                for number in passed.collect::<Vec<_>>() {
                    known[number] = None;
                }
            }
        }
    }
}
