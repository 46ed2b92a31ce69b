//! The choice of the idle connection to use, close or hand over. Knows neither sockets nor threads nor a clock.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::fit::Fit;

/// A thread's idle connections of a group, in the order in which they became idle.
pub(crate) struct Shelf<T> {
    idle: Vec<Idle<T>>,
}

/// An idle connection.
#[derive(Debug)]
pub(crate) struct Idle<T> {
    pub connection: T,
    pub fit: Fit,
    /// When it became idle.
    pub since: Instant,
    /// When it is closed unless it is used.
    pub until: Instant,
}

/// A thread that has not needed a connection for this time has it to spare. One that needs all of its connections
/// again and again must not give them away between two requests: it would have to get them back.
pub(super) const SPARE_AFTER: Duration = Duration::from_millis(100);

/// Idle connections above the number that a group keeps are closed after this idle time. A busy thread finishes many
/// requests in one event-loop iteration, and needs their connections in the next one.
pub(super) const EXCESS_IDLE: Duration = Duration::from_millis(10);
/// Most of them; beyond it one is closed at once.
pub(super) const EXCESS_MAX: usize = 512;

impl<T> Shelf<T> {
    pub(crate) const fn new() -> Shelf<T> {
        Shelf { idle: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.idle.len()
    }

    /// Returns when the longest idle one became idle.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.idle.first().map(|idle| idle.since)
    }

    /// Returns the servers, each a bit of 64 by its id.
    pub(crate) fn servers(&self) -> u64 {
        self.idle.iter().fold(0, |servers, idle| servers | server_bit(idle.fit.peer))
    }

    /// Takes one that fits and is open, the one used last first.
    pub(crate) fn take(
        &mut self,
        fit: &Fit,
        now: Instant,
        is_quiet: impl Fn(&T) -> bool,
    ) -> Option<T> {
        loop {
            let at = self.idle.iter().rposition(|idle| idle.fit == *fit)?;
            let idle = self.idle.remove(at);
            if now < idle.until && is_quiet(&idle.connection) {
                return Some(idle.connection);
            }
        }
    }

    /// Takes one that fits, is open and is not needed here, the longest idle first.
    pub(crate) fn spare(
        &mut self,
        fit: &Fit,
        now: Instant,
        is_quiet: impl Fn(&T) -> bool,
    ) -> Option<Idle<T>> {
        loop {
            let is_spare = |idle: &Idle<T>| {
                now.saturating_duration_since(idle.since) >= SPARE_AFTER && idle.fit == *fit
            };
            let at = self.idle.iter().position(is_spare)?;
            let idle = self.idle.remove(at);
            if now < idle.until && is_quiet(&idle.connection) {
                return Some(idle);
            }
        }
    }

    /// Adds one, at its place by time. Where there are `most` the longest idle one is dropped, unless another one
    /// like the new one is idle, too: that one would have been used had they not been in use at the same time. Such a
    /// moment may repeat at once, and [`Shelf::trim`] ends it.
    pub(crate) fn put(&mut self, idle: Idle<T>, most: usize) {
        let above = (self.idle.len() + 1).saturating_sub(most);
        let has_like = || self.idle.iter().any(|other| other.fit == idle.fit);
        if above > EXCESS_MAX || (above > 0 && !has_like()) {
            self.idle.drain(..1.min(self.idle.len()));
        }
        match self.idle.last() {
            // One that another thread did not want after all.
            Some(last) if last.since > idle.since => {
                let at = self.idle.partition_point(|before| before.since <= idle.since);
                self.idle.insert(at, idle);
            }
            _ => self.idle.push(idle),
        }
    }

    /// Drops the longest idle ones above `most`, if they have been idle for [`EXCESS_IDLE`]. Returns whether there
    /// are others above.
    pub(crate) fn trim(&mut self, most: usize, now: Instant) -> bool {
        let above = self.idle.len().saturating_sub(most);
        let is_late = |idle: &Idle<T>| now.saturating_duration_since(idle.since) >= EXCESS_IDLE;
        let late = self.idle.iter().take(above).take_while(|idle| is_late(idle)).count();
        self.idle.drain(..late);
        late < above
    }

    /// Takes out all that fit.
    pub(crate) fn remove(&mut self, fit: &Fit) -> Vec<Idle<T>> {
        self.idle.extract_if(.., |idle| idle.fit == *fit).collect()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Idle<T>) -> bool) {
        self.idle.retain(keep);
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf::new()
    }
}

/// Returns a server's bit of 64.
pub(super) fn server_bit(server: u64) -> u64 {
    1 << (server % 64)
}
