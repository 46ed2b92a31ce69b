//! The connections of a thread that wait for their next request without a task and without a watch of the event loop.
//! They are entries of an idle poller, so that ten thousand idle clients cost little more than their sockets.
//! [`crate::parked_loop`] serves them when bytes arrive; their states are those of [`ParkState`].

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_rt::net::IdlePoller;

use crate::link::{Link, ParkState};

/// The time between two sweeps over idle connections. A connection with a task is parked after one to two sweeps
/// without a request; idle times end up to one sweep late.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Idle connections closed at once when room is needed: at most `REUSE_BATCH`, and one `REUSE_SHARE`th of all.
const REUSE_BATCH: usize = 32;
const REUSE_SHARE: usize = 8;
/// Connections whose memory is released in one sweep: each takes about a microsecond.
const RESTS_MAX: usize = 2_000;

/// The connections of a thread that are in its idle poller.
#[derive(Default)]
pub(crate) struct Parking {
    poller: OnceCell<IdlePoller>,
    members: RefCell<Slab<Rc<Link>>>,
    /// The number of checked-out connections.
    checked_out: Cell<usize>,
}

impl Parking {
    /// Opens the poller; without descriptors for it all connections have tasks.
    pub(crate) fn open() -> Parking {
        let parking = Parking::default();
        if let Ok(poller) = IdlePoller::new() {
            let _ = parking.poller.set(poller);
        }
        parking
    }

    /// Returns the poller, which reports events of its members.
    pub(crate) fn poller(&self) -> Option<&IdlePoller> {
        self.poller.get()
    }

    /// Returns the number of parked connections.
    pub(crate) fn count(&self) -> usize {
        self.members.borrow().len() - self.checked_out.get()
    }

    /// Returns the member that the poller knows by this key.
    pub(crate) fn member(&self, key: usize) -> Option<Rc<Link>> {
        self.members.borrow().get(key).cloned()
    }

    /// Closes all parked connections.
    pub(crate) fn close_all(&self) {
        self.keep_parked(|_| false);
    }

    fn keep_parked(&self, keep: impl Fn(&Link) -> bool) {
        let mut members = self.members.borrow_mut();
        members.retain(|_, link| {
            let stays = matches!(link.park_state(), ParkState::CheckedOut { .. }) || keep(link);
            if !stays {
                link.say_goodbye();
            }
            stays
        });
    }

    /// Closes connections that have had a response, and those that have had time to send a request: for shutdown, where
    /// a request that is on its way is still served.
    pub(crate) fn close_idle(&self, now: Instant) {
        self.keep_parked(|link| {
            let age = now.saturating_duration_since(link.accepted);
            (link.info.requests.get() == 0 && age < SWEEP_EVERY) || !link.is_free(now)
        });
    }

    /// Closes connections that were accepted before `generation` and never sent a request.
    pub(crate) fn close_silent(&self, generation: u64) {
        self.keep_parked(|link| link.info.requests.get() > 0 || link.generation() >= generation);
    }

    /// Closes a part of the connections idle longest, preferring those that have had a response; returns `false` if
    /// there are none.
    pub(crate) fn close_oldest(&self, now: Instant) -> bool {
        let mut members = self.members.borrow_mut();
        // The clock is coarse: of several that became idle at one time the older connection is closed.
        let age =
            |link: &Link| (link.info.requests.get() == 0, link.limits().until, link.info.number);
        let is_free = |link: &Link| {
            matches!(link.park_state(), ParkState::Parked { .. }) && link.is_free(now)
        };
        let free = members.iter().filter(|(_, link)| is_free(link));
        let mut by_age: Vec<_> = free.map(|(key, link)| (age(link), key)).collect();
        by_age.sort_unstable();
        let count = reused_of(by_age.len());
        for (_, key) in by_age.iter().take(count) {
            if let Some(link) = members.try_remove(*key) {
                link.say_goodbye();
            }
        }
        !by_age.is_empty()
    }

    /// Closes connections that have been idle too long, and releases the memory of those that stay, of `RESTS_MAX` at
    /// most. Returns how many these are.
    pub(crate) fn close_expired(&self, now: Instant) -> usize {
        let rested = Cell::new(0);
        self.keep_parked(|link| {
            if rested.get() < RESTS_MAX && link.rest() {
                rested.update(|count| count + 1);
            }
            link.limits().until > now
        });
        rested.get()
    }

    /// Parks a connection that a task owned, or brings back one that was checked out; returns `false` when it has to
    /// stay with a task.
    pub(crate) fn park(&self, link: &Rc<Link>, now: Instant) -> bool {
        match link.park_state() {
            ParkState::Parked { .. } => true,
            ParkState::CheckedOut { key } => {
                self.checked_out.update(|count| count - 1);
                link.set_park_state(ParkState::Parked { key });
                link.forget_waits();
                true
            }
            ParkState::New | ParkState::Owned => {
                link.set_park_state(ParkState::Owned);
                let parked = link.may_park(now) && self.add(link);
                if parked {
                    link.forget_waits();
                }
                parked
            }
        }
    }

    fn add(&self, link: &Rc<Link>) -> bool {
        let Some(poller) = self.poller.get() else { return false };
        let mut members = self.members.borrow_mut();
        let slot = members.vacant_entry();
        let Ok(key) = u32::try_from(slot.key()) else { return false };
        if poller.add(link.io.stream(), key.into()).is_err() {
            return false;
        }
        link.set_park_state(ParkState::Parked { key });
        slot.insert(link.clone());
        true
    }

    /// Whether a connection that has had its response can be parked again by [`Parking::park`]; else it leaves the
    /// poller if it was checked out.
    pub(crate) fn can_repark(&self, link: &Link, draining: bool) -> bool {
        if !matches!(link.park_state(), ParkState::CheckedOut { .. }) {
            return false;
        }
        let ends = link.is_closing() || draining;
        let can = !ends && !link.unread.get() && link.may_park_since_idle();
        if !can {
            self.leave(link);
        }
        can
    }

    /// Gives a connection whose request has to wait to a task: for this request, or altogether if `whole`. One that was
    /// never parked joins the poller for that.
    pub(crate) fn check_out(&self, link: &Rc<Link>, whole: bool) {
        let whole = whole || link.unread.get() || link.io.stream().is_watched();
        if !whole && link.park_state() == ParkState::New {
            self.add(link);
        }
        match link.park_state() {
            ParkState::Parked { key } if !whole => {
                link.set_park_state(ParkState::CheckedOut { key });
                self.checked_out.update(|count| count + 1);
            }
            _ => self.leave(link),
        }
    }

    /// Takes a connection out of the poller, if it is there.
    pub(crate) fn leave(&self, link: &Link) {
        if self.strike_off(link)
            && let Some(poller) = self.poller.get()
        {
            let _ = poller.remove(link.io.stream());
        }
    }

    /// As [`Parking::leave`], for a connection that is about to close: the close takes it out of the set.
    pub(crate) fn forget(&self, link: &Link) {
        self.strike_off(link);
    }

    /// Takes a connection out of the table; returns whether it was there.
    fn strike_off(&self, link: &Link) -> bool {
        let key = match link.set_park_state(ParkState::Owned) {
            ParkState::New | ParkState::Owned => return false,
            ParkState::Parked { key } => key,
            ParkState::CheckedOut { key } => {
                self.checked_out.update(|count| count - 1);
                key
            }
        };
        drop(self.members.borrow_mut().try_remove(key as usize));
        true
    }
}

/// Returns how many of `idle` connections are closed when room is needed.
pub(crate) fn reused_of(idle: usize) -> usize {
    (idle / REUSE_SHARE).clamp(1, REUSE_BATCH)
}
