//! The sessions of a thread, for ending them from outside: shutdown, `worker_shutdown_timeout`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidegate_core::Exchange;
use tidegate_core::error_log::Level;
use tidegate_core::main_settings::MainSettings;
use tidegate_core::session::Traffic;

use super::order::{EvictionOrder, Member};

/// What a UDP session takes of `worker_connections`: as in nginx, a connection to the client and one to an origin.
const CONNECTIONS_EACH: u64 = 2;

/// Shortest time between log lines about want of room.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// All sessions of a thread.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Rc<RefCell<slab::Slab<Rc<SessionHandle>>>>,
    /// The UDP sessions.
    datagrams: Rc<RefCell<EvictionOrder<Rc<SessionHandle>>>>,
    /// When want of room was last logged, and how many sessions have been dropped since.
    reported_at: Cell<Option<Instant>>,
    unreported: Cell<u64>,
}

struct SessionHandle {
    generation: u64,
    datagram: bool,
    traffic: Rc<Traffic>,
    /// Bytes received at the last check.
    seen: Cell<u64>,
    aborted: Cell<bool>,
    over: Cell<bool>,
    /// It is ending to make room for another session.
    made_room: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Member for Rc<SessionHandle> {
    fn is_over(&self) -> bool {
        self.over.get() || self.aborted.get()
    }

    fn has_received(&self) -> bool {
        let received = self.traffic.received.get();
        self.seen.replace(received) != received
    }
}

/// A session's registration, until it is dropped.
pub(super) struct Running {
    all: Rc<RefCell<slab::Slab<Rc<SessionHandle>>>>,
    handle: Rc<SessionHandle>,
    datagrams: Rc<RefCell<EvictionOrder<Rc<SessionHandle>>>>,
    key: usize,
}

impl Sessions {
    /// Returns the number of running sessions.
    pub(crate) fn count(&self) -> usize {
        self.all.borrow().len()
    }

    /// Returns the number of UDP sessions, including those that are about to end.
    pub(crate) fn datagrams(&self) -> usize {
        self.datagrams.borrow().running
    }

    /// Whether a UDP session can begin without ending another one.
    pub(super) fn has_room(&self, main: &MainSettings) -> bool {
        self.datagrams() < limit(main)
    }

    /// Ends a UDP session to make room for a new one; returns `false` if that is not possible. Logged at most once a
    /// second.
    pub(super) fn make_room(&self, main: &MainSettings, now: Instant) -> bool {
        let limit = limit(main);
        let has_room = self.end_first(limit);
        self.unreported.set(self.unreported.get() + 1);
        let is_recent =
            self.reported_at.get().is_some_and(|reported_at| now < reported_at + REPORT_EVERY);
        if !is_recent {
            self.reported_at.set(Some(now));
            let count = self.unreported.take();
            let text = "sessions of UDP, half of worker_connections, are not enough";
            let ended = "ended for new ones or did not begin";
            main.error_log.say(Level::Warn, format_args!("{limit} {text}: {count} {ended}"));
        }
        has_room
    }

    /// Ends the UDP session that is first in the order. Returns `false` when twice `limit` are running, those that are
    /// ending included: memory would not be bounded.
    fn end_first(&self, limit: usize) -> bool {
        let mut datagrams = self.datagrams.borrow_mut();
        if datagrams.running >= limit.saturating_mul(2) {
            return false;
        }
        // Those that are ending already have made room.
        if datagrams.running - datagrams.ending < limit {
            return true;
        }
        let Some(handle) = datagrams.take_first() else { return false };
        datagrams.ending += 1;
        drop(datagrams);
        handle.made_room.set(true);
        handle.abort();
        true
    }

    /// Ends the sessions of generations before `generation` at once.
    pub(crate) fn abort_older(&self, generation: u64) {
        self.abort(|handle| handle.generation < generation);
    }

    /// Ends the UDP sessions: their socket is closed, and nothing can arrive any more.
    pub(crate) fn end_datagrams(&self) {
        self.abort(|handle| handle.datagram);
    }

    pub(super) fn enter(&self, x: &Exchange) -> Running {
        let traffic = x.session().map(|session| session.traffic.clone()).unwrap_or_default();
        let handle = Rc::new(SessionHandle {
            generation: x.plan.generation,
            datagram: x.session().is_some_and(|session| session.is_datagram()),
            seen: Cell::new(traffic.received.get()),
            traffic,
            aborted: Cell::new(false),
            over: Cell::new(false),
            made_room: Cell::new(false),
            waker: RefCell::new(None),
        });
        let key = self.all.borrow_mut().insert(handle.clone());
        if handle.datagram {
            self.datagrams.borrow_mut().enter(handle.clone());
        }
        Running { all: self.all.clone(), datagrams: self.datagrams.clone(), handle, key }
    }

    fn abort(&self, which: impl Fn(&SessionHandle) -> bool) {
        let handles: Vec<Rc<SessionHandle>> =
            self.all.borrow().iter().map(|(_, handle)| handle.clone()).collect();
        for handle in handles.into_iter().filter(|handle| which(handle)) {
            handle.abort();
        }
    }
}

/// Returns the largest number of UDP sessions.
fn limit(main: &MainSettings) -> usize {
    let limit = (main.worker_connections / CONNECTIONS_EACH).max(1);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

impl SessionHandle {
    fn abort(&self) {
        self.aborted.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Running {
    /// Whether the session is to end now; stores the waker otherwise.
    pub(super) fn is_aborted(&self, context: &Context<'_>) -> bool {
        let mut waker = self.handle.waker.borrow_mut();
        match &*waker {
            Some(known) if known.will_wake(context.waker()) => {}
            _ => *waker = Some(context.waker().clone()),
        }
        self.handle.aborted.get()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.borrow_mut().try_remove(self.key);
        self.handle.over.set(true);
        if self.handle.datagram {
            self.datagrams.borrow_mut().leave(self.handle.made_room.get());
        }
    }
}
