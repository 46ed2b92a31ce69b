//! Connections that wait for their next request without a task and without a watch of the loop: entries
//! of a crowd, so that ten thousand idle clients cost little more than their sockets.
//!
//! A request that comes for one of them is served on the spot, from the read to the write. Only one that
//! has to wait for something on its way (an origin, a disk, a slow client) is given a task; its connection
//! then keeps the task until it has been idle for a sweep.

use std::cell::{OnceCell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_rt::net::{Crowd, News};

use crate::accept;
use crate::conn::Conn;
use crate::front::{Front, SPARES_MAX};
use crate::h1::{self, Fate, Serving};

/// How often idle connections are looked at. One with a task is parked after one to two sweeps without a
/// request; idle times end up to one sweep late.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Idle times below this are kept by a timer, for which a connection needs a task.
pub const TIMED_BELOW: Duration = Duration::from_secs(3);

/// The parked connections of a thread.
#[derive(Default)]
pub struct Parking {
    crowd: OnceCell<Crowd>,
    parked: RefCell<Slab<Rc<Conn>>>,
}

impl Parking {
    pub fn count(&self) -> usize {
        self.parked.borrow().len()
    }

    /// Closes all.
    pub fn close_all(&self) {
        self.parked.borrow_mut().clear();
    }

    /// Closes those that have been answered, and those that have had time to ask: for shutdown, where a
    /// request that is on its way is still served.
    pub fn close_idle(&self, now: Instant) {
        self.parked.borrow_mut().retain(|_, conn| {
            let age = now.saturating_duration_since(conn.accepted);
            (conn.info.requests.get() == 0 && age < SWEEP_EVERY) || !conn.is_free(now)
        });
    }

    /// Closes those that came before `generation` and never asked for anything.
    pub fn close_silent(&self, generation: u64) {
        self.parked
            .borrow_mut()
            .retain(|_, conn| conn.info.requests.get() > 0 || conn.generation.get() >= generation);
    }

    /// Closes a part of those idle longest, before them any that has been answered; `false` when there
    /// are none.
    pub fn close_oldest(&self) -> bool {
        let mut parked = self.parked.borrow_mut();
        let age = |conn: &Conn| (conn.info.requests.get() == 0, conn.idle_until.get());
        let now = tidegate_rt::clock::now();
        let free = parked.iter().filter(|(_, conn)| conn.is_free(now));
        let mut by_age: Vec<_> = free.map(|(key, conn)| (age(conn), key)).collect();
        by_age.sort_unstable();
        let count = crate::front::reused_of(by_age.len());
        by_age.iter().take(count).for_each(|(_, key)| drop(parked.try_remove(*key)));
        !by_age.is_empty()
    }

    fn close_expired(&self, now: Instant) {
        self.parked.borrow_mut().retain(|_, conn| conn.idle_until.get() > now);
    }

    fn conn(&self, key: usize) -> Option<Rc<Conn>> {
        self.parked.borrow().get(key).cloned()
    }
}

/// Has a connection wait for a request: parked if it can be, else in a task of its own.
pub fn rest(front: &Rc<Front>, conn: Rc<Conn>) {
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
    let mut parked = front.parking.parked.borrow_mut();
    let slot = parked.vacant_entry();
    if crowd.add(stream, slot.key() as u64).is_err() {
        return false;
    }
    conn.forget_waits();
    slot.insert(conn.clone());
    true
}

/// A thread's parking attendant: runs beside the acceptors as long as the thread.
pub async fn attend(front: Rc<Front>) {
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
            tidegate_rt::clock::batch(|| serve_all(&front, crowd, &news));
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
fn serve_all(front: &Rc<Front>, crowd: &Crowd, news: &[News]) {
    for some in news.chunks(SPARES_MAX) {
        if some.len() > 1 {
            let conns = some.iter().filter_map(|news| front.parking.conn(news.key as usize));
            conns.for_each(|conn| h1::read_ahead(&conn));
            tidegate_rt::freshness::received();
        }
        some.iter().for_each(|news| serve(front, crowd, *news));
    }
}

/// Serves a parked connection to which something has happened.
fn serve(front: &Rc<Front>, crowd: &Crowd, news: News) {
    let key = news.key as usize;
    let Some(conn) = front.parking.conn(key) else { return };
    let mut serving: Serving = Box::pin(h1::serve(conn.clone()));
    // Nobody need be woken: what is not ready now is asked again by the task that it is given.
    let mut context = Context::from_waker(Waker::noop());
    let polled = std::panic::catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(&mut context)));
    let stays = matches!(polled, Ok(Poll::Ready(Fate::Idle)))
        && !news.ended
        && !conn.unread.get()
        && may_park(&conn, conn.rested_at());
    if stays {
        return conn.forget_waits();
    }
    drop(front.parking.parked.borrow_mut().try_remove(key));
    let then = match polled {
        Ok(Poll::Ready(Fate::Close | Fate::Reset)) => {
            drop((serving, conn));
            return front.left();
        }
        Ok(Poll::Ready(fate)) => Box::pin(std::future::ready(fate)),
        Ok(Poll::Pending) => serving,
        Err(panic) => {
            accept::tell_of(&conn, &*panic);
            drop((serving, conn));
            return front.left();
        }
    };
    if let Some(stream) = conn.io.plain() {
        let _ = crowd.remove(stream);
    }
    tidegate_rt::spawn_local(accept::serve(conn, Some(then)));
}
