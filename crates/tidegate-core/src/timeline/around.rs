//! Futures whose waits are recorded, and how what waits names its cause.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{Cause, Timeline, now};

thread_local! {
    /// The code of the cause for which the running request waits; [`UNRECORDED`] where nothing is recorded.
    static CAUSE: Cell<u8> = const { Cell::new(UNRECORDED) };
    /// The time that jobs of the running request have spent in the queues of thread pools.
    static QUEUED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

const UNRECORDED: u8 = 0;
/// No cause was named.
const UNNAMED: u8 = 1;
/// The wait before goes on.
const AS_BEFORE: u8 = 2;
/// The code of a cause is its number and this, so that named causes are above the others.
const NAMED: u8 = 2;

/// Names the cause of a wait that begins; called where a poll of a request returns `Pending`. Of several causes in one
/// poll the last in the list of [`Cause`] counts.
#[inline]
pub fn waits_for(cause: Cause) {
    let known = CAUSE.get();
    if known != UNRECORDED {
        CAUSE.set(known.max(cause as u8 + NAMED));
    }
}

/// As [`waits_for`], where another task does the work and names its causes ([`beside`]).
#[inline]
pub fn waits_as_before() {
    let known = CAUSE.get();
    if known != UNRECORDED {
        CAUSE.set(known.max(AS_BEFORE));
    }
}

/// Tells how much of a wait that has just ended was spent in the queue of a thread pool.
#[inline]
pub fn queued(time: Duration) {
    if CAUSE.get() != UNRECORDED {
        QUEUED.set(QUEUED.get().saturating_add(time));
    }
}

/// Records the waits of a future in a timeline, if there is one.
#[inline]
pub fn around<F: Future>(timeline: Option<Rc<Timeline>>, future: F) -> Around<F> {
    Around { timeline, future, is_beside: false }
}

/// As [`around`], for work that the request waits for in a task of its own.
#[inline]
pub fn beside<F: Future>(timeline: Option<Rc<Timeline>>, future: F) -> Around<F> {
    Around { timeline, future, is_beside: true }
}

/// Gives the waits of a future to a cause.
#[inline]
pub fn blame<F: Future>(cause: Cause, future: F) -> Blame<F> {
    Blame { cause, future }
}

pin_project! {
    /// See [`around`].
    pub struct Around<F> {
        timeline: Option<Rc<Timeline>>,
        #[pin]
        future: F,
        is_beside: bool,
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

/// Ends the recording of one poll, after a panic too.
struct Recording {
    outer: u8,
}

impl Recording {
    fn begin() -> Recording {
        QUEUED.set(Duration::ZERO);
        Recording { outer: CAUSE.replace(UNNAMED) }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        CAUSE.set(self.outer);
    }
}

impl<F: Future> Future for Around<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.timeline {
            None => this.future.poll(context),
            Some(timeline) => recorded(timeline, this.future, *this.is_beside, context),
        }
    }
}

#[cold]
fn recorded<F: Future>(
    timeline: &Timeline,
    future: Pin<&mut F>,
    is_beside: bool,
    context: &mut Context<'_>,
) -> Poll<F::Output> {
    let waited_for = timeline.resume(now());
    let recording = Recording::begin();
    let polled = future.poll(context);
    let cause = CAUSE.get();
    drop(recording);
    timeline.move_to_pool(waited_for, QUEUED.take());
    let now = now();
    match &polled {
        Poll::Pending => timeline.pause(now, named(cause, waited_for)),
        // The request runs again once its own task is polled.
        Poll::Ready(_) if is_beside => timeline.pause(now, Cause::Other),
        Poll::Ready(_) => {
            timeline.pause(now, Cause::Loop);
            timeline.note_response(now);
        }
    }
    polled
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
