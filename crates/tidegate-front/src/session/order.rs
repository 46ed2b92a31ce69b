//! Which UDP session ends when a new one has no room.
//!
//! Any sender can begin many sessions under false addresses, but cannot usefully continue them. So sessions that have
//! received a single datagram end first, the oldest before others; then those that were silent longest.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Ended entries that are still in a queue, beyond the number of sessions.
const OVER_MAX: usize = 64;

/// A session in the order.
pub(super) trait Member {
    /// Whether it has ended, or is about to.
    fn is_over(&self) -> bool;

    /// Whether bytes have arrived since the last call.
    fn has_received(&self) -> bool;
}

/// Sessions in the order in which they end for want of room.
pub(super) struct EvictionOrder<T> {
    /// Sessions that run, including those that are ending.
    pub running: usize,
    /// Running sessions that are ending to make room.
    pub ending: usize,
    /// Sessions that had received nothing behind the first datagram at the last check; the oldest first.
    young: VecDeque<T>,
    /// The other sessions, in rotation.
    known: VecDeque<T>,
}

impl<T> Default for EvictionOrder<T> {
    fn default() -> EvictionOrder<T> {
        EvictionOrder { running: 0, ending: 0, young: VecDeque::new(), known: VecDeque::new() }
    }
}

impl<T: Member> EvictionOrder<T> {
    pub(super) fn enter(&mut self, member: T) {
        self.running += 1;
        self.young.push_back(member);
        for queue in [&mut self.young, &mut self.known] {
            if queue.len() > 2 * self.running + OVER_MAX {
                queue.retain(|member| !member.is_over());
            }
        }
    }

    /// Counts a session that has ended; it may have `made_room` for another one.
    pub(super) fn leave(&mut self, made_room: bool) {
        self.running = self.running.saturating_sub(1);
        self.ending = self.ending.saturating_sub(usize::from(made_room));
    }

    /// Removes the session that is to end first.
    pub(super) fn take_first(&mut self) -> Option<T> {
        while let Some(member) = self.young.pop_front() {
            match (member.is_over(), member.has_received()) {
                (true, _) => {}
                (false, true) => self.known.push_back(member),
                (false, false) => return Some(member),
            }
        }
        // Each gets one more round.
        for _ in 0..self.known.len() {
            let member = self.known.pop_front()?;
            match (member.is_over(), member.has_received()) {
                (true, _) => {}
                (false, true) => self.known.push_back(member),
                (false, false) => return Some(member),
            }
        }
        self.known.pop_front()
    }
}
