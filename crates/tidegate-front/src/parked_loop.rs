//! Serves parked connections. A request on one of them is served on the spot, from the read to the write. Only a
//! request that has to wait (for an origin, a disk, a slow client) gets a task. Where it does not wait for its client,
//! the connection is checked out for this request only: it stays in the idle poller, which reports the client's bytes
//! as before, and goes back without a system call. A connection whose requests follow each other within a sweep leaves
//! the poller instead, and keeps its task until it has been idle for a sweep.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tidegate_core::plan::Plan;
use tidegate_rt::clock;
use tidegate_rt::net::ReadyEvent;

use crate::action::ConnectionAction;
use crate::front::{Front, Shared};
use crate::link::{Link, Order, ParkState};
use crate::parking::SWEEP_EVERY;
use crate::serve::scratch::SPARES_MAX;
use crate::{protocol, task};

/// Connections that have become idle since a sweep, from which on their free memory is more than a fraction of a
/// megabyte.
const RESTED_BEFORE_TRIM: usize = 200;

/// Opens the front side of the thread whose event loop this runs on, with the task that serves its parked connections
/// as long as the thread runs.
pub fn open(plan: Arc<Plan>, shared: Arc<Shared>) -> Rc<Front> {
    let front = Front::new(plan, shared);
    tidegate_rt::spawn_local(run_parked_loop(front.clone()));
    front
}

/// Runs beside the acceptors as long as the thread. Dropped at its awaits it leaves the parked connections in the
/// poller and its table.
async fn run_parked_loop(front: Rc<Front>) {
    let sweep = async {
        loop {
            tidegate_rt::timer::sleep(SWEEP_EVERY).await;
            sweep(&front, clock::now());
        }
    };
    let serve = async {
        let Some(poller) = front.parking.poller() else { return };
        let mut events = Vec::new();
        while let Ok(more) = poller.ready(&mut events).await {
            clock::batch(|| serve_all(&front, &events, clock::now()));
            events.clear();
            if more {
                tidegate_rt::yield_now().await;
            }
        }
    };
    // Requests that are served on the spot must not have to wait because of the requests before them.
    tidegate_rt::unconstrained(async { tidegate_rt::sync::join!(sweep, serve) }).await;
}

/// Closes connections that have been idle too long, and parks those that have been idle since the last sweep.
fn sweep(front: &Rc<Front>, now: Instant) {
    let before = front.live();
    if front.parking.close_expired(now) >= RESTED_BEFORE_TRIM {
        tidegate_os::memory::trim();
    }
    if front.is_draining() {
        front.parking.close_idle(now);
        front.starting.end_silent(now);
    }
    for link in front.all() {
        let Some(since) = link.state().idle_since() else { continue };
        let ends = front.is_draining() && link.is_free(now);
        if ends || link.limits().until <= now {
            link.give(Order::CloseWhenIdle);
        } else if now.saturating_duration_since(since) >= SWEEP_EVERY && link.may_park(now) {
            link.give(Order::Park);
        }
    }
    front.taskless.all().iter().for_each(|connection| connection.sweep(now));
    if front.live() < before {
        front.left();
    }
}

/// Serves connections. Their requests are read first, for as many connections as there is memory. A check that must
/// follow the receipt of a request, such as whether files have changed, is then made once for all of them. `now` is the
/// time of the whole batch.
fn serve_all(front: &Rc<Front>, events: &[ReadyEvent], now: Instant) {
    for some in events.chunks(SPARES_MAX) {
        if some.len() > 1 {
            let links = some.iter().filter_map(|events| front.parking.member(events.key as usize));
            let parked = links.filter(|link| matches!(link.park_state(), ParkState::Parked { .. }));
            parked.for_each(|link| protocol::read_ahead(front, &link));
            tidegate_rt::batch_epoch::advance();
        }
        some.iter().for_each(|events| serve_ready(front, *events, now));
    }
}

/// Serves a connection that the poller reports, if it is parked.
///
/// | polled once with a waker that does nothing | then the connection is |
/// |---|---|
/// | idle, and all that has arrived was read | parked as before, without a system call; a new one joins the poller |
/// | idle, with more to read, or the peer has ended | out of the poller, in a task that waits |
/// | closing, or a panic | dropped, which takes it out of the poller |
/// | lingering | out of the poller, in a task that reads on |
/// | pending | checked out, or out of the poller where it waits for its client or its requests follow each other |
///
/// Invariant: a future that is pending here has no waker yet, so the task that it is given polls it again at once
/// ([`task::spawn`]). A connection that is checked out already has a task: that task continues with the client's bytes,
/// and checks whether the client has closed.
fn serve_ready(front: &Rc<Front>, events: ReadyEvent, now: Instant) {
    let Some(link) = front.parking.member(events.key as usize) else { return };
    // Its task waits for something other than the client: from here on it watches the socket itself.
    if matches!(link.park_state(), ParkState::CheckedOut { .. }) {
        front.parking.leave(&link);
        return link.wake_close_watcher();
    }
    serve_on_the_spot(front, link, events.ended, now);
}

/// Begins to wait for the first request of a connection that was just accepted. A request that is there already is
/// served on the spot, before the connection is watched at all: one that closes after its response never is.
pub(crate) fn enter(front: &Rc<Front>, link: Rc<Link>, now: Instant) {
    if front.first_bytes.are_likely() {
        protocol::read_ahead(front, &link);
        let have_arrived = !link.received.borrow().is_empty();
        front.first_bytes.learn(have_arrived);
        if have_arrived {
            tidegate_rt::batch_epoch::advance();
            link.set_park_state(ParkState::New);
            return clock::batch(|| serve_on_the_spot(front, link, false, now));
        }
        front.give_back_input(link.received.take());
    }
    task::park_or_spawn(front, link, now);
}

/// Serves the requests that have arrived on a connection which is parked, or was just accepted: see [`serve_ready`].
fn serve_on_the_spot(front: &Rc<Front>, link: Rc<Link>, ended: bool, now: Instant) {
    let (has_served, idle_since) = (link.info.requests.get() > 0, link.state().idle_since());
    let mut serving = protocol::serve(front, &link);
    let mut context = Context::from_waker(Waker::noop());
    let poll = || tidegate_rt::share::apart(|| serving.as_mut().poll(&mut context));
    let polled = std::panic::catch_unwind(AssertUnwindSafe(poll));
    // An event is reported once: after a read that filled its buffer, or the peer's end, no other would follow.
    let stays = matches!(polled, Ok(Poll::Ready(ConnectionAction::Idle)))
        && !ended
        && !link.unread.get()
        && link.may_park_since_idle();
    if stays {
        link.forget_waits();
        return task::park_or_spawn(front, link, now);
    }
    let then = match polled {
        Ok(Poll::Ready(ConnectionAction::Close | ConnectionAction::Reset)) => {
            drop(serving);
            if matches!(polled, Ok(Poll::Ready(ConnectionAction::Close))) {
                link.io.close_now();
            }
            return end(front, link);
        }
        Ok(Poll::Ready(action)) => {
            front.parking.leave(&link);
            // HTTP/2 has begun: behind its first requests it is parked again.
            if action == ConnectionAction::Next && link.multiplexer().is_some() {
                link.give(Order::Park);
            }
            Box::pin(std::future::ready(action))
        }
        Ok(Poll::Pending) => {
            // A connection whose requests follow each other within a sweep keeps its task.
            let lately = |since| now.saturating_duration_since(since) < SWEEP_EVERY;
            let is_busy = has_served && idle_since.is_none_or(lately);
            front.parking.check_out(&link, is_busy || ended);
            serving
        }
        Err(panic) => {
            task::log_panic(front, &link, &*panic);
            drop(serving);
            return end(front, link);
        }
    };
    task::spawn(front, link, Some(then));
}

/// Closes a parked connection.
fn end(front: &Front, link: Rc<Link>) {
    front.parking.forget(&link);
    drop(link);
    front.left();
}
