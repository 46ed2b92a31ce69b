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
const UNITS_UNASKED: u32 = 12;
/// The same in a turn that is long already: a request's read and its write.
const UNITS_LEAST: u32 = 2;
/// Calls between two looks at the clock.
const UNITS_BETWEEN: u32 = 4;
/// Bytes that count as much as a call: moving them takes about as long.
const UNIT_BYTES: usize = 16 * 1024;

/// A share beyond its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// None: no task of a loop is running.
    Unbounded,
    /// The clock was not asked yet.
    Unasked,
    Until(Instant),
}

/// The turn, as far as somebody asked the clock in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turn {
    ends: Option<Instant>,
    is_long: bool,
}

thread_local! {
    /// Work until the clock is asked; none when the share is used up.
    static UNITS: Cell<u32> = const { Cell::new(u32::MAX) };
    static LIMIT: Cell<Limit> = const { Cell::new(Limit::Unbounded) };
    static TURN: Cell<Turn> = const { Cell::new(Turn { ends: None, is_long: false }) };
    /// Somebody waits until the loop has looked for events.
    static WAITED: Cell<bool> = const { Cell::new(false) };
}

/// Ready while the running task may go on in this turn. Else it is woken when the loop has looked for events and
/// those that were ready have run.
#[inline]
pub fn poll(context: &mut Context<'_>) -> Poll<()> {
    if UNITS.get() > 0 { Poll::Ready(()) } else { later(context) }
}

/// Waits until the running task may go on; mostly not at all.
pub async fn wait() {
    poll_fn(poll).await;
}

/// Takes one call that moved `bytes` from the share of the running task.
#[inline]
pub fn spend(bytes: usize) {
    let units = 1 + u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX - 1);
    let left = UNITS.get().saturating_sub(units);
    UNITS.set(left);
    if left == 0 {
        ask_clock();
    }
}

/// Whether the share is used up, by the clock: for steps that take long without moving bytes, as whole requests.
/// Who has not asked before gets one step even late in a long turn, else the same tasks would be left out each time.
pub fn is_over() -> bool {
    let first = LIMIT.get() == Limit::Unasked;
    ask_clock();
    if first && UNITS.get() == 0 {
        UNITS.set(UNITS_LEAST);
    }
    UNITS.get() == 0
}

/// Runs `work` with a share of its own: one connection of many that a task serves.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    struct Outer(u32, Limit);
    impl Drop for Outer {
        fn drop(&mut self) {
            UNITS.set(self.0);
            LIMIT.set(self.1);
        }
    }
    let _outer = Outer(UNITS.get(), LIMIT.get());
    begin();
    work()
}

/// Runs a task: its result, and whether it waits until the loop has looked for events.
#[inline]
pub(crate) fn run<R>(work: impl FnOnce() -> R) -> (R, bool) {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            UNITS.set(u32::MAX);
            LIMIT.set(Limit::Unbounded);
        }
    }
    let _ended = Ended;
    begin();
    let result = work();
    (result, WAITED.take())
}

/// The loop has looked for events.
pub(crate) fn begin_turn() {
    TURN.set(Turn::default());
}

#[inline]
fn begin() {
    UNITS.set(if TURN.get().is_long { UNITS_LEAST } else { UNITS_UNASKED });
    LIMIT.set(Limit::Unasked);
}

/// Pending; the task is woken when the loop has looked for events.
#[cold]
pub fn later(context: &mut Context<'_>) -> Poll<()> {
    WAITED.set(true);
    // The first time that this is asked it leaves the waker with the loop.
    let _ = pin!(tokio::task::yield_now()).poll(context);
    Poll::Pending
}

#[cold]
fn ask_clock() {
    let mut turn = TURN.get();
    let (units, limit) = asked(LIMIT.get(), exact_now(), &mut turn);
    UNITS.set(units);
    LIMIT.set(limit);
    TURN.set(turn);
}

/// What is left at `now`: units until the next look at the clock, and the limit.
fn asked(limit: Limit, now: Instant, turn: &mut Turn) -> (u32, Limit) {
    let ends = match limit {
        Limit::Unbounded => return (u32::MAX, limit),
        Limit::Unasked => now + SHARE_MAX,
        Limit::Until(ends) => ends,
    };
    turn.is_long = *turn.ends.get_or_insert(now + TURN_MAX) <= now;
    let is_over = turn.is_long || ends <= now;
    (if is_over { 0 } else { UNITS_BETWEEN }, Limit::Until(ends))
}

#[cfg(test)]
mod tests;
