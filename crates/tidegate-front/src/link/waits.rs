//! What a connection needs while it waits for more than a request: made when it is first asked for, dropped when the
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
    /// Its task's.
    waker: RefCell<Option<Waker>>,
    /// Who asked whether the client is gone, and is told when the idle poller reports something.
    watcher: RefCell<Option<Waker>>,
    /// Watches for the client's leaving once somebody asked.
    gone: RefCell<Option<LocalFuture<'static, ()>>>,
}

impl Waits {
    /// Remembers the task to wake.
    pub(crate) fn remember(&self, context: &Context<'_>) {
        remember(&self.waker, context);
    }

    /// Wakes the connection's task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Remembers who waits for the client's leaving where the idle poller will tell.
    pub(crate) fn watch(&self, context: &Context<'_>) {
        remember(&self.watcher, context);
    }

    /// Wakes who waits for the client's leaving.
    pub(crate) fn wake_watcher(&self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }

    /// Ready once the peer of `stream` has closed. What it watches stays between calls, whoever makes them.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>, stream: &Rc<Stream>) -> Poll<()> {
        let mut gone = self.gone.borrow_mut();
        // As long as nothing has come since the request there is nothing to look at, and no watch of its
        // own is needed: what comes wakes this task.
        if gone.is_none() && stream.poll_readable(context).is_pending() {
            return Poll::Pending;
        }
        let stream = stream.clone();
        let watch = gone.get_or_insert_with(|| Box::pin(async move { stream.peer_closed().await }));
        let left = watch.as_mut().poll(context);
        if left.is_ready() {
            // Whoever asks next is told the same.
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
