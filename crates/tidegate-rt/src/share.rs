//! Fairness between the connections of a thread: the time share of each in an event-loop iteration.
//!
//! A task that never has to wait (a pipeline of requests, a busy tunnel, a flood of datagrams, a download by a fast
//! client) would keep the event loop from all others. So every call that moves bytes of a socket takes from the share
//! of the running task, whatever the task does: sockets call [`poll`] before and [`spend`] after it. Work without a
//! socket (files that are compressed, pages of many parts) does the same at its own steps. When the share is used up,
//! the task waits: it continues when the event loop has polled for events and served them.
//!
//! Elapsed time is what counts. The clock is read only after some work, so that a common request costs one look at a
//! counter.
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

/// Time that one task works in an iteration: dozens of small requests or some MB, against which polling for events
/// costs nothing; with ten tasks that never wait, another client is served within 3 ms.
const SHARE_MAX: Duration = Duration::from_micros(250);
/// The length of an iteration after which the tasks that have not run yet get the minimum: with hundreds of tasks that
/// never wait, each serves a request or a piece.
const ITERATION_MAX: Duration = Duration::from_millis(4);
/// Units of one task before the clock is read: more than a common request needs. A unit is a call.
const UNITS_BEFORE_CLOCK: usize = 12;
/// The same in an iteration that is already long: a request's read and its write.
const UNITS_LEAST: usize = 2;
/// Units between two readings of the clock.
const UNITS_BETWEEN: usize = 4;
/// Bytes that count as a unit: moving them takes about as long as a call.
const UNIT_BYTES: usize = 16 * 1024;

/// A share beyond its units.
///
/// ```text
/// unread ─ units used up ─→ until: the clock was read ─ time or iteration over ─→ until, with no units: the task waits
/// ```
/// A share begins unread in each run of a task ([`run`]) and in each part of it ([`apart`]); the outer share is
/// restored afterwards. Outside of tasks there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// No limit: no task of an event loop is running.
    Unbounded,
    /// The clock was not read yet.
    ClockUnread,
    Until(Instant),
}

/// What the thread's running task has left, and what is known of the iteration.
struct Share {
    /// Units until the clock is read; none when the share is used up.
    units: Cell<usize>,
    /// The units that tasks begin with in this iteration.
    units_first: Cell<usize>,
    limit: Cell<Limit>,
    iteration_ends: Cell<Option<Instant>>,
    /// The number of this iteration, to compare it with others.
    iteration: Cell<u32>,
    /// The running task waits until the event loop has polled for events.
    waits: Cell<bool>,
}

thread_local! {
    static SHARE: Share = const {
        Share {
            units: Cell::new(usize::MAX),
            units_first: Cell::new(UNITS_BEFORE_CLOCK),
            limit: Cell::new(Limit::Unbounded),
            iteration_ends: Cell::new(None),
            iteration: Cell::new(0),
            waits: Cell::new(false),
        }
    };
}

/// Ready while the running task may continue in this iteration. Else it is woken when the event loop has polled for
/// events and the tasks that were ready have run.
#[inline]
pub fn poll(context: &mut Context<'_>) -> Poll<()> {
    if SHARE.with(|share| share.units.get()) > 0 { Poll::Ready(()) } else { later(context) }
}

/// Waits until the running task may continue; mostly not at all.
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
            share.read_clock();
        }
    });
}

/// Waits until the running task may continue, by the clock: before steps that take long without moving bytes, such as
/// whole requests.
pub async fn step() {
    if is_over() {
        wait().await;
    }
}

/// Whether the share is used up, by the clock: before or after work that takes long without moving bytes. The next call
/// of [`poll`] waits then.
pub fn is_over() -> bool {
    SHARE.with(|share| {
        share.read_clock();
        share.units.get() == 0
    })
}

/// Whether the share is used up, as far as the clock was read: without a reading of its own.
#[inline]
pub fn is_used_up() -> bool {
    SHARE.with(|share| share.units.get()) == 0
}

/// Ends the share of the running task: [`poll`] waits. For work that a peer causes for next to nothing, and which should
/// keep no other task waiting.
pub fn end() {
    SHARE.with(|share| {
        if share.limit.get() != Limit::Unbounded {
            share.limit.set(Limit::Until(exact_now()));
            share.units.set(0);
        }
    });
}

/// Runs `work` with a share of its own: one connection of many that a task serves.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    let _outer = Outer::of_thread();
    work()
}

/// A task waits until the event loop has polled for events, in the iteration of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting(u32);

impl Waiting {
    /// Whether the task's run begins another iteration: the event loop has polled, and all tasks that were ready then
    /// have run. A second task that waited in the same iteration finds the new one begun.
    pub(crate) fn begins_iteration(self) -> bool {
        SHARE.with(|share| share.iteration.get()) == self.0
    }
}

/// Runs a task: returns its result, and whether it waits.
#[inline]
pub(crate) fn run<R>(work: impl FnOnce() -> R) -> (R, Option<Waiting>) {
    let outer = Outer::of_thread();
    let result = work();
    drop(outer);
    (result, SHARE.with(|share| share.waits.take().then(|| Waiting(share.iteration.get()))))
}

/// Begins an iteration: all tasks that were ready have run, or there were none.
pub(crate) fn begin_iteration() {
    SHARE.with(|share| {
        share.iteration.set(share.iteration.get().wrapping_add(1));
        share.units_first.set(UNITS_BEFORE_CLOCK);
        share.iteration_ends.set(None);
    });
}

/// Returns pending; the task is woken when the event loop has polled for events.
#[cold]
pub fn later(context: &mut Context<'_>) -> Poll<()> {
    SHARE.with(|share| share.waits.set(true));
    // Its first poll leaves the waker with the event loop.
    let _ = pin!(tokio::task::yield_now()).poll(context);
    Poll::Pending
}

/// What was left to the outer share; restored when an inner one ends.
struct Outer {
    units: usize,
    limit: Limit,
}

impl Outer {
    #[inline]
    fn of_thread() -> Outer {
        SHARE.with(|share| Outer {
            units: share.units.replace(share.units_first.get()),
            limit: share.limit.replace(Limit::ClockUnread),
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
    fn read_clock(&self) {
        let now = exact_now();
        let iteration_ends = self.iteration_ends.get().unwrap_or(now + ITERATION_MAX);
        self.iteration_ends.set(Some(iteration_ends));
        let is_late = iteration_ends <= now;
        if is_late {
            self.units_first.set(UNITS_LEAST);
        }
        let (units, limit) = after_reading(self.limit.get(), self.units.get(), now, is_late);
        self.units.set(units);
        self.limit.set(limit);
    }
}

/// Returns what `left` becomes at `now`: units until the next reading of the clock, and the limit. Late in a long
/// iteration a share is over except for the units that it began with, if this is its first reading: one step at least,
/// or the same tasks would be left out each time.
fn after_reading(limit: Limit, left: usize, now: Instant, is_late: bool) -> (usize, Limit) {
    match limit {
        Limit::Unbounded => (usize::MAX, limit),
        Limit::ClockUnread if is_late => (left, Limit::Until(now)),
        Limit::ClockUnread => (UNITS_BETWEEN, Limit::Until(now + SHARE_MAX)),
        Limit::Until(ends) if is_late || ends <= now => (0, limit),
        Limit::Until(_) => (UNITS_BETWEEN, limit),
    }
}

#[cfg(test)]
mod tests;
