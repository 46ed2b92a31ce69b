//! Fairness between the connections of a thread: how much of a turn of the event loop one of them gets.
//!
//! Whoever never has to wait (a pipeline of requests, a busy tunnel, a flood of datagrams, a download by a fast
//! client) would else keep the loop from all others. So every call that moves bytes of a socket takes from the
//! share of the task that runs, whatever that does: sockets ask [`poll`] before and say [`spend`] behind. Work
//! without a socket (files that are compressed, pages of many parts) does the same at its own steps. When the
//! share is used up, the task waits: it goes on when the loop has looked for events and served them.
//!
//! Elapsed time is what counts. The clock is asked only after some work, so that what a common request needs
//! costs a look at a counter.
//!
//! ```ignore
//! ready!(share::poll(context));
//! let count = read(socket, buffer)?;
//! share::spend(count);
//! ```

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::clock::exact_now;

/// How long one task works in a turn: dozens of small requests or some MB, against which looking for events
/// costs nothing; with ten that never wait, another client is served within 3 ms.
const SHARE_MAX: Duration = Duration::from_micros(250);
/// The length of a turn after which those whose share is still to come get the least: with hundreds that never
/// wait, each gets a request or a piece.
const TURN_MAX: Duration = Duration::from_millis(4);
/// Work of one task for which no clock is asked: more than a common request needs. A unit is a call.
const UNITS_UNASKED: usize = 12;
/// The same in a turn that is long already: a request's read and its write.
const UNITS_LEAST: usize = 2;
/// Calls between two looks at the clock.
const UNITS_BETWEEN: usize = 4;
/// Bytes that count as much as a call: moving them takes about as long.
const UNIT_BYTES: usize = 16 * 1024;

/// A share beyond its units.
///
/// ```text
/// unasked ─ units used up ─→ until: the clock was asked ─ time or turn over ─→ until, with no units: the task waits
/// ```
/// A share begins unasked in each run of a task ([`run`]) and in each part of it ([`apart`]); what stands outside has its
/// own back afterwards. Outside of tasks there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// None: no task of a loop is running.
    Unbounded,
    /// The clock was not asked yet.
    Unasked,
    Until(Instant),
}

/// What the thread's running task has left, and the turn as far as somebody asked the clock in it.
struct Share {
    /// Work until the clock is asked; none when the share is used up.
    units: Cell<usize>,
    /// What tasks begin with in this turn.
    units_first: Cell<usize>,
    limit: Cell<Limit>,
    turn_ends: Cell<Option<Instant>>,
    /// Tells this turn from those before it.
    turn: Cell<u32>,
    /// The running task waits until the loop has looked for events.
    waits: Cell<bool>,
}

thread_local! {
    static SHARE: Share = const {
        Share {
            units: Cell::new(usize::MAX),
            units_first: Cell::new(UNITS_UNASKED),
            limit: Cell::new(Limit::Unbounded),
            turn_ends: Cell::new(None),
            turn: Cell::new(0),
            waits: Cell::new(false),
        }
    };
}

/// Ready while the running task may go on in this turn. Else it is woken when the loop has looked for events and
/// those that were ready have run.
#[inline]
pub fn poll(context: &mut Context<'_>) -> Poll<()> {
    if SHARE.with(|share| share.units.get()) > 0 { Poll::Ready(()) } else { later(context) }
}

/// Waits until the running task may go on; mostly not at all.
pub async fn wait() {
    poll_fn(poll).await;
}

/// Takes one call that moved `bytes` from the share of the running task.
#[inline]
pub fn spend(bytes: usize) {
    SHARE.with(|share| {
        let left = share.units.get().saturating_sub(1 + bytes / UNIT_BYTES);
        share.units.set(left);
        if left == 0 {
            share.ask_clock();
        }
    });
}

/// Waits until the running task may go on, by the clock: before steps that take long without moving bytes, as whole
/// requests.
pub async fn step() {
    if is_over() {
        wait().await;
    }
}

/// Whether the share is used up, by the clock: before or behind work that takes long without moving bytes. What asks
/// [`poll`] next waits.
pub fn is_over() -> bool {
    SHARE.with(|share| {
        share.ask_clock();
        share.units.get() == 0
    })
}

/// Runs `work` with a share of its own: one connection of many that a task serves.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    let _outer = Outer::of_thread();
    work()
}

/// A task waits until the loop has looked for events, in the turn of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting(u32);

impl Waiting {
    /// That it runs begins another turn: the loop has looked, and all that were ready then have run. Whoever waited in
    /// the same turn finds that begun.
    pub(crate) fn begins_turn(self) -> bool {
        SHARE.with(|share| share.turn.get()) == self.0
    }
}

/// Runs a task: its result, and whether it waits.
#[inline]
pub(crate) fn run<R>(work: impl FnOnce() -> R) -> (R, Option<Waiting>) {
    let outer = Outer::of_thread();
    let result = work();
    drop(outer);
    (result, SHARE.with(|share| share.waits.take().then(|| Waiting(share.turn.get()))))
}

/// All tasks that were ready have run, or there were none.
pub(crate) fn begin_turn() {
    SHARE.with(|share| {
        share.turn.set(share.turn.get().wrapping_add(1));
        share.units_first.set(UNITS_UNASKED);
        share.turn_ends.set(None);
    });
}

/// Pending; the task is woken when the loop has looked for events.
#[cold]
pub fn later(context: &mut Context<'_>) -> Poll<()> {
    SHARE.with(|share| share.waits.set(true));
    // The first time that this is asked it leaves the waker with the loop.
    let _ = pin!(tokio::task::yield_now()).poll(context);
    Poll::Pending
}

/// What was left to those outside of a share that has begun; theirs again when that ends.
struct Outer {
    units: usize,
    limit: Limit,
}

impl Outer {
    #[inline]
    fn of_thread() -> Outer {
        SHARE.with(|share| Outer {
            units: share.units.replace(share.units_first.get()),
            limit: share.limit.replace(Limit::Unasked),
        })
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        SHARE.with(|share| {
            share.units.set(self.units);
            share.limit.set(self.limit);
        });
    }
}

impl Share {
    #[cold]
    fn ask_clock(&self) {
        let now = exact_now();
        let turn_ends = self.turn_ends.get().unwrap_or(now + TURN_MAX);
        self.turn_ends.set(Some(turn_ends));
        let is_late = turn_ends <= now;
        if is_late {
            self.units_first.set(UNITS_LEAST);
        }
        let (units, limit) = asked(self.limit.get(), self.units.get(), now, is_late);
        self.units.set(units);
        self.limit.set(limit);
    }
}

/// What `left` becomes at `now`: units until the next look at the clock, and the limit. Late in a long turn a share
/// is over but for the units that it began with, if this is its first look: a step at least, or the same tasks would
/// be left out each time.
fn asked(limit: Limit, left: usize, now: Instant, is_late: bool) -> (usize, Limit) {
    match limit {
        Limit::Unbounded => (usize::MAX, limit),
        Limit::Unasked if is_late => (left, Limit::Until(now)),
        Limit::Unasked => (UNITS_BETWEEN, Limit::Until(now + SHARE_MAX)),
        Limit::Until(ends) if is_late || ends <= now => (0, limit),
        Limit::Until(_) => (UNITS_BETWEEN, limit),
    }
}

#[cfg(test)]
mod tests;
