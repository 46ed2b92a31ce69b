//! The order of requests that wait for a process of an application. Its processes accept connections in the order in
//! which these arrived, and each serves one at a time: a request on a kept connection overtakes all that wait for a
//! process. That is harmless as long as none waits. As soon as one was left behind, requests wait in one order over all
//! threads, and connections go to the oldest ([`line`] has the rule).
//!
//! A waiting request ends in one way only: its turn is sent to it, or it leaves the line when it is dropped. A turn that
//! it cannot use any more goes to the next one: by its sender, where it was not yet sent, else by the wait. A request that
//! leaves before it has a process frees none, and passes nothing on. So turns are as many as connections that come free,
//! and a wait that none of these ends is ended by the patience of its line.

mod by_number;
mod line;
mod patience;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_rt::sync::oneshot;

use crate::pool::fit::Fit;
use crate::pool::packed::PackedConnection;
pub(crate) use line::Opening;
use line::{Arrival, Line, PATIENCE, Release};
use patience::Watch;

/// The requests that go to one address, from all threads and groups.
#[derive(Debug)]
pub(crate) struct ProcessQueue {
    /// Numbers given so far.
    numbers: AtomicU64,
    /// The length of the line, and whether requests wait in it, as far as can be known without a lock.
    waiting: AtomicUsize,
    is_full: AtomicBool,
    line: Mutex<Line<Waiter>>,
}

/// A request's place in the order of all. Dropped, its connection is closed; if it had a process, this is free for the
/// next one.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    queue: Arc<ProcessQueue>,
    number: u64,
    opening: Opening,
    since: Instant,
    stage: Stage,
    is_released: bool,
}

/// How far a request with a place has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has no connection yet, or has lost the kept one that it was sent on.
    Unsent,
    /// On a new connection, without a response: it may wait for a process.
    There,
    /// A process serves it; `was_new`: it may have waited for that.
    Served { was_new: bool },
}

/// A request that waits for a connection.
#[derive(Debug)]
pub(crate) struct Waiter {
    fit: Fit,
    /// It needs a new connection.
    is_careful: bool,
    thread: ThreadId,
    turn: oneshot::Sender<Turn>,
}

/// The end of a wait.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A new connection is to be opened.
    Open(Opening),
    /// Another request's connection.
    Take(Box<PackedConnection>),
}

/// What a connection is used for behind its response.
pub(crate) enum Next {
    /// It is kept.
    Keep,
    /// It is closed.
    Close,
    /// This one gets it.
    Hand(Waiter),
}

/// A wait in the line, which leaves it when it is dropped.
struct Wait {
    watch: Rc<Watch>,
    number: u64,
    turn: oneshot::Receiver<Turn>,
    /// The turn was received.
    is_over: bool,
}

static QUEUES: Mutex<Option<HashMap<Addr, Weak<ProcessQueue>>>> = Mutex::new(None);

impl Default for ProcessQueue {
    fn default() -> Self {
        ProcessQueue::new(PATIENCE)
    }
}

impl ProcessQueue {
    /// Makes an empty line; requests wait in it while connections come free in intervals shorter than `patience`.
    fn new(patience: Duration) -> ProcessQueue {
        ProcessQueue {
            numbers: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            line: Mutex::new(Line::new(patience)),
        }
    }

    /// Returns the line of an address.
    pub(crate) fn of(address: &Addr) -> Arc<ProcessQueue> {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = queues.get_or_insert_default();
        if let Some(known) = queues.get(address).and_then(Weak::upgrade) {
            return known;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::<ProcessQueue>::default();
        queues.insert(address.clone(), Arc::downgrade(&queue));
        queue
    }

    /// Returns whether others wait, so that a kept connection must not be used out of turn.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Gives a request its place, for which it need not wait. `now` is exact: the differences may be shorter than a
    /// tick of the loop's clock.
    pub(crate) fn enter(self: &Arc<ProcessQueue>, now: Instant) -> QueuePlace {
        self.place(self.next_number(), Opening::Free, now)
    }

    /// Waits for a place, and perhaps for the connection that goes with it; those that fit in `fit` can be used, except
    /// by a careful request.
    ///
    /// Dropped while it waits, it leaves the line; a turn that was sent to it goes to the next one.
    pub(crate) async fn wait(
        self: &Arc<ProcessQueue>,
        fit: Fit,
        is_careful: bool,
    ) -> (QueuePlace, Option<Box<PackedConnection>>) {
        let number = self.next_number();
        let (turn, received) = oneshot::channel();
        let waiter = Waiter { fit, is_careful, thread: thread::current().id(), turn };
        if let Arrival::Opens(opening) = self.change(|line| line.arrive(number, waiter)) {
            return (self.place(number, opening, clock::exact_now()), None);
        }
        let watch = patience::watch(self);
        let mut wait = Wait { watch, number, turn: received, is_over: false };
        let turn = (&mut wait.turn).await.unwrap_or(Turn::Open(Opening::Free));
        wait.is_over = true;
        let now = clock::exact_now();
        match turn {
            Turn::Open(opening) => (self.place(number, opening, now), None),
            Turn::Take(connection) => (self.place(number, Opening::Turn, now), Some(connection)),
        }
    }

    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn place(self: &Arc<ProcessQueue>, number: u64, opening: Opening, now: Instant) -> QueuePlace {
        let queue = self.clone();
        QueuePlace { queue, number, opening, since: now, stage: Stage::Unsent, is_released: false }
    }

    /// Changes the line.
    fn change<T>(&self, change: impl FnOnce(&mut Line<Waiter>) -> T) -> T {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut line);
        self.waiting.store(line.len(), Ordering::Relaxed);
        self.is_full.store(line.is_full(), Ordering::Relaxed);
        result
    }
}

impl QueuePlace {
    /// Sets the time at which the request is sent; on a new connection it may still wait.
    pub(crate) fn send(&mut self, is_new: bool, now: Instant) {
        self.since = now;
        if is_new {
            self.stage = Stage::There;
            self.queue.change(|line| line.sent(self.number, self.opening, now));
        } else {
            self.stage = Stage::Served { was_new: false };
        }
    }

    /// Marks the request as served: its response has begun, or its process has ended the connection.
    pub(crate) fn responded(&mut self) {
        if self.stage == Stage::There {
            self.stage = Stage::Served { was_new: true };
            send_there(self.queue.change(|line| line.responded(self.number)));
        }
    }

    /// Keeps the place for another connection: the process has closed the kept one, so it is free for this request.
    pub(crate) fn send_again(mut self) -> QueuePlace {
        self.stage = Stage::Unsent;
        self.opening = Opening::Turn;
        self
    }

    /// Decides about the connection behind the response. `now` is exact, as that of [`ProcessQueue::enter`]. Called
    /// again where the waiter has left; [`QueuePlace::settle`] ends it.
    pub(crate) fn release(&self, fit: &Fit, now: Instant) -> Next {
        match self.next(|waiter| !waiter.is_careful && waiter.fit == *fit, now) {
            Release::Keep => Next::Keep,
            Release::Close => Next::Close,
            Release::Hand(waiter) => Next::Hand(waiter),
            Release::Open(waiter) => match waiter.open() {
                true => Next::Close,
                // It has left.
                false => self.release(fit, now),
            },
        }
    }

    /// Ends the request's part in the order: its connection is kept, handed over, or closed for a known one.
    pub(crate) fn settle(mut self) {
        self.is_released = true;
    }

    fn next(&self, fits: impl FnOnce(&Waiter) -> bool, now: Instant) -> Release<Waiter> {
        if self.queue.waiting.load(Ordering::Relaxed) == 0 && !self.queue.is_full() {
            return Release::Keep;
        }
        // What it has waited for a process says nothing about the time of others.
        let was_new = self.stage != Stage::Served { was_new: false };
        let took = (now.saturating_duration_since(self.since), was_new);
        let number = self.number;
        let (release, gone) = self.queue.change(|line| line.release(number, took, now, fits));
        send_there(gone);
        release
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let leaves_a_process = match self.stage {
            _ if self.is_released => false,
            Stage::Unsent => self.opening == Opening::Turn,
            Stage::There => self.queue.change(|line| line.leave_there(self.number)),
            Stage::Served { .. } => true,
        };
        self.is_released = !leaves_a_process;
        while !self.is_released {
            // The next one opens a connection in place of this one.
            self.is_released = match self.next(|_| false, clock::exact_now()) {
                Release::Keep | Release::Close | Release::Hand(_) => true,
                Release::Open(waiter) => waiter.open(),
            };
        }
    }
}

impl Waiter {
    /// Hands a connection over; returns it where the waiter has left.
    pub(crate) fn hand(
        self,
        connection: Box<PackedConnection>,
    ) -> Result<(), Box<PackedConnection>> {
        if self.thread != thread::current().id() {
            connection.detach();
        }
        match self.turn.send(Turn::Take(connection)) {
            Err(Turn::Take(connection)) => Err(connection),
            _ => Ok(()),
        }
    }

    /// Lets the waiter open a connection; `false`: it has left.
    pub(crate) fn open(self) -> bool {
        self.turn.send(Turn::Open(Opening::Turn)).is_ok()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let queue = &self.watch.queue;
        // A turn that is sent from now on returns to its sender, who passes it on.
        self.turn.close();
        match self.turn.try_recv() {
            Ok(Turn::Take(_) | Turn::Open(Opening::Turn)) => {
                drop(queue.place(self.number, Opening::Turn, clock::exact_now()));
            }
            Ok(Turn::Open(_)) => {}
            Err(_) => queue.change(|line| line.leave_here(self.number)),
        }
    }
}

/// Ends the wait of requests that are to wait at the application.
fn send_there(waiters: Vec<Waiter>) {
    for waiter in waiters {
        let _ = waiter.turn.send(Turn::Open(Opening::Free));
    }
}
