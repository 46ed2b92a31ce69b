//! Which session of UDP ends when there is no place for another one.
//!
//! Anybody can begin a session under a false address, and many of them, but cannot go on with it usefully. So the
//! oldest of those go first from whom one datagram has come; then those who were silent longest.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Entries that are over and still in a queue, beside as many as there are sessions.
const OVER_MAX: usize = 64;

/// A session.
pub(super) trait Member {
    /// It has ended, or is about to.
    fn is_over(&self) -> bool;

    /// Whether something has come since the last look.
    fn has_news(&self) -> bool;
}

/// Sessions in the order in which they end for want of room.
pub(super) struct Order<T> {
    /// Sessions that run, those included that are ending.
    pub running: usize,
    /// Those of them that end to make room.
    pub ending: usize,
    /// Nothing has come from them behind the first datagram, as of the last look; the oldest first.
    young: VecDeque<T>,
    /// Others, in turn.
    known: VecDeque<T>,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { running: 0, ending: 0, young: VecDeque::new(), known: VecDeque::new() }
    }
}

impl<T: Member> Order<T> {
    pub(super) fn enter(&mut self, member: T) {
        self.running += 1;
        self.young.push_back(member);
        for queue in [&mut self.young, &mut self.known] {
            if queue.len() > 2 * self.running + OVER_MAX {
                queue.retain(|member| !member.is_over());
            }
        }
    }

    /// A session is over; it may have `made_room` for another one.
    pub(super) fn leave(&mut self, made_room: bool) {
        self.running = self.running.saturating_sub(1);
        self.ending = self.ending.saturating_sub(usize::from(made_room));
    }

    /// Takes out the one that is missed least.
    pub(super) fn take_least(&mut self) -> Option<T> {
        while let Some(member) = self.young.pop_front() {
            match (member.is_over(), member.has_news()) {
                (true, _) => {}
                (false, true) => self.known.push_back(member),
                (false, false) => return Some(member),
            }
        }
        // Each gets one more turn.
        for _ in 0..self.known.len() {
            let member = self.known.pop_front()?;
            match (member.is_over(), member.has_news()) {
                (true, _) => {}
                (false, true) => self.known.push_back(member),
                (false, false) => return Some(member),
            }
        }
        self.known.pop_front()
    }
}
