//! Where the time of a request goes: what it has waited for, until when, and the cause that took most of it.
//!
//! A timeline belongs to a request where the configuration asks for it (`slow_log`, `server_timing`, variables). What
//! waits says why, where it returns [`Poll::Pending`](std::task::Poll): [`waits_for`] or [`blame`]. The time until the
//! request is polled again belongs to that cause, so that each moment has one cause and the sum of all waits is never
//! more than the time of the request. Work of the request in a task of its own is recorded by [`beside`]. A request that
//! has no timeline pays for a look at a flag where it waits.
//!
//! ```
//! use std::time::Instant;
//! use tidegate_core::timeline::{Cause, Timeline, around, blame};
//!
//! # let origin = std::future::ready(());
//! let timeline = Timeline::begin(Instant::now(), None);
//! let work = around(Some(timeline.clone()), blame(Cause::OriginThink, origin));
//! # let _ = work;
//! let verdict = timeline.view(Instant::now()).verdict();
//! assert_eq!(verdict.name(), "none");
//! ```

mod around;
mod cause;
#[cfg(test)]
mod tests;
mod view;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_rt::{clock, iteration};

pub use around::{Around, Blame, around, beside, blame, queued, waits_as_before, waits_for};
pub use cause::{CAUSES, Cause};
pub use view::{Verdict, View, Wait, write_seconds};

/// The waits of one request.
#[derive(Debug)]
pub struct Timeline {
    /// The beginning: the request's first byte, or that of the handshake in front of the connection's first request.
    started: Instant,
    /// The time of each cause, in microseconds.
    spent: [Cell<u32>; CAUSES],
    /// When the last wait of each cause ended, in microseconds from the start; 0 where there was none.
    ended: [Cell<u32>; CAUSES],
    /// When the head had been read, in microseconds from the start; 0 until then.
    head: Cell<u32>,
    /// When there was a response, in microseconds from the start; 0 until then.
    response: Cell<u32>,
    /// Until here all time has been given to a cause.
    since: Cell<Instant>,
    /// The cause of the time from there on.
    cause: Cell<Cause>,
}

impl Timeline {
    /// Begins the timeline of a request whose first byte arrived at `started`. A `handshake` is the time that the
    /// connection needed for TLS before; it counts for its first request.
    pub fn begin(started: Instant, handshake: Option<Duration>) -> Rc<Timeline> {
        let handshake = handshake.unwrap_or_default();
        let timeline = Timeline {
            started: started.checked_sub(handshake).unwrap_or(started),
            spent: [const { Cell::new(0) }; CAUSES],
            ended: [const { Cell::new(0) }; CAUSES],
            head: Cell::new(0),
            response: Cell::new(0),
            since: Cell::new(started),
            // Until the phases run, the client sends the rest of its head.
            cause: Cell::new(Cause::ClientSlowUpload),
        };
        if !handshake.is_zero() {
            timeline.add(Cause::Tls, handshake, started);
        }
        Rc::new(timeline)
    }

    /// Returns the state at `now`.
    pub fn view(&self, now: Instant) -> View {
        let mut view = View {
            total: self.at(now),
            head: self.head.get(),
            response: self.response.get(),
            spent: self.spent.each_ref().map(Cell::get),
            ended: self.ended.each_ref().map(Cell::get),
        };
        let place = self.cause.get() as usize;
        let open = micros(now.saturating_duration_since(self.since.get()));
        if open > 0 {
            view.spent[place] = view.spent[place].saturating_add(open);
            view.ended[place] = view.total;
        }
        view
    }

    /// Ends a wait: the request runs again. Returns the cause of the wait.
    fn resume(&self, now: Instant) -> Cause {
        let since = self.since.replace(now);
        let cause = self.cause.replace(Cause::Loop);
        let passed = now.saturating_duration_since(since);
        let busy = match cause {
            Cause::Loop => passed,
            // The event that ended the wait was there before the event loop came to it.
            _ => iteration::delay(since, now).min(passed),
        };
        self.add(cause, passed - busy, now - busy);
        self.add(Cause::Loop, busy, now);
        if self.head.get() == 0 {
            self.head.set(self.at(now));
        }
        cause
    }

    /// Begins a wait: the time from the last [`Timeline::resume`] on was work of the event loop.
    fn pause(&self, now: Instant, cause: Cause) {
        let since = self.since.replace(now);
        self.cause.set(cause);
        self.add(Cause::Loop, now.saturating_duration_since(since), now);
    }

    /// Moves time of a wait that was spent in the queue of a thread pool.
    fn move_to_pool(&self, cause: Cause, queued: Duration) {
        let spent = &self.spent[cause as usize];
        let moved = micros(queued).min(spent.get());
        if moved == 0 || cause == Cause::Loop {
            return;
        }
        spent.set(spent.get() - moved);
        let pool = &self.spent[Cause::Pool as usize];
        pool.set(pool.get().saturating_add(moved));
        self.ended[Cause::Pool as usize].set(self.ended[cause as usize].get());
    }

    /// Notes the moment at which there was a response, the first time.
    fn note_response(&self, now: Instant) {
        if self.response.get() == 0 {
            self.response.set(self.at(now));
        }
    }

    fn add(&self, cause: Cause, time: Duration, end: Instant) {
        if time.is_zero() {
            return;
        }
        let spent = &self.spent[cause as usize];
        spent.set(spent.get().saturating_add(micros(time)));
        self.ended[cause as usize].set(self.at(end));
    }

    fn at(&self, now: Instant) -> u32 {
        micros(now.saturating_duration_since(self.started))
    }
}

/// Returns the exact time; the clock of timelines.
fn now() -> Instant {
    clock::exact_now()
}

/// Returns whole microseconds, at most 71 minutes.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
