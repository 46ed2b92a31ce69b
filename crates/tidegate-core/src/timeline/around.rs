//! Futures whose waits are recorded, and how what waits names its cause.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Cause, Timeline, TimelineRef, now};

thread_local! {
    /// The code of the cause for which the running request waits, as far as this poll has named one. Invariant: recorded
    /// futures are not polled within each other; each poll begins with [`UNNAMED`].
    static CAUSE: Cell<u8> = const { Cell::new(UNNAMED) };
    /// The time that jobs of the running request have spent in the queues of thread pools.
    static QUEUED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// No cause was named.
const UNNAMED: u8 = 0;
/// The wait before goes on.
const AS_BEFORE: u8 = 1;
/// The code of a cause is its number and this, so that named causes are above the others.
const NAMED: u8 = 1;

/// Names the cause of a wait that begins; called where a poll of a request returns `Pending`. Of several causes in one
/// poll the last in the list of [`Cause`] counts.
#[inline]
pub fn waits_for(cause: Cause) {
    CAUSE.set(CAUSE.get().max(cause as u8 + NAMED));
}

/// As [`waits_for`], where another task does the work and names its causes ([`beside`]).
#[inline]
pub fn waits_as_before() {
    CAUSE.set(CAUSE.get().max(AS_BEFORE));
}

/// Tells how much of a wait that has just ended was spent in the queue of a thread pool.
#[inline]
pub fn queued(time: Duration) {
    QUEUED.set(QUEUED.get().saturating_add(time));
}

/// Records the waits of a future in a timeline, if there is one that is on.
#[inline]
pub fn around<F: Future>(timeline: Option<&Timeline>, future: F) -> Around<'_, F> {
    Around { timeline, future, waits: false }
}

/// As [`around`], for work that the request waits for in a task of its own.
#[inline]
pub fn beside<F: Future>(timeline: Option<TimelineRef>, future: F) -> Beside<F> {
    Beside { timeline, future }
}

/// Gives the waits of a future to a cause.
#[inline]
pub fn blame<F: Future>(cause: Cause, future: F) -> Blame<F> {
    Blame { cause, future }
}

pin_project! {
    /// See [`around`].
    pub struct Around<'t, F> {
        timeline: Option<&'t Timeline>,
        #[pin]
        future: F,
        // The last poll has recorded a wait.
        waits: bool,
    }
}

pin_project! {
    /// See [`beside`].
    pub struct Beside<F> {
        timeline: Option<TimelineRef>,
        #[pin]
        future: F,
    }
}

pin_project! {
    /// See [`blame`].
    pub struct Blame<F> {
        cause: Cause,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Around<'_, F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let before = match *this.waits {
            false => Cause::Loop,
            true => resumed(*this.timeline),
        };
        CAUSE.set(UNNAMED);
        let polled = this.future.poll(context);
        if (polled.is_pending() || *this.waits)
            && let Some(timeline) = this.timeline.filter(|timeline| timeline.is_on())
        {
            *this.waits = polled.is_pending();
            match polled.is_pending() {
                true => paused(timeline, before, None),
                false => ended(timeline, before),
            }
        }
        polled
    }
}

/// Ends the wait of a request. Returns its cause.
#[cold]
fn resumed(timeline: Option<&Timeline>) -> Cause {
    QUEUED.take();
    timeline.map_or(Cause::Loop, |timeline| timeline.resume(now()))
}

/// Begins a wait, for `cause` or for what was named, behind a wait for `before`.
#[cold]
fn paused(timeline: &Timeline, before: Cause, cause: Option<Cause>) {
    timeline.move_to_pool(before, QUEUED.take());
    timeline.pause(now(), cause.unwrap_or_else(|| named(CAUSE.get(), before)));
}

/// Ends a future that has waited for `before` at last.
#[cold]
fn ended(timeline: &Timeline, before: Cause) {
    timeline.note_response();
    paused(timeline, before, Some(Cause::Loop));
}

impl<F: Future> Future for Beside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let timeline = || this.timeline.as_ref().and_then(TimelineRef::get);
        let before = resumed(timeline());
        CAUSE.set(UNNAMED);
        let polled = this.future.poll(context);
        if let Some(timeline) = timeline() {
            // The request runs again once its own task is polled.
            let cause = polled.is_ready().then_some(Cause::Other);
            paused(timeline, before, cause);
        }
        polled
    }
}

/// Returns the cause with a code, after a wait for `before`.
fn named(code: u8, before: Cause) -> Cause {
    match code {
        AS_BEFORE if before != Cause::Loop => before,
        code => Cause::numbered(code.saturating_sub(NAMED)),
    }
}

impl<F: Future> Future for Blame<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.future.poll(context);
        if polled.is_pending() {
            waits_for(*this.cause);
        }
        polled
    }
}
