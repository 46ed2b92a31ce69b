//! Parking: a connection that stays idle for more than a sweep gives up its task and its watch of the
//! loop and waits as one entry of a crowd. What is left of it is a socket and who it belongs to, so that
//! ten thousand idle clients cost little more than their sockets.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_core::client::Connection;
use tidegate_rt::net::{Crowd, Stream};
use tidegate_rt::sync::Notify;

use crate::conn::{Conn, Lasting};
use crate::front::Front;
use crate::io::Io;

/// How often idle connections are looked at. A connection is parked after one to two sweeps without a
/// request; idle times end up to one sweep late.
pub const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A parked connection.
struct Parked {
    fd: std::os::fd::OwnedFd,
    info: Box<Connection>,
    lasting: Lasting,
}

/// The parked connections of a thread.
#[derive(Default)]
pub struct Parking {
    crowd: OnceCell<Crowd>,
    parked: RefCell<Slab<Box<Parked>>>,
    /// Told when the first connection was parked.
    begun: Notify,
}

impl Parking {
    pub fn count(&self) -> usize {
        self.parked.borrow().len()
    }

    /// Closes all.
    pub fn close_all(&self) {
        self.parked.borrow_mut().clear();
    }

    /// Closes up to `count` of those idle longest; `false` when there are none.
    pub fn close_oldest(&self, count: usize) -> bool {
        let mut parked = self.parked.borrow_mut();
        let mut by_age: Vec<_> =
            parked.iter().map(|(key, parked)| (parked.lasting.idle_until, key)).collect();
        by_age.sort_unstable();
        by_age.iter().take(count).for_each(|(_, key)| drop(parked.try_remove(*key)));
        !by_age.is_empty()
    }

    fn close_expired(&self, now: Instant) {
        self.parked.borrow_mut().retain(|_, parked| parked.lasting.idle_until > now);
    }

    fn crowd(&self) -> Option<&Crowd> {
        if self.crowd.get().is_none() {
            let _ = self.crowd.set(Crowd::new().ok()?);
        }
        self.crowd.get()
    }
}

/// Parks a connection whose task has ended. Where that is impossible it goes on as before.
pub fn park(front: &Rc<Front>, conn: Rc<Conn>) {
    let conn = match Rc::try_unwrap(conn) {
        Ok(conn) => conn,
        Err(shared) => return drop(tidegate_rt::spawn_local(crate::accept::serve(shared))),
    };
    // A watch for the client's leaving holds the socket as well.
    conn.gone.take();
    let Io::Plain(stream) = conn.io else { return };
    let (Some(stream), Some(info)) = (Rc::into_inner(stream), Rc::into_inner(conn.info)) else {
        return;
    };
    let fd = stream.into_fd();
    let Some(crowd) = front.parking.crowd() else { return };
    let mut parked = front.parking.parked.borrow_mut();
    let slot = parked.vacant_entry();
    if crowd.add(&fd, slot.key() as u64).is_err() {
        return;
    }
    slot.insert(Box::new(Parked {
        fd,
        info: Box::new(info),
        lasting: Lasting {
            address: conn.address,
            entrance: conn.entrance.get(),
            generation: conn.generation.get(),
            accepted: conn.accepted,
            idle_until: conn.idle_until.get(),
            nodelay: conn.nodelay.get(),
            open: conn.open,
        },
    }));
    drop(parked);
    front.parking.begun.notify_one();
}

/// A thread's parking attendant: runs beside the acceptors as long as the thread.
pub async fn attend(front: Rc<Front>) {
    let sweep = async {
        loop {
            tidegate_rt::timer::sleep(SWEEP_EVERY).await;
            sweep(&front);
        }
    };
    let wake = async {
        front.parking.begun.notified().await;
        let Some(crowd) = front.parking.crowd() else { return };
        let mut keys = Vec::new();
        while crowd.ready(&mut keys).await.is_ok() {
            keys.drain(..).for_each(|key| unpark(&front, crowd, key as usize));
        }
    };
    tidegate_rt::sync::join!(sweep, wake);
}

/// Closes what has been idle too long, and parks what has been idle since the last sweep.
fn sweep(front: &Rc<Front>) {
    let now = tidegate_rt::clock::now();
    let before = front.live();
    front.parking.close_expired(now);
    for conn in front.all() {
        let Some(since) = conn.idle_since.get() else { continue };
        if conn.idle_until.get() <= now {
            conn.close_when_idle();
        } else if now.saturating_duration_since(since) >= SWEEP_EVERY && conn.io.plain().is_some() {
            conn.park();
        }
    }
    if front.live() < before {
        front.left();
    }
}

/// Gives a parked connection its task back.
fn unpark(front: &Rc<Front>, crowd: &Crowd, key: usize) {
    let Some(parked) = front.parking.parked.borrow_mut().try_remove(key) else { return };
    let _ = crowd.remove(&parked.fd);
    let parked = *parked;
    let Ok(stream) = Stream::from_fd(parked.fd) else { return front.left() };
    let io = Io::Plain(Rc::new(stream));
    let conn = Conn::new(front.clone(), io, *parked.info, Vec::new(), parked.lasting);
    tidegate_rt::spawn_local(crate::accept::serve(conn));
}
