//! The order of requests that want a process of an application; it decides, and knows neither sockets nor threads.
//!
//! A request waits *there*, written to a new connection that the application has not been seen to accept, or *here*,
//! for a connection that another request ends on. The rule:
//!
//! - As long as no client is known to wait, connections are kept and opened as needed. A request is known to wait there
//!   when one that arrived later has ended, and it has waited four times as long as that one took, and as requests on
//!   kept connections take on average. Then the application is *full*.
//! - While it is full, arriving requests wait here. A request that ends leaves its connection to the oldest that waits:
//!   it is handed over to one here, or closed for one there, whose connection the process then accepts. When no client
//!   waits any more the application is not full.
//! - Connections are accepted in the order in which they were opened: a response on one shows that those before it were
//!   accepted, so that their requests do not wait but are served.
//! - Now and then an arriving request is a *probe*: it goes there, and keeps its place in the order. A response before
//!   its turn shows that a process was free: the application is not full, and all that wait here go there.
//! - So do they when a connection was closed for a request there and it waits on (other servers' requests wait for the
//!   same processes), and when no connection came free for [`PATIENCE`].
//!
//! ```text
//! arrival ── not full, or a probe ──> there ── accepted ──> served ── released ──> the oldest that waits, or kept
//!        └── full ──> here ── handed a connection ────────────^
//!                      └── its turn without one, patience, a free process ──> there
//! ```

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::by_number::ByNumber;

/// All that wait for the processes at one address. `W` wakes a request that waits here.
#[derive(Debug)]
pub(super) struct Line<W> {
    /// By the number of arrival.
    there: ByNumber<There>,
    here: ByNumber<W>,
    is_full: bool,
    /// New connections so far, and the last one of them that was seen to be accepted.
    opened: u64,
    accepted: u64,
    /// Releases until the next probe.
    until_probe: u32,
    released_last: Option<Instant>,
    /// The mean time of the last requests on kept connections.
    typical: Duration,
    patience: Duration,
}

/// A request on a new connection without any byte of a response yet.
#[derive(Debug)]
struct There {
    sent: Instant,
    /// Its connection's number.
    opened: u64,
    /// When a connection was closed for it.
    called: Option<Instant>,
    is_probe: bool,
}

/// Why a request opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// No client is known to wait, or waiting here is not worth it.
    Free,
    /// To find out whether a process is free.
    Probe,
    /// It is its turn, and no connection could be handed over.
    Turn,
}

/// What happens to a request that arrives while the application is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Waits,
    Opens(Opening),
}

/// What happens to a connection behind its response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Release<W> {
    /// It is kept: no client waits.
    Keep,
    /// It is closed for one that waits there.
    Close,
    /// It is closed; this one, whose turn it is, opens another.
    Open(W),
    /// This one gets it.
    Hand(W),
}

/// A request there that has waited this many times as long as a later one took, or the last ones on average, is left
/// behind. A slow request may be mistaken for one; the next probe ends that.
const BEHIND_TIMES: u32 = 4;
/// One that has waited so many times as long since a connection was closed for it is behind requests of another server.
const CROWDED_TIMES: u32 = 4;
/// Requests in that average.
const TYPICAL_OF: u32 = 16;
/// A probe is left alone until it had time for its response where a process was free.
const PROBE_TIMES: u32 = 2;
/// Releases from one probe to the next: each costs a connection, and waits longer than others where few wait.
const PROBE_PAUSE: u32 = 256;
/// Requests wait here only while connections come free in shorter intervals than this. In longer ones opening
/// connections costs little, and a mistake would cost much.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);
/// Most requests that wait here; others go there.
pub(super) const HERE_MAX: usize = 4096;

impl<W> Line<W> {
    /// Makes an empty line, with the patience of those that wait here.
    pub(super) const fn new(patience: Duration) -> Line<W> {
        Line {
            there: ByNumber::new(),
            here: ByNumber::new(),
            is_full: false,
            opened: 0,
            accepted: 0,
            until_probe: 0,
            released_last: None,
            typical: Duration::ZERO,
            patience,
        }
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the number of requests that wait or may wait.
    pub(super) fn len(&self) -> usize {
        self.there.len() + self.here.len()
    }

    /// Decides about a request that arrives, and keeps `waiter` where it waits here.
    pub(super) fn arrive(&mut self, number: u64, waiter: W) -> Arrival {
        if !self.is_full || self.here.len() >= HERE_MAX {
            return Arrival::Opens(Opening::Free);
        }
        if self.until_probe == 0 {
            self.until_probe = PROBE_PAUSE;
            return Arrival::Opens(Opening::Probe);
        }
        self.here.insert(number, waiter);
        Arrival::Waits
    }

    /// Records a request that was sent on a new connection.
    pub(super) fn sent(&mut self, number: u64, opening: Opening, now: Instant) {
        self.opened += 1;
        let there = There {
            sent: now,
            opened: self.opened,
            called: (opening == Opening::Turn).then_some(now),
            is_probe: opening == Opening::Probe,
        };
        self.there.insert(number, there);
    }

    /// Records a response on a new connection; returns those here that are to go there.
    pub(super) fn responded(&mut self, number: u64) -> Vec<W> {
        let Some(there) = self.there.remove(number) else { return Vec::new() };
        self.accepted = self.accepted.max(there.opened);
        if self.is_full && there.is_probe && there.called.is_none() {
            self.is_full = false;
            return self.all_here();
        }
        Vec::new()
    }

    /// Removes a request that was sent on a new connection and leaves; returns whether a process is free for the next
    /// one: it was served, or its turn had come.
    pub(super) fn leave_there(&mut self, number: u64) -> bool {
        let left = self.there.remove(number);
        self.empty();
        left.is_none_or(|there| there.called.is_some() || there.opened <= self.accepted)
    }

    /// Removes a request that waits here, if its turn has not come.
    pub(super) fn leave_here(&mut self, number: u64) {
        self.here.remove(number);
        self.empty();
    }

    /// Without any client that waits the application is not full.
    fn empty(&mut self) {
        self.is_full &= self.len() > 0;
    }

    /// Decides about the connection of a request that has ended and `took` its time; `is_new`: it may have waited there.
    /// `fits` tells who could use the connection.
    /// The second value are those here that are to go there.
    pub(super) fn release(
        &mut self,
        number: u64,
        (took, is_new): (Duration, bool),
        now: Instant,
        fits: impl FnOnce(&W) -> bool,
    ) -> (Release<W>, Vec<W>) {
        self.released_last = Some(now);
        self.until_probe = self.until_probe.saturating_sub(1);
        let took = self.reference(took, is_new);
        if !self.is_full && !self.is_overtaken(number, took, now) {
            return (Release::Keep, Vec::new());
        }
        if !self.is_full {
            self.is_full = true;
            self.until_probe = 0;
        }
        let gone = if self.call_again(took, now) { self.all_here() } else { Vec::new() };
        (self.next(took, now, fits), gone)
    }

    /// Returns those here that are to go there, since no connection came free for a while.
    pub(super) fn lose_patience(&mut self, now: Instant) -> Vec<W> {
        let is_quick = |last: Instant| now.saturating_duration_since(last) < self.patience;
        if self.released_last.is_some_and(is_quick) { Vec::new() } else { self.all_here() }
    }

    /// Returns the time to compare waits with. A single request may be much faster than others, where processes share a
    /// processor; one on a new connection may have waited.
    fn reference(&mut self, took: Duration, is_new: bool) -> Duration {
        self.typical = match self.typical {
            Duration::ZERO if is_new => return took,
            Duration::ZERO => took,
            typical if is_new => typical,
            typical => typical - typical / TYPICAL_OF + took / TYPICAL_OF,
        };
        if is_new { self.typical } else { took.max(self.typical) }
    }

    /// Returns the oldest there that is not served, or not yet called.
    fn waiting_there(&mut self) -> impl Iterator<Item = (u64, &mut There)> {
        let accepted = self.accepted;
        self.there.iter_mut().filter(move |(_, there)| there.opened > accepted)
    }

    fn is_overtaken(&mut self, number: u64, took: Duration, now: Instant) -> bool {
        let oldest = self.waiting_there().next();
        oldest.is_some_and(|(other, there)| {
            other < number && now.saturating_duration_since(there.sent) > took * BEHIND_TIMES
        })
    }

    /// Returns whether one for which a connection was closed is left behind; another one will be.
    fn call_again(&mut self, took: Duration, now: Instant) -> bool {
        let oldest = self.waiting_there().find_map(|(_, there)| there.called.map(|at| (at, there)));
        match oldest {
            Some((at, there)) if now.saturating_duration_since(at) > took * CROWDED_TIMES => {
                there.called = None;
                true
            }
            _ => false,
        }
    }

    fn next(&mut self, took: Duration, now: Instant, fits: impl FnOnce(&W) -> bool) -> Release<W> {
        let first_here = self.here.first();
        let has_time = |there: &There| {
            there.is_probe && now.saturating_duration_since(there.sent) < took * PROBE_TIMES
        };
        let there = self
            .waiting_there()
            .filter(|(_, there)| there.called.is_none())
            .find(|(_, there)| first_here.is_none() || !has_time(there));
        if let Some((number, there)) = there
            && first_here.is_none_or(|here| number < here)
        {
            there.called = Some(now);
            return Release::Close;
        }
        match self.here.pop_first() {
            Some((_, waiter)) if fits(&waiter) => Release::Hand(waiter),
            Some((number, waiter)) => {
                // The process accepts the oldest connection: that of a probe, if there is one.
                let probe = self.waiting_there().find(|(_, there)| there.called.is_none());
                if let Some((_, there)) = probe {
                    there.called = Some(now);
                    self.here.insert(number, waiter);
                    return Release::Close;
                }
                Release::Open(waiter)
            }
            None => {
                self.is_full = false;
                Release::Keep
            }
        }
    }

    fn all_here(&mut self) -> Vec<W> {
        self.here.drain().collect()
    }
}
