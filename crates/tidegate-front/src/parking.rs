//! Connections that wait for their next request without a task and without a watch of the loop: entries
//! of a crowd, so that ten thousand idle clients cost little more than their sockets.
//!
//! A request that comes for one of them is served on the spot, from the read to the write. Only one that
//! has to wait for something on its way (an origin, a disk, a slow client) is given a task. Where that
//! something is not the client, the connection is away for this request only: it stays in the crowd, which
//! tells of the client as before, and goes back without a system call. One whose requests follow each other
//! within a sweep leaves the crowd instead, and keeps its task until it has been idle for a sweep.

use std::cell::{Cell, OnceCell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_rt::net::{Crowd, News};

use crate::accept;
use crate::conn::Conn;
use crate::front::Front;
use crate::h1::{self, ConnectionAction, Serving};
use crate::serve::scratch::SPARES_MAX;

/// How often idle connections are looked at. One with a task is parked after one to two sweeps without a
/// request; idle times end up to one sweep late.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Idle times below this are kept by a timer, for which a connection needs a task.
pub const TIMED_BELOW: Duration = Duration::from_secs(3);

/// A connection's relation to the crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkState {
    /// Not in the crowd: a task has it.
    Owned,
    /// In the crowd, without a task.
    Parked,
    /// In the crowd, and served by a task.
    CheckedOut,
}

/// The connections of a thread that are in the crowd.
#[derive(Default)]
pub struct Parking {
    crowd: OnceCell<Crowd>,
    members: RefCell<Slab<Rc<Conn>>>,
    /// How many of them are away.
    checked_out: Cell<usize>,
}

impl Parking {
    /// How many are parked.
    pub fn count(&self) -> usize {
        self.members.borrow().len() - self.checked_out.get()
    }

    /// Closes all that are parked.
    pub fn close_all(&self) {
        self.keep_parked(|_| false);
    }

    fn keep_parked(&self, keep: impl Fn(&Conn) -> bool) {
        let mut members = self.members.borrow_mut();
        members.retain(|_, conn| conn.park_state.get() == ParkState::CheckedOut || keep(conn));
    }

    /// Closes those that have been answered, and those that have had time to ask: for shutdown, where a
    /// request that is on its way is still served.
    pub fn close_idle(&self, now: Instant) {
        self.keep_parked(|conn| {
            let age = now.saturating_duration_since(conn.accepted);
            (conn.info.requests.get() == 0 && age < SWEEP_EVERY) || !conn.is_free(now)
        });
    }

    /// Closes those that came before `generation` and never asked for anything.
    pub fn close_silent(&self, generation: u64) {
        self.keep_parked(|conn| {
            conn.info.requests.get() > 0 || conn.generation.get() >= generation
        });
    }

    /// Closes a part of those idle longest, before them any that has been answered; `false` when there
    /// are none.
    pub fn close_oldest(&self) -> bool {
        let mut members = self.members.borrow_mut();
        let age = |conn: &Conn| (conn.info.requests.get() == 0, conn.idle_until.get());
        let now = tidegate_rt::clock::now();
        let is_free = |conn: &Conn| conn.park_state.get() == ParkState::Parked && conn.is_free(now);
        let free = members.iter().filter(|(_, conn)| is_free(conn));
        let mut by_age: Vec<_> = free.map(|(key, conn)| (age(conn), key)).collect();
        by_age.sort_unstable();
        let count = crate::front::reused_of(by_age.len());
        by_age.iter().take(count).for_each(|(_, key)| drop(members.try_remove(*key)));
        !by_age.is_empty()
    }

    fn close_expired(&self, now: Instant) {
        self.keep_parked(|conn| conn.idle_until.get() > now);
    }

    fn conn(&self, key: usize) -> Option<Rc<Conn>> {
        self.members.borrow().get(key).cloned()
    }

    /// Whether a connection that has been answered can go back to its place, where [`park_or_spawn`] brings it;
    /// else it leaves the crowd if it was away.
    pub fn can_repark(&self, conn: &Conn) -> bool {
        if conn.park_state.get() != ParkState::CheckedOut {
            return false;
        }
        let ends = conn.closing.get() || conn.front.is_draining();
        let can = !ends && !conn.unread.get() && may_park(conn, conn.idle_since_or_now());
        if !can {
            self.leave(conn);
        }
        can
    }

    /// Gives a parked connection to a task: for one request, unless it is to be `whole`.
    fn check_out(&self, conn: &Conn, whole: bool) {
        let waits_for_client = conn.unread.get() || conn.io.stream().is_watched();
        if whole || waits_for_client {
            return self.leave(conn);
        }
        conn.park_state.set(ParkState::CheckedOut);
        self.checked_out.update(|count| count + 1);
    }

    /// Takes a connection out of the crowd.
    fn leave(&self, conn: &Conn) {
        self.forget(conn);
        if let (Some(crowd), Some(stream)) = (self.crowd.get(), conn.io.plain()) {
            let _ = crowd.remove(stream);
        }
    }

    /// The same for one that is about to close, which takes it out.
    pub fn forget(&self, conn: &Conn) {
        match conn.park_state.replace(ParkState::Owned) {
            ParkState::Owned => return,
            ParkState::Parked => {}
            ParkState::CheckedOut => self.checked_out.update(|count| count - 1),
        }
        drop(self.members.borrow_mut().try_remove(conn.place.get() as usize));
    }
}

/// Has a connection wait for a request: parked if it can be, else in a task of its own.
pub fn park_or_spawn(front: &Rc<Front>, conn: Rc<Conn>) {
    if conn.park_state.get() == ParkState::CheckedOut {
        front.parking.checked_out.update(|count| count - 1);
        conn.park_state.set(ParkState::Parked);
        return conn.forget_waits();
    }
    let now = tidegate_rt::clock::now();
    if !may_park(&conn, now) || !park(front, &conn) {
        tidegate_rt::spawn_local(accept::serve(conn, None));
    }
}

/// Whether nothing but the sweep has to end its waiting.
fn may_park(conn: &Conn, now: Instant) -> bool {
    conn.io.plain().is_some()
        && conn.input.borrow().is_empty()
        && conn.idle_until.get().saturating_duration_since(now) >= TIMED_BELOW
}

fn park(front: &Rc<Front>, conn: &Rc<Conn>) -> bool {
    let (Some(crowd), Some(stream)) = (front.parking.crowd.get(), conn.io.plain()) else {
        return false;
    };
    let mut members = front.parking.members.borrow_mut();
    let slot = members.vacant_entry();
    let Ok(key) = u32::try_from(slot.key()) else { return false };
    if crowd.add(stream, key.into()).is_err() {
        return false;
    }
    conn.forget_waits();
    conn.park_state.set(ParkState::Parked);
    conn.place.set(key);
    slot.insert(conn.clone());
    true
}

/// A thread's parking attendant: runs beside the acceptors as long as the thread.
pub async fn run_parked_loop(front: Rc<Front>) {
    let sweep = async {
        loop {
            tidegate_rt::timer::sleep(SWEEP_EVERY).await;
            sweep(&front);
        }
    };
    let serve = async {
        let Some(crowd) = front.parking.crowd.get() else { return };
        let mut news = Vec::new();
        while let Ok(more) = crowd.ready(&mut news).await {
            tidegate_rt::clock::batch(|| serve_all(&front, &news));
            news.clear();
            if more {
                tidegate_rt::yield_now().await;
            }
        }
    };
    // Requests that are served on the spot must not be told to wait because of those before them.
    tidegate_rt::unconstrained(async { tidegate_rt::sync::join!(sweep, serve) }).await;
}

/// Makes what connections are parked in; without descriptors all have tasks.
pub fn open(front: &Front) {
    if let Ok(crowd) = Crowd::new() {
        let _ = front.parking.crowd.set(crowd);
    }
}

/// Closes what has been idle too long, and parks what has been idle since the last sweep.
fn sweep(front: &Rc<Front>) {
    let now = tidegate_rt::clock::now();
    let before = front.live();
    front.parking.close_expired(now);
    if front.is_draining() {
        front.parking.close_idle(now);
    }
    for conn in front.all() {
        let Some(since) = conn.idle_since.get() else { continue };
        let ends = front.is_draining() && conn.is_free(now);
        if ends || conn.idle_until.get() <= now {
            conn.close_when_idle();
        } else if now.saturating_duration_since(since) >= SWEEP_EVERY && may_park(&conn, now) {
            conn.park();
        }
    }
    if front.live() < before {
        front.left();
    }
}

/// Serves connections. Their requests are read first, as many as there is memory for: what has to be asked
/// after a request was received, as whether files have changed, is asked once for all of them.
fn serve_all(front: &Rc<Front>, news: &[News]) {
    for some in news.chunks(SPARES_MAX) {
        if some.len() > 1 {
            let conns = some.iter().filter_map(|news| front.parking.conn(news.key as usize));
            let parked = conns.filter(|conn| conn.park_state.get() == ParkState::Parked);
            parked.for_each(|conn| h1::read_ahead(&conn));
            tidegate_rt::freshness::received();
        }
        some.iter().for_each(|news| serve(front, *news));
    }
}

/// Serves a connection to which something has happened, if it is parked.
fn serve(front: &Rc<Front>, news: News) {
    let key = news.key as usize;
    let Some(conn) = front.parking.conn(key) else { return };
    if conn.park_state.get() == ParkState::CheckedOut {
        // Its task goes on with what its client sends, and looks whether it has left.
        front.parking.leave(&conn);
        return conn.wake_close_watcher();
    }
    let (answered, rested) = (conn.info.requests.get() > 0, conn.idle_since_or_now());
    let mut serving: Serving = Box::pin(h1::serve(conn.clone()));
    // Nobody need be woken: what is not ready now is asked again by the task that it is given.
    let mut context = Context::from_waker(Waker::noop());
    let poll = || tidegate_rt::share::apart(|| serving.as_mut().poll(&mut context));
    let polled = std::panic::catch_unwind(AssertUnwindSafe(poll));
    let stays = matches!(polled, Ok(Poll::Ready(ConnectionAction::Idle)))
        && !news.ended
        && !conn.unread.get()
        && may_park(&conn, conn.idle_since_or_now());
    if stays {
        return conn.forget_waits();
    }
    let then = match polled {
        Ok(Poll::Ready(ConnectionAction::Close | ConnectionAction::Reset)) => {
            front.parking.forget(&conn);
            drop((serving, conn));
            return front.left();
        }
        Ok(Poll::Ready(action)) => {
            front.parking.leave(&conn);
            Box::pin(std::future::ready(action))
        }
        Ok(Poll::Pending) => {
            let now = tidegate_rt::clock::now();
            let is_busy = answered && now.saturating_duration_since(rested) < SWEEP_EVERY;
            front.parking.check_out(&conn, is_busy || news.ended);
            serving
        }
        Err(panic) => {
            accept::tell_of(&conn, &*panic);
            front.parking.forget(&conn);
            drop((serving, conn));
            return front.left();
        }
    };
    tidegate_rt::spawn_local(accept::serve(conn, Some(then)));
}
