//! The decision to try another server: a state machine without I/O (`proxy_next_upstream` and companions).
//!
//! ```text
//! choosing ──no server──> gives up: 502, "no live upstreams"
//!    │ a server; sent = false
//! connecting
//!    │ a connection; sent = true
//! sending, reading
//!    │ a head; or, from each of the two: refused, broken, late, no head
//! Retry::decide ──> Accept:         the response goes to the caller
//!               ──> NextPeer:       choosing
//!               ──> SamePeer:       connecting to the same server, by a new connection
//!               ──> GiveUp(status): the fetch fails
//! ```
//!
//! Invariants:
//! - A request of which any byte was sent goes to no other server unless it may be repeated: its method is idempotent
//!   (RFC 9110 section 9.2.2) or `non_idempotent` is listed, and its body can be sent again.
//! - `tries_left` falls with each decision to try another server and never rises, so a fetch ends. `SamePeer` is no
//!   such decision: a new connection cannot fail by `ReusedLost`, so it occurs at most once for each server; and
//!   `unprocessed_left` limits those of `Unprocessed`, where even a method that is not idempotent is repeated.
//! - A status that is listed and cannot be retried elsewhere is passed on unchanged; only errors become a status of
//!   the proxy.
//! - Time is compared in one place: after `until` no other server is tried; an attempt in progress ends by limits of
//!   its own.
//!
//! The machine waits for nothing. Its caller (`fetch`) may be dropped between any two calls.

#[cfg(test)]
mod tests;

use std::time::Instant;

/// The cases of `proxy_next_upstream` as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextUpstream(pub u16);

impl NextUpstream {
    /// No connection, or it broke before a complete head arrived (`error`).
    pub const ERROR: NextUpstream = NextUpstream(1);
    /// No progress in connecting, sending or reading (`timeout`).
    pub const TIMEOUT: NextUpstream = NextUpstream(1 << 1);
    /// The received bytes are no head (`invalid_header`).
    pub const INVALID_HEADER: NextUpstream = NextUpstream(1 << 2);
    /// A response with status 500.
    pub const HTTP_500: NextUpstream = NextUpstream(1 << 3);
    /// A response with status 502.
    pub const HTTP_502: NextUpstream = NextUpstream(1 << 4);
    /// A response with status 503.
    pub const HTTP_503: NextUpstream = NextUpstream(1 << 5);
    /// A response with status 504.
    pub const HTTP_504: NextUpstream = NextUpstream(1 << 6);
    /// A response with status 403.
    pub const HTTP_403: NextUpstream = NextUpstream(1 << 7);
    /// A response with status 404.
    pub const HTTP_404: NextUpstream = NextUpstream(1 << 8);
    /// A response with status 429.
    pub const HTTP_429: NextUpstream = NextUpstream(1 << 9);
    /// Requests that may not be repeated are repeated all the same (`non_idempotent`).
    pub const NON_IDEMPOTENT: NextUpstream = NextUpstream(1 << 10);
    /// No other server is tried, whatever else is listed.
    pub const OFF: NextUpstream = NextUpstream(1 << 11);
    /// The default: `error timeout`.
    pub const DEFAULT: NextUpstream = NextUpstream(3);

    /// Returns whether the case is listed, and not all are off.
    pub fn has(self, case: NextUpstream) -> bool {
        self.0 & case.0 != 0 && self.0 & NextUpstream::OFF.0 == 0
    }

    /// Returns the case of a status that can be listed.
    pub fn of_status(status: u16) -> Option<NextUpstream> {
        Some(match status {
            500 => NextUpstream::HTTP_500,
            502 => NextUpstream::HTTP_502,
            503 => NextUpstream::HTTP_503,
            504 => NextUpstream::HTTP_504,
            403 => NextUpstream::HTTP_403,
            404 => NextUpstream::HTTP_404,
            429 => NextUpstream::HTTP_429,
            _ => return None,
        })
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// No connection; nothing was sent.
    Refused,
    ConnectTimedOut,
    /// The connection broke before a complete head arrived.
    Lost,
    /// A reused connection broke before the first byte of a response: the origin closed it while idle.
    ReusedLost,
    /// The origin says that it has not processed the request (RFC 9113 section 8.7).
    Unprocessed,
    /// No progress in sending or receiving.
    TimedOut,
    /// The received bytes are no HTTP head.
    Invalid,
    Head(u16),
}

/// The decision after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Give the response to the caller.
    Accept,
    /// Try another server.
    NextPeer,
    /// Try the same server over a new connection.
    SamePeer,
    GiveUp(u16),
}

/// The change of a server's failure count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    None,
    Failed,
}

/// The attempts of one fetch.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    /// `proxy_next_upstream`
    pub policy: NextUpstream,
    /// Attempts left, the present one included.
    pub tries_left: u32,
    /// `proxy_next_upstream_timeout`.
    pub until: Option<Instant>,
    /// GET, HEAD and others that may be repeated (RFC 9110 section 9.2.2).
    pub idempotent: bool,
    /// The body can be sent again.
    pub repeatable: bool,
    /// Bytes were sent in the present attempt.
    pub sent: bool,
    /// Times that a server may say [`Event::Unprocessed`] before it counts as a failure.
    pub unprocessed_left: u8,
}

/// A server that restarts says once that it has not processed a request, one that lowers its limit on streams may say
/// so again.
pub(crate) const UNPROCESSED_MAX: u8 = 3;

impl Retry {
    /// Decides after an attempt, and whether the failure counts against the server (`max_fails`). The statuses of
    /// giving up are nginx's: 504 where time ran out, else 502.
    pub(crate) fn decide(&mut self, event: Event, now: Instant) -> (Decision, Blame) {
        match event {
            Event::ReusedLost if self.repeatable && self.may_repeat() => {
                (Decision::SamePeer, Blame::None)
            }
            Event::Unprocessed if self.repeatable && self.unprocessed_left > 0 => {
                self.unprocessed_left -= 1;
                (Decision::SamePeer, Blame::None)
            }
            Event::Refused => (self.next(NextUpstream::ERROR, 502, now), Blame::Failed),
            Event::Unprocessed => {
                // It counts as not sent, if its body can be sent again.
                self.sent &= !self.repeatable;
                (self.next(NextUpstream::ERROR, 502, now), Blame::Failed)
            }
            Event::Lost | Event::ReusedLost => {
                (self.next(NextUpstream::ERROR, 502, now), Blame::Failed)
            }
            Event::ConnectTimedOut | Event::TimedOut => {
                (self.next(NextUpstream::TIMEOUT, 504, now), Blame::Failed)
            }
            Event::Invalid => (self.next(NextUpstream::INVALID_HEADER, 502, now), Blame::Failed),
            Event::Head(status) => self.head(status, now),
        }
    }

    fn head(&mut self, status: u16, now: Instant) -> (Decision, Blame) {
        let listed = NextUpstream::of_status(status).filter(|case| self.policy.has(*case));
        let Some(case) = listed else { return (Decision::Accept, Blame::None) };
        let blame = match status {
            403 | 404 => Blame::None,
            _ => Blame::Failed,
        };
        match self.next(case, 0, now) {
            // The client gets it, so the server did its part.
            Decision::GiveUp(_) => (Decision::Accept, Blame::None),
            decision => (decision, blame),
        }
    }

    fn next(&mut self, case: NextUpstream, status: u16, now: Instant) -> Decision {
        self.tries_left = self.tries_left.saturating_sub(1);
        let late = self.until.is_some_and(|until| now >= until);
        let allowed = self.policy.has(case)
            && self.tries_left > 0
            && !late
            && (!self.sent || (self.repeatable && self.may_repeat()));
        if allowed { Decision::NextPeer } else { Decision::GiveUp(status) }
    }

    fn may_repeat(&self) -> bool {
        self.idempotent || self.policy.has(NextUpstream::NON_IDEMPOTENT)
    }
}
