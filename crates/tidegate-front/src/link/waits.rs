//! The state for waits of a connection other than for a request. It is made at the first such wait and dropped when the
//! connection is parked.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tidegate_core::LocalFuture;
use tidegate_rt::net::Stream;
use tidegate_rt::timer::Deadline;

/// Timer and wakers of a connection that has a task.
#[derive(Default)]
pub(crate) struct Waits {
    /// `client_header_timeout`, or a short `keepalive_timeout`.
    pub deadline: Deadline,
    /// Wakes the connection's task.
    waker: RefCell<Option<Waker>>,
    /// Wakes the task that waits for the client's close, when the idle poller reports something.
    watcher: RefCell<Option<Waker>>,
    /// Watches for the client's close behind bytes that have arrived and were not read ([`Waits::poll_closed`]).
    gone: RefCell<Option<LocalFuture<'static, ()>>>,
}

impl Waits {
    /// Stores the waker of the connection's task.
    pub(crate) fn remember(&self, context: &Context<'_>) {
        remember(&self.waker, context);
    }

    /// Wakes the connection's task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Stores the waker of a task that waits for the client's close, where the idle poller will report it.
    pub(crate) fn watch(&self, context: &Context<'_>) {
        remember(&self.watcher, context);
    }

    /// Wakes the task that waits for the client's close.
    pub(crate) fn wake_watcher(&self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }

    /// Ready once the peer of `stream` has closed. The watch stays between calls while unread bytes are there, and serves all
    /// callers.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>, stream: &Rc<Stream>) -> Poll<()> {
        let mut gone = self.gone.borrow_mut();
        // As long as nothing has arrived since the request no watch of its own is needed: arriving bytes wake this
        // task.
        if stream.poll_readable(context).is_pending() {
            *gone = None;
            return Poll::Pending;
        }
        let stream = stream.clone();
        let watch = gone.get_or_insert_with(|| Box::pin(async move { stream.peer_closed().await }));
        let left = watch.as_mut().poll(context);
        if left.is_ready() {
            // The next caller gets the same result.
            *watch = Box::pin(std::future::ready(()));
        }
        left
    }
}

fn remember(waker: &RefCell<Option<Waker>>, context: &Context<'_>) {
    let mut waker = waker.borrow_mut();
    match &*waker {
        Some(known) if known.will_wake(context.waker()) => {}
        _ => *waker = Some(context.waker().clone()),
    }
}
