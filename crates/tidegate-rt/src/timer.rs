//! Timers: a deadline that is cheap to move, sleeping, and a time limit for a future.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// A deadline of a connection that moves with every byte. Setting a later one is one store: the armed timer fires at
/// the old time, finds the new one, and is armed again. One task waits for it.
///
/// | `wanted` | `sleep` | `armed` | state |
/// |---|---|---|---|
/// | none | none | none | never waited for, or released; [`Deadline::set`] wakes the waiter |
/// | none | a timer | none | cleared, the timer has fired; as above |
/// | none | a timer | t | cleared, the timer still has the waiter's waker |
/// | w | a timer | t ≤ w | running: fires at t, and is armed for w then |
/// | w | none | none | set, and not waited for yet |
///
/// Invariant: an armed timer never fires later than the deadline, as [`Deadline::set`] moves it to an earlier one; the
/// waiter's waker is in the armed timer, or in `waiting` where none is armed. ([`Deadline::release`] drops it: it is
/// called when no task waits.) Dropped at an await the deadline stays as it is.
#[derive(Default)]
pub struct Deadline {
    wanted: Cell<Option<Instant>>,
    armed: Cell<Option<Instant>>,
    /// Made at the first wait, so connections that never wait have no timer.
    sleep: RefCell<Option<Pin<Box<Sleep>>>>,
    /// The waiting task's waker while no timer is armed.
    waiting: Cell<Option<Waker>>,
}

/// The time limit of a future elapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl Deadline {
    /// Makes a timer without a deadline.
    pub const fn new() -> Deadline {
        Deadline {
            wanted: Cell::new(None),
            armed: Cell::new(None),
            sleep: RefCell::new(None),
            waiting: Cell::new(None),
        }
    }

    /// Moves the deadline. Only one earlier than the armed timer touches the timer.
    #[inline]
    pub fn set(&self, at: Instant) {
        self.wanted.set(Some(at));
        match self.armed.get() {
            Some(armed) if armed <= at => {}
            _ => self.arm_earlier(at),
        }
    }

    /// Moves the deadline to a time from now (to the precision of `clock::now`).
    #[inline]
    pub fn set_after(&self, time: Duration) {
        self.set(after(time));
    }

    /// Removes the deadline. An armed timer stays and is used again by the next `set`.
    #[inline]
    pub fn clear(&self) {
        self.wanted.set(None);
    }

    /// Returns the deadline.
    pub fn at(&self) -> Option<Instant> {
        self.wanted.get()
    }

    /// Clears the deadline and frees the timer: for connections that will be idle for long.
    pub fn release(&self) {
        self.wanted.set(None);
        self.armed.set(None);
        self.sleep.replace(None);
    }

    /// Ready when the deadline has passed; without a deadline pending until one is set and passes.
    pub fn poll_elapsed(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(wanted) = self.wanted.get() else { return self.poll_without(context) };
        let mut slot = self.sleep.borrow_mut();
        let sleep = slot.get_or_insert_with(|| {
            self.armed.set(Some(wanted));
            Box::pin(tokio::time::sleep_until(wanted.into()))
        });
        if self.armed.get().is_none() {
            sleep.as_mut().reset(wanted.into());
            self.armed.set(Some(wanted));
        }
        loop {
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if self.armed.get().is_some_and(|armed| wanted <= armed) {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(wanted.into());
            self.armed.set(Some(wanted));
        }
    }

    /// Waits until the deadline has passed.
    pub async fn elapsed(&self) {
        poll_fn(|context| self.poll_elapsed(context)).await;
    }

    /// Runs a future under this deadline, which may move meanwhile. The future is polled first: if it is ready at the
    /// moment when the time is over, it counts. Dropped at its await it drops the future; the deadline stays.
    ///
    /// # Errors
    /// The deadline passed first.
    pub async fn limit<F: Future>(&self, future: F) -> Result<F::Output, Elapsed> {
        let mut future = std::pin::pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            self.poll_elapsed(context).map(|()| Err(Elapsed))
        })
        .await
    }

    /// Waits for a deadline to be set. A timer still armed must have the waiter's waker, since a later deadline relies
    /// on it; one that fired is disarmed, so that the next `set` wakes the waiter.
    fn poll_without(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.armed.get().is_some() {
            let mut slot = self.sleep.borrow_mut();
            let pending = |sleep: &mut Pin<Box<Sleep>>| sleep.as_mut().poll(context).is_pending();
            if slot.as_mut().is_some_and(pending) {
                return Poll::Pending;
            }
            self.armed.set(None);
        }
        self.waiting.set(Some(context.waker().clone()));
        Poll::Pending
    }

    #[cold]
    fn arm_earlier(&self, at: Instant) {
        // Resetting keeps the waker of the last poll, so the waiter is woken at the new time.
        if let Some(sleep) = self.sleep.borrow_mut().as_mut() {
            sleep.as_mut().reset(at.into());
            self.armed.set(Some(at));
        }
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// Waits for `time`.
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Holds the calling thread, which must have no event loop, for `time`. Without an event loop to wait on, it returns at
/// once.
pub fn pause(time: Duration) {
    let _ = crate::block_on(sleep(time));
}

/// Waits until `at`.
pub async fn sleep_until(at: Instant) {
    tokio::time::sleep_until(at.into()).await;
}

/// Runs a future for a limited time. Dropped at its await it drops the future.
///
/// # Errors
/// The time elapsed; the future is dropped.
pub async fn timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout(time, future).await.map_err(|_| Elapsed)
}

impl std::fmt::Debug for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deadline")
            .field("wanted", &self.wanted.get())
            .field("armed", &self.armed.get())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time ran out")
    }
}

impl std::error::Error for Elapsed {}

/// Returns the moment `time` from now; times beyond what the system can express are cut to 30 years.
fn after(time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = crate::clock::now();
    now.checked_add(time.min(FAR)).unwrap_or(now)
}
