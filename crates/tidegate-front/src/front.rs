//! The state of a worker thread: the current plan, its connections, and spare memory for requests.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use tidegate_core::counters::{self, Counters};
use tidegate_core::exchange::PlanRef;
use tidegate_core::plan::Plan;
use tidegate_h2::Buffers;
use tidegate_rt::sync::Notify;

use crate::first_bytes::FirstBytes;
use crate::link::{Link, Order};
use crate::parking::{Parking, reused_of};
use crate::serve::scratch::{Scratch, Spares};
use crate::session::running::Sessions;
use crate::starting::StartingConnections;
use crate::taskless::TasklessConnections;

/// A thread is ahead of the others when it exceeds the mean by more than `AHEAD` connections and one `AHEAD_SHARE`th
/// of the mean.
const AHEAD: u64 = 8;
const AHEAD_SHARE: u64 = 32;

/// What the threads of a worker share: the numbers of connections, and the number of threads. From these a thread sees
/// that it has many more connections than the others, and leaves new ones to them. There is one for the process; each
/// thread passes it to [`crate::open`].
#[derive(Default)]
pub struct Shared {
    next_connection: AtomicU64,
    threads: AtomicUsize,
}

impl Shared {
    /// Sets the number of threads that accept new connections from now on.
    pub fn set_threads(&self, count: usize) {
        self.threads.store(count, Ordering::Relaxed);
    }
}

/// The front side of a worker thread: the plan for new requests, the thread's connections and sessions, and memory for
/// requests. It belongs to the thread whose event loop it was opened on.
///
/// A change of the plan ([`Front::set_plan`]) closes nothing: requests and sessions end with the plan that they began
/// with, connections stay. At the end, [`Front::drain`] keeps no connection longer than its request, and
/// [`Front::abort_all`] closes all of them; [`Front::drained`] waits for the last one.
pub struct Front {
    plan: RefCell<PlanRef>,
    shared: Arc<Shared>,
    /// The plan if it has a `stream` block.
    session_plan: RefCell<Option<PlanRef>>,
    connections: RefCell<slab::Slab<Weak<Link>>>,
    /// Connections before their first request or session.
    pub(crate) starting: StartingConnections,
    /// Connections of QUIC, which have no tasks.
    pub(crate) taskless: TasklessConnections,
    pub(crate) sessions: Sessions,
    pub(crate) parking: Parking,
    /// What new connections bring.
    pub(crate) first_bytes: FirstBytes,
    pub(crate) counters: Arc<Counters>,
    spares: Spares,
    draining: Cell<bool>,
    /// Notified when the plan has changed, and when the front side begins to drain.
    pub(crate) changed: Notify,
    /// Notified when the last connection has ended while draining.
    empty: Notify,
    /// Notified when a connection has ended: an acceptor may be waiting for room.
    pub(crate) room: Notify,
}

impl Front {
    /// Makes the front side of a thread; see [`crate::open`].
    pub(crate) fn new(plan: Arc<Plan>, shared: Arc<Shared>) -> Rc<Front> {
        Rc::new(Front {
            session_plan: RefCell::new(session_plan(&plan)),
            plan: RefCell::new(PlanRef::new(plan)),
            shared,
            connections: RefCell::default(),
            starting: StartingConnections::default(),
            taskless: TasklessConnections::default(),
            sessions: Sessions::default(),
            parking: Parking::open(),
            first_bytes: FirstBytes::default(),
            counters: Counters::register(),
            spares: Spares::new(),
            draining: Cell::new(false),
            changed: Notify::new(),
            empty: Notify::new(),
            room: Notify::new(),
        })
    }

    /// Returns the plan for new requests.
    pub fn plan(&self) -> PlanRef {
        self.plan.borrow().clone()
    }

    /// Returns the plan for new sessions.
    pub(crate) fn session_plan(&self) -> Option<PlanRef> {
        self.session_plan.borrow().clone()
    }

    /// Replaces the plan; requests and sessions in progress keep theirs.
    pub fn set_plan(&self, plan: Arc<Plan>) {
        self.session_plan.replace(session_plan(&plan));
        self.plan.replace(PlanRef::new(plan));
        self.spares.clear();
        self.changed.notify_waiters();
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.shared.next_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Returns the number of connections and sessions of this thread.
    pub fn live(&self) -> usize {
        let with_tasks =
            self.connections.borrow().len() + self.sessions.count() + self.starting.count();
        with_tasks + self.taskless.count() + self.parking.count()
    }

    /// Returns the number of connections that count against `worker_connections`. UDP sessions do not: any sender can
    /// begin them, so they have a limit of their own and leave room for connections.
    pub(crate) fn connected(&self) -> usize {
        self.live().saturating_sub(self.sessions.datagrams())
    }

    /// Whether this thread exceeds the mean number of connections per thread by a margin: other threads then accept new ones.
    pub(crate) fn is_ahead(&self) -> bool {
        let threads = self.shared.threads.load(Ordering::Relaxed) as u64;
        threads >= 2 && is_ahead(self.counters.active(), counters::active(), threads)
    }

    /// Returns the number of parked connections of this thread.
    pub fn parked(&self) -> usize {
        self.parking.count()
    }

    /// Registers a connection that has a task; the returned key is for [`Front::leave`].
    pub(crate) fn enter(&self, link: &Rc<Link>) -> usize {
        self.connections.borrow_mut().insert(Rc::downgrade(link))
    }

    pub(crate) fn leave(&self, key: usize) {
        let mut connections = self.connections.borrow_mut();
        connections.try_remove(key);
        if connections.is_empty() {
            connections.shrink_to_fit();
        }
        drop(connections);
        self.left();
    }

    /// Notifies waiters that a connection has ended.
    pub(crate) fn left(&self) {
        if self.live() == 0 {
            self.empty.notify_waiters();
        }
        self.room.notify_one();
    }

    /// Stops keeping connections: idle ones close `now`, others after their request.
    pub fn drain(&self, now: Instant) {
        self.draining.set(true);
        self.changed.notify_waiters();
        self.taskless.all().iter().for_each(|connection| connection.drain());
        self.sessions.end_datagrams();
        self.starting.end_silent(now);
        self.parking.close_idle(now);
        self.left();
        for link in self.all() {
            let is_idle = link.state().idle_since().is_some();
            // Where requests are streams, GOAWAY says so to the client.
            if (is_idle && link.is_free(now)) || (!is_idle && link.multiplexer().is_some()) {
                link.give(Order::CloseWhenIdle);
            }
        }
    }

    /// Waits until no connection is left.
    ///
    /// The wait begins before the count is read, so that no end is missed. Dropped at its await it leaves nothing
    /// behind.
    pub async fn drained(&self) {
        loop {
            let empty = self.empty.notified();
            if self.live() == 0 {
                return;
            }
            empty.await;
        }
    }

    /// Closes all connections and sessions at once (`worker_shutdown_timeout`, fast stop).
    pub fn abort_all(&self) {
        self.parking.close_all();
        self.starting.end_all();
        self.left();
        self.all().iter().for_each(|link| link.give(Order::Abort));
        self.taskless.all().iter().for_each(|connection| connection.abort());
        self.sessions.abort_older(u64::MAX);
    }

    /// Closes at once the connections and sessions that still serve a request of a generation before `generation`.
    pub fn abort_older(&self, generation: u64) {
        self.sessions.abort_older(generation);
        self.starting.end_older(generation);
        self.parking.close_silent(generation);
        self.left();
        for connection in self.taskless.all() {
            if connection.generation() < generation && connection.idle_since().is_none() {
                connection.abort();
            }
        }
        for link in self.all() {
            // A client that never sent a request is not kept either, as in nginx.
            let waiting = link.state().idle_since().is_some() && link.info.requests.get() > 0;
            if link.generation() < generation && !waiting {
                link.give(Order::Abort);
            }
        }
    }

    /// Closes the connections that have been idle longest, to make room; connections that may not be closed at `now`
    /// stay (`keepalive_min_timeout`). Those that have not begun go first. Returns `false` if there are none.
    pub(crate) fn reuse_idle(&self, now: Instant) -> bool {
        if self.starting.reuse(now) {
            return true;
        }
        if self.parking.close_oldest(now) {
            self.left();
            return true;
        }
        let mut idle = self.all();
        idle.retain(|link| link.state().idle_since().is_some() && link.is_free(now));
        idle.sort_by_key(|link| (link.state().idle_since(), link.info.number));
        let closed = idle.iter().take(reused_of(idle.len()));
        closed.for_each(|link| link.give(Order::CloseWhenIdle));
        if !idle.is_empty() {
            return true;
        }
        let mut idle = self.taskless.all();
        idle.retain(|connection| connection.is_free());
        idle.sort_by_key(|connection| connection.idle_since());
        let closed = idle.iter().take(reused_of(idle.len()));
        closed.for_each(|connection| connection.abort());
        !idle.is_empty()
    }

    /// Returns the connections that have tasks.
    pub(crate) fn all(&self) -> Vec<Rc<Link>> {
        self.connections.borrow().iter().filter_map(|(_, link)| link.upgrade()).collect()
    }

    /// Takes memory for requests.
    pub(crate) fn scratch(&self) -> Box<Scratch> {
        self.spares.take(|| self.plan())
    }

    /// Gives memory of requests back.
    pub(crate) fn give_back(&self, scratch: Box<Scratch>) {
        self.spares.give_back(scratch, || self.plan());
    }

    /// Takes a buffer for the bytes of a client.
    pub(crate) fn input(&self) -> Vec<u8> {
        self.spares.input()
    }

    /// Gives a buffer back.
    pub(crate) fn give_back_input(&self, input: Vec<u8>) {
        self.spares.give_back_input(input);
    }

    /// Takes buffers for a busy connection of HTTP/2.
    pub(crate) fn h2_buffers(&self) -> Box<Buffers> {
        self.spares.h2_buffers()
    }

    /// Gives them back.
    pub(crate) fn give_back_h2_buffers(&self, buffers: Box<Buffers>) {
        self.spares.give_back_h2_buffers(buffers);
    }
}

/// Whether `own` connections of a thread exceed the mean of `all` connections on `threads` threads by more than the
/// allowance.
fn is_ahead(own: u64, all: u64, threads: u64) -> bool {
    let mean = all / threads.max(1);
    own > mean + mean / AHEAD_SHARE + AHEAD
}

fn session_plan(plan: &Plan) -> Option<PlanRef> {
    plan.sessions.clone().map(PlanRef::new)
}
