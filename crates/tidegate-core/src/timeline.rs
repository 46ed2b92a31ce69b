//! Where the time of a request goes: what it has waited for, until when, and the cause that took most of it.
//!
//! A timeline belongs to a request where the configuration asks for it (`slow_log`, `server_timing`, variables). What
//! waits says why, where it returns [`Poll::Pending`](std::task::Poll): [`waits_for`] or [`blame`]. The time until the
//! request is polled again belongs to that cause, so that each moment has one cause and the sum of all waits is never
//! more than the time of the request. Work of the request in a task of its own is recorded by [`beside`].
//!
//! A request that does not wait costs a flag: the clock is read, and figures are kept, from its first wait on. What lies
//! before is the event loop's.
//!
//! ```
//! use std::time::Instant;
//! use tidegate_core::timeline::{Cause, Timeline, around, blame};
//!
//! # let origin = std::future::ready(());
//! let timeline = Timeline::begun(Instant::now(), None);
//! let work = around(Some(&timeline), blame(Cause::OriginThink, origin));
//! # let _ = work;
//! let verdict = timeline.view(Instant::now()).unwrap_or_default().verdict();
//! assert_eq!(verdict.name(), "none");
//! ```

mod around;
mod cause;
pub mod slow;
#[cfg(test)]
mod tests;
mod view;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_rt::iteration;

pub use around::{
    Around, Beside, Blame, around, beside, blame, queued, waits_as_before, waits_for,
};
pub use cause::{CAUSES, Cause};
pub use view::{Verdict, View, Wait, write_seconds};

/// The waits of a request; its memory is used again for later requests.
///
/// ```text
///   off ──begin──▶ without a wait ──head_part, resume, pause──▶ with figures
///    ▲                   │ end                                      │ end
///    └───────────────────┴──────────────────────────────────────────┘
/// ```
/// Invariant: unless it has figures, `spent` and `ended` are zero, `head` is 0, there is no `response`, the cause is the
/// event loop, and `since` has no meaning: all time from the start on is the event loop's. Otherwise all time until `since`
/// has been given to a cause.
#[derive(Debug)]
pub struct Timeline {
    is_on: Cell<bool>,
    has_figures: Cell<bool>,
    /// There is a response.
    has_response: Cell<bool>,
    /// The number of the request among those of this memory: work beside an earlier one is not recorded.
    number: Cell<u64>,
    /// The beginning: the request's first byte, or that of the handshake in front of the connection's first request.
    started: Cell<Instant>,
    /// The time of each cause, in microseconds.
    spent: [Cell<u32>; CAUSES],
    /// When the last wait of each cause ended, in microseconds from the start; 0 where there was none.
    ended: [Cell<u32>; CAUSES],
    /// When the head had been read, in microseconds from the start; `None` for one that stays incomplete.
    head: Cell<Option<u32>>,
    /// When there was a response, in microseconds from the start. A response that was made without a wait was there at
    /// the first wait behind it, or at the end.
    response: Cell<Option<u32>>,
    /// Until here all time has been given to a cause.
    since: Cell<Instant>,
    /// The cause of the time from there on.
    cause: Cell<Cause>,
    /// When the log phase of the latest request began.
    logged: Cell<Instant>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        let now = now();
        Timeline {
            is_on: Cell::new(false),
            has_figures: Cell::new(false),
            has_response: Cell::new(false),
            number: Cell::new(0),
            started: Cell::new(now),
            spent: [const { Cell::new(0) }; CAUSES],
            ended: [const { Cell::new(0) }; CAUSES],
            head: Cell::new(Some(0)),
            response: Cell::new(None),
            since: Cell::new(now),
            cause: Cell::new(Cause::Loop),
            logged: Cell::new(now),
        }
    }
}

/// A reference to the timeline of a request, of which nothing is left once the request has ended.
#[derive(Clone, Debug)]
pub struct TimelineRef {
    timeline: Rc<Timeline>,
    number: u64,
}

impl TimelineRef {
    fn get(&self) -> Option<&Timeline> {
        let is_same = self.timeline.is_on() && self.timeline.number.get() == self.number;
        is_same.then_some(&*self.timeline)
    }
}

impl Timeline {
    /// Makes the timeline of a request; see [`Timeline::begin`].
    pub fn begun(started: Instant, handshake: Option<Duration>) -> Rc<Timeline> {
        let timeline = Timeline::default();
        timeline.begin(started, handshake);
        Rc::new(timeline)
    }

    /// Begins the timeline of a request whose first byte arrived at `started`, with its head unless there is a
    /// [`Timeline::head_part`]. A `handshake` is the time that the connection needed for TLS before; it counts for its
    /// first request.
    #[inline]
    pub fn begin(&self, started: Instant, handshake: Option<Duration>) {
        self.end();
        self.is_on.set(true);
        self.number.set(self.number.get().wrapping_add(1));
        self.started.set(started);
        self.has_response.set(false);
        if let Some(handshake) = handshake {
            self.add_handshake(handshake, started);
        }
    }

    #[cold]
    fn add_handshake(&self, handshake: Duration, end: Instant) {
        self.started.set(end.checked_sub(handshake).unwrap_or(end));
        self.begin_figures();
        self.since.set(end);
        self.head.set(Some(self.at(end)));
        self.add(Cause::Tls, handshake, end);
    }

    /// Ends the recording.
    #[inline]
    pub fn end(&self) {
        self.is_on.set(false);
        if self.has_figures.get() {
            self.clear();
        }
    }

    #[cold]
    fn clear(&self) {
        self.has_figures.set(false);
        self.head.set(Some(0));
        self.response.set(None);
        self.cause.set(Cause::Loop);
        self.spent.iter().chain(&self.ended).for_each(|figure| figure.set(0));
    }

    /// Begins to keep figures, if that has not happened yet.
    fn begin_figures(&self) {
        if !self.has_figures.replace(true) {
            self.since.set(self.started.get());
        }
    }

    /// Whether it belongs to a request.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Returns a reference for work beside the request ([`beside`]).
    pub fn reference(self: &Rc<Timeline>) -> TimelineRef {
        TimelineRef { timeline: self.clone(), number: self.number.get() }
    }

    /// Returns the beginning.
    #[inline]
    pub fn started(&self) -> Instant {
        self.started.get()
    }

    /// Returns the time at which the log phase began: loggers share one reading of the clock.
    #[inline]
    pub fn logged(&self) -> Instant {
        self.logged.get()
    }

    /// Returns the state at `now`; `None` where nothing is recorded.
    pub fn view(&self, now: Instant) -> Option<View> {
        if !self.is_on() {
            return None;
        }
        let total = self.at(now);
        let response = self.response.get().or(self.has_response.get().then_some(total));
        let mut view = View {
            total,
            head: self.head.get(),
            response,
            spent: self.spent.each_ref().map(Cell::get),
            ended: self.ended.each_ref().map(Cell::get),
        };
        let place = self.cause.get() as usize;
        let since = if self.has_figures.get() { self.since.get() } else { self.started.get() };
        let open = micros(now.saturating_duration_since(since));
        if open > 0 {
            view.spent[place] = view.spent[place].saturating_add(open);
            view.ended[place] = view.total;
        }
        Some(view)
    }

    /// Notes that a further part of the head has arrived, for which the request had to wait.
    #[cold]
    pub fn head_part(&self) {
        if self.is_on() {
            let now = now();
            self.begin_figures();
            self.cause.set(Cause::ClientSlowUpload);
            self.resume(now);
            self.head.set(Some(self.at(now)));
        }
    }

    /// Notes that the head stays incomplete.
    pub fn lose_head(&self) {
        self.begin_figures();
        self.head.set(None);
    }

    /// Notes that there is a response.
    #[inline]
    pub fn note_response(&self) {
        self.has_response.set(true);
    }

    /// Ends a wait: the request runs again. Returns the cause of the wait.
    fn resume(&self, now: Instant) -> Cause {
        self.begin_figures();
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
        cause
    }

    /// Begins a wait: the time from the last [`Timeline::resume`] on was work of the event loop. Behind a future that was
    /// dropped while it waited it is still the time of that wait.
    fn pause(&self, now: Instant, cause: Cause) {
        self.begin_figures();
        let since = self.since.replace(now);
        let before = self.cause.replace(cause);
        self.add(before, now.saturating_duration_since(since), now);
        if self.has_response.get() && self.response.get().is_none() {
            self.response.set(Some(self.at(now)));
        }
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

    fn add(&self, cause: Cause, time: Duration, end: Instant) {
        if time.is_zero() {
            return;
        }
        let spent = &self.spent[cause as usize];
        spent.set(spent.get().saturating_add(micros(time)));
        self.ended[cause as usize].set(self.at(end));
    }

    fn at(&self, now: Instant) -> u32 {
        micros(now.saturating_duration_since(self.started.get()))
    }
}

/// Returns the exact time; the clock of timelines.
fn now() -> Instant {
    iteration::exact_now()
}

/// Returns whole microseconds, at most 71 minutes.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
