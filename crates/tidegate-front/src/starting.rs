//! Connections before their first request or session: they wait for TLS, or for the header of the PROXY protocol.
//!
//! Each has a task and a [`StartGuard`], by which the thread counts it, and ends it: a client that sends nothing takes a
//! descriptor like any other.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_rt::clock;

use crate::front::Front;
use crate::parking::reused_of;

/// A client may be silent for so long before it makes room for others.
pub(crate) const SILENT_MIN: Duration = Duration::from_secs(1);

struct Starting {
    since: Instant,
    generation: u64,
    /// The client has sent nothing yet.
    silent: Cell<bool>,
    ended: Cell<bool>,
    task: RefCell<Option<Waker>>,
}

impl Starting {
    fn is_silent(&self, now: Instant) -> bool {
        let silent_for = now.saturating_duration_since(self.since);
        self.silent.get() && !self.ended.get() && silent_for >= SILENT_MIN
    }

    fn end(&self) {
        self.ended.set(true);
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

/// Those of a thread.
#[derive(Default)]
pub(crate) struct StartingConnections(RefCell<Slab<Rc<Starting>>>);

impl StartingConnections {
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        self.all(|_| true).iter().for_each(|starting| starting.end());
    }

    /// Ends those whose clients have sent nothing for long.
    pub(crate) fn end_silent(&self, now: Instant) {
        self.all(|starting| starting.is_silent(now)).iter().for_each(|starting| starting.end());
    }

    /// Ends those that began before a generation.
    pub(crate) fn end_older(&self, generation: u64) {
        self.all(|starting| starting.generation < generation).iter().for_each(|old| old.end());
    }

    /// Ends those that have been silent longest, to make room; returns `false` if none has been for long.
    pub(crate) fn reuse(&self, now: Instant) -> bool {
        let mut silent = self.all(|starting| starting.is_silent(now));
        silent.sort_by_key(|starting| starting.since);
        silent.iter().take(reused_of(silent.len())).for_each(|starting| starting.end());
        !silent.is_empty()
    }

    /// Woken tasks change the list: it is copied.
    fn all(&self, is_meant: impl Fn(&Starting) -> bool) -> Vec<Rc<Starting>> {
        let all = self.0.borrow();
        all.iter().filter(|(_, starting)| is_meant(starting)).map(|(_, one)| one.clone()).collect()
    }
}

/// Counts a connection from the moment it is accepted until it is known otherwise. Dropped, it makes room.
pub(crate) struct StartGuard {
    front: Rc<Front>,
    key: usize,
    starting: Rc<Starting>,
}

impl StartGuard {
    /// Counts a connection that begins with the plan of a generation; `silent` where its client has sent nothing yet.
    pub(crate) fn new(front: &Rc<Front>, generation: u64, silent: bool) -> StartGuard {
        let starting = Rc::new(Starting {
            since: clock::now(),
            generation,
            silent: Cell::new(silent),
            ended: Cell::new(false),
            task: RefCell::default(),
        });
        let key = front.starting.0.borrow_mut().insert(starting.clone());
        StartGuard { front: front.clone(), key, starting }
    }

    /// Records that the client has sent something.
    pub(crate) fn heard(&self) {
        self.starting.silent.set(false);
    }

    /// Runs a future; `None` once the thread ends the connection.
    pub(crate) async fn unless_ended<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.starting.ended.get() {
                return Poll::Ready(None);
            }
            let polled = future.as_mut().poll(context).map(Some);
            if polled.is_pending() {
                let mut task = self.starting.task.borrow_mut();
                match &mut *task {
                    Some(known) => known.clone_from(context.waker()),
                    empty => *empty = Some(context.waker().clone()),
                }
            }
            polled
        })
        .await
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        let mut all = self.front.starting.0.borrow_mut();
        all.try_remove(self.key);
        if all.is_empty() {
            all.shrink_to_fit();
        }
        drop(all);
        self.front.left();
    }
}
