//! Responses without a server. An engine that was just started, or lost its data, responses with nothing; a group without servers
//! responds with errors alone. So nothing is believed only once it has been the response for a time (`empty_after`).
//!
//! States: no empty response; empty since an instant, and not believed yet; believed. Each response with a server leads to the first
//! one, and so does a failure before nothing is believed: an engine that was away begins anew.

use std::time::{Duration, Instant};

/// The rule of one group.
#[derive(Debug)]
pub(super) struct EmptyRule {
    after: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Filled,
    Empty { since: Instant },
    Believed,
}

impl EmptyRule {
    pub(super) fn new(after: Duration) -> EmptyRule {
        EmptyRule { after, state: State::Filled }
    }

    /// Returns whether a response is taken over.
    pub(super) fn accepts(&mut self, is_empty: bool, now: Instant) -> bool {
        let since = match self.state {
            _ if !is_empty => {
                self.state = State::Filled;
                return true;
            }
            State::Believed => return true,
            State::Filled => now,
            State::Empty { since } => since,
        };
        let is_believed = now.saturating_duration_since(since) >= self.after;
        self.state = if is_believed { State::Believed } else { State::Empty { since } };
        is_believed
    }

    /// Notes that there was no valid response.
    pub(super) fn interrupt(&mut self) {
        if let State::Empty { .. } = self.state {
            self.state = State::Filled;
        }
    }

    /// Returns the time until an empty response is believed, zero if the next one will be; `None` where nothing is to be
    /// believed.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let State::Empty { since } = self.state else { return None };
        Some(self.after.saturating_sub(now.saturating_duration_since(since)))
    }
}
