//! Which connections of a thread wait for their next request without a task and without a watch of the loop: entries
//! of an idle poller, so that ten thousand idle clients cost little more than their sockets. What is done with one
//! that has been sent something is in [`crate::parked_loop`]; its states are those of [`ParkState`].

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use slab::Slab;
use tidegate_rt::net::IdlePoller;

use crate::link::{Link, ParkState};

/// How often idle connections are looked at. One with a task is parked after one to two sweeps without a
/// request; idle times end up to one sweep late.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Idle connections closed at once when room is needed: most of this many, and the share of all.
const REUSE_BATCH: usize = 32;
const REUSE_SHARE: usize = 8;

/// The connections of a thread that are in its idle poller.
#[derive(Default)]
pub(crate) struct Parking {
    poller: OnceCell<IdlePoller>,
    members: RefCell<Slab<Rc<Link>>>,
    /// How many of them are checked out.
    checked_out: Cell<usize>,
}

impl Parking {
    /// With a poller; without descriptors for one all connections have tasks.
    pub(crate) fn open() -> Parking {
        let parking = Parking::default();
        if let Ok(poller) = IdlePoller::new() {
            let _ = parking.poller.set(poller);
        }
        parking
    }

    /// What reports that something has happened to members.
    pub(crate) fn poller(&self) -> Option<&IdlePoller> {
        self.poller.get()
    }

    /// How many are parked.
    pub(crate) fn count(&self) -> usize {
        self.members.borrow().len() - self.checked_out.get()
    }

    /// The member that the poller knows by this key.
    pub(crate) fn member(&self, key: usize) -> Option<Rc<Link>> {
        self.members.borrow().get(key).cloned()
    }

    /// Closes all that are parked.
    pub(crate) fn close_all(&self) {
        self.keep_parked(|_| false);
    }

    fn keep_parked(&self, keep: impl Fn(&Link) -> bool) {
        let mut members = self.members.borrow_mut();
        members.retain(|_, link| {
            matches!(link.park_state(), ParkState::CheckedOut { .. }) || keep(link)
        });
    }

    /// Closes those that have been answered, and those that have had time to ask: for shutdown, where a
    /// request that is on its way is still served.
    pub(crate) fn close_idle(&self, now: Instant) {
        self.keep_parked(|link| {
            let age = now.saturating_duration_since(link.accepted);
            (link.info.requests.get() == 0 && age < SWEEP_EVERY) || !link.is_free(now)
        });
    }

    /// Closes those that came before `generation` and never asked for anything.
    pub(crate) fn close_silent(&self, generation: u64) {
        self.keep_parked(|link| link.info.requests.get() > 0 || link.generation() >= generation);
    }

    /// Closes a part of those idle longest, before them any that has been answered; `false` when there
    /// are none.
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
        by_age.iter().take(count).for_each(|(_, key)| drop(members.try_remove(*key)));
        !by_age.is_empty()
    }

    /// Closes those that have been idle too long.
    pub(crate) fn close_expired(&self, now: Instant) {
        self.keep_parked(|link| link.limits().until > now);
    }

    /// Parks a connection that a task had, or brings one back that was checked out; `false` when it has to stay with
    /// a task.
    pub(crate) fn park(&self, link: &Rc<Link>, now: Instant) -> bool {
        match link.park_state() {
            ParkState::Parked { .. } => true,
            ParkState::CheckedOut { key } => {
                self.checked_out.update(|count| count - 1);
                link.set_park_state(ParkState::Parked { key });
                link.forget_waits();
                true
            }
            ParkState::Owned => link.may_park(now) && self.add(link),
        }
    }

    fn add(&self, link: &Rc<Link>) -> bool {
        let (Some(poller), Some(stream)) = (self.poller.get(), link.io.plain()) else {
            return false;
        };
        let mut members = self.members.borrow_mut();
        let slot = members.vacant_entry();
        let Ok(key) = u32::try_from(slot.key()) else { return false };
        if poller.add(stream, key.into()).is_err() {
            return false;
        }
        link.forget_waits();
        link.set_park_state(ParkState::Parked { key });
        slot.insert(link.clone());
        true
    }

    /// Whether a connection that has been answered can go back to its place, where [`Parking::park`] brings it;
    /// else it leaves the poller if it was checked out.
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

    /// Gives a parked connection to a task: for one request, unless it is to be `whole`.
    pub(crate) fn check_out(&self, link: &Link, whole: bool) {
        let waits_for_client = link.unread.get() || link.io.stream().is_watched();
        match link.park_state() {
            ParkState::Parked { key } if !whole && !waits_for_client => {
                link.set_park_state(ParkState::CheckedOut { key });
                self.checked_out.update(|count| count + 1);
            }
            _ => self.leave(link),
        }
    }

    /// Takes a connection out of the poller.
    pub(crate) fn leave(&self, link: &Link) {
        self.forget(link);
        if let (Some(poller), Some(stream)) = (self.poller.get(), link.io.plain()) {
            let _ = poller.remove(stream);
        }
    }

    /// The same for one that is about to close, which takes it out.
    pub(crate) fn forget(&self, link: &Link) {
        let key = match link.set_park_state(ParkState::Owned) {
            ParkState::Owned => return,
            ParkState::Parked { key } => key,
            ParkState::CheckedOut { key } => {
                self.checked_out.update(|count| count - 1);
                key
            }
        };
        drop(self.members.borrow_mut().try_remove(key as usize));
    }
}

/// How many of so many idle connections are closed when room is needed.
pub(crate) fn reused_of(idle: usize) -> usize {
    (idle / REUSE_SHARE).clamp(1, REUSE_BATCH)
}
