//! Idle connections to origins, kept per thread: taking and giving one back needs no lock. A thread without one may
//! get one from another ([`handover`]).
//!
//! ```text
//! in use ── give: complete response, below `keepalive_requests` and `keepalive_time` ──> idle ── take ──> in use
//!    │                                                                                │ │
//!    └── anything else ──> closed <── sweep: `keepalive_timeout`, the origin's limit ─┘ └── spare ──> another thread
//!                                     (announced or learned), closed by the origin, more than `keepalive`
//! ```
//!
//! Invariants: a connection is idle in one pool or in use by one request. An idle one is used only by a request that
//! fits in all of [`Fit`], and only as long as nothing has arrived on it: arriving bytes are a close, or a response
//! without a request. It is closed a second before its origin would close it (RFC 9112 section 9.5), by the idle
//! timeout that the origin announced (`Keep-Alive`) or that was learned ([`learn`]). A sweep runs while its pool has
//! idle connections and ends itself; a loop that ends drops its pools.

pub(crate) mod fit;
pub(crate) mod handover;
pub(crate) mod learn;
pub(crate) mod packed;
pub(crate) mod shared;
mod shelf;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_rt::mail::{MailSender, Mailbox, mailbox};
use tidegate_rt::{clock, spawn_local};

use crate::connection::OriginConnection;
use crate::peers::process_queue::Next;
use crate::peers::{Group, Keepalive};
use fit::Fit;
pub use handover::idle_of;
use handover::{HandoverRequest, PoolSummary};
use learn::IdleTimeouts;
use packed::PackedConnection;
use shelf::{EXCESS_IDLE, Idle, Shelf};

#[derive(Default)]
struct Pool {
    shelf: Shelf<Box<OriginConnection>>,
    /// `keepalive` of the request that gave a connection last.
    most: usize,
    /// The summary for other threads.
    summary: Option<Arc<PoolSummary>>,
}

impl Pool {
    fn update_summary(&self) {
        if let Some(summary) = &self.summary {
            summary.update(&self.shelf);
        }
    }

    fn update_whole_summary(&self) {
        if let Some(summary) = &self.summary {
            summary.update(&self.shelf);
            summary.set_servers(&self.shelf);
        }
    }
}

thread_local! {
    /// The mailbox of requests from other threads.
    static BOX: MailSender<HandoverRequest> = {
        let (sender, inbox) = mailbox(HANDOVERS_MAX);
        spawn_local(serve(inbox));
        sender
    };
    /// Idle timeouts of origins.
    static LEARNED: RefCell<IdleTimeouts> = RefCell::default();
    /// Pools by the group's number.
    static POOLS: RefCell<Vec<Pool>> = const { RefCell::new(Vec::new()) };
    /// Whether a sweep runs: for connections that are kept long, and for those kept for a moment.
    static SWEEPING: [Cell<bool>; 2] = const { [Cell::new(false), Cell::new(false)] };
}

/// Requests that may wait for one thread's reply; others open a connection.
const HANDOVERS_MAX: usize = 256;
/// Interval of the sweep for closed and expired idle connections.
const SWEEP: Duration = Duration::from_secs(1);
/// Idle time of connections that are kept for a moment: a busy thread sends its next request within it. Another
/// thread may wait as long for the process behind the connection.
const BRIEF_IDLE: Duration = EXCESS_IDLE;
/// Most requests and largest age of such a connection, so that requests that wait for a process are served: opening a
/// connection for every 32nd request costs next to nothing.
const BRIEF_REQUESTS: u64 = 32;
const BRIEF_AGE: Duration = Duration::from_secs(1);

impl Fit {
    /// Returns the limits of such connections in a group.
    fn limits(&self, group: &Group) -> Keepalive {
        let own = group.keepalive;
        match self.brief {
            false => own,
            true => Keepalive {
                requests_max: own.requests_max.min(BRIEF_REQUESTS),
                age_max: own.age_max.min(BRIEF_AGE),
                idle_time_max: own.idle_time_max.min(BRIEF_IDLE),
                ..own
            },
        }
    }
}

/// Returns an idle connection that fits and is open, the one used last first.
pub(crate) fn take(group: &Group, fit: &Fit, now: Instant) -> Option<Box<OriginConnection>> {
    if group.keepalive.idle_max == 0 || group.id == 0 {
        return None;
    }
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.get_mut(usize::try_from(group.id).ok()?)?;
        let taken = pool.shelf.take(fit, now, |connection| connection.is_quiet());
        pool.update_summary();
        taken
    })
}

/// Returns a connection that this thread has to spare, for another.
fn spare(group: u64, fit: &Fit, now: Instant) -> Option<Idle<Box<OriginConnection>>> {
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.get_mut(usize::try_from(group).ok()?)?;
        let spare = pool.shelf.spare(fit, now, |connection| connection.is_quiet());
        // Others need not ask again for a connection that does not exist.
        pool.update_whole_summary();
        spare
    })
}

/// Keeps a connection that was not wanted after all.
fn take_back(group: u64, idle: Idle<Box<OriginConnection>>) {
    POOLS.with_borrow_mut(|pools| {
        let place = usize::try_from(group).unwrap_or(usize::MAX);
        if let Some(pool) = pools.get_mut(place) {
            pool.shelf.put(idle, usize::MAX);
            pool.update_whole_summary();
        }
    });
}

/// Serves the handover requests of other threads, as long as this thread's loop runs. It waits only for the next
/// request, so it cannot be dropped while it holds a connection.
async fn serve(mut inbox: Mailbox<HandoverRequest>) {
    while let Some(wanted) = inbox.receive().await {
        // The asking thread may have continued without.
        if wanted.reply.is_closed() {
            continue;
        }
        let HandoverRequest { group, fit, reply } = wanted;
        let parcel = spare(group, &fit, clock::now()).and_then(PackedConnection::pack);
        if let Err(Some(parcel)) = reply.send(parcel) {
            take_back(group, parcel.unpack(fit));
        }
    }
}

/// Closes the idle connections that fit: requests wait for the processes behind them.
pub(crate) fn close_idle(group: &Group, fit: &Fit) {
    let closed: Vec<_> = POOLS
        .with_borrow_mut(|pools| {
            let place = usize::try_from(group.id).unwrap_or(usize::MAX);
            let pool = pools.get_mut(place)?;
            let closed = pool.shelf.remove(fit);
            pool.update_summary();
            Some(closed)
        })
        .unwrap_or_default();
    drop(closed);
}

/// Keeps a connection whose response was read to its end, within the group's limits.
pub(crate) fn give(group: &Group, fit: Fit, connection: Box<OriginConnection>, now: Instant) {
    let limits = fit.limits(group);
    let brief = fit.brief;
    let fits = limits.idle_max > 0
        && group.id != 0
        && connection.requests < limits.requests_max
        && now.saturating_duration_since(connection.opened) < limits.age_max;
    let Ok(place) = usize::try_from(group.id) else { return };
    if !fits {
        return;
    }
    let Some(connection) = handed_over(connection, &fit, now) else { return };
    let is_excess = POOLS.with_borrow_mut(|pools| {
        if pools.len() <= place {
            pools.resize_with(place + 1, Pool::default);
        }
        let pool = &mut pools[place];
        let far = now + Duration::from_secs(24 * 3600);
        let mut idle_time = limits.idle_time_max;
        let learned = LEARNED.with_borrow(|learned| learned.limit(fit.peer, now));
        for shorter in [connection.idle_announced, learned].into_iter().flatten() {
            idle_time = idle_time.min(shorter);
        }
        let until = now.checked_add(idle_time).unwrap_or(far);
        let summary =
            pool.summary.get_or_insert_with(|| PoolSummary::new(group.id, BOX.with(Clone::clone)));
        summary.add_server(fit.peer);
        pool.most = limits.idle_max;
        let idle = Idle { connection, fit, since: now, until };
        pool.shelf.put(idle, pool.most);
        pool.update_summary();
        pool.shelf.len() > pool.most
    });
    sweep_from_now(brief);
    if is_excess {
        sweep_from_now(true);
    }
}

/// Gives a connection to the request whose turn it is; returns it where none waits.
fn handed_over(
    mut connection: Box<OriginConnection>,
    fit: &Fit,
    now: Instant,
) -> Option<Box<OriginConnection>> {
    let Some(place) = connection.place.take() else { return Some(connection) };
    let mut held = Ok(connection);
    loop {
        let waiter = match place.release(fit, clock::exact_now()) {
            Next::Hand(waiter) => waiter,
            Next::Close => {
                place.settle();
                return None;
            }
            Next::Keep => {
                place.settle();
                return Some(held.unwrap_or_else(|parcel: Box<PackedConnection>| parcel.open()));
            }
        };
        let parcel = match held {
            Ok(connection) => PackedConnection::of(*connection, now, now),
            Err(parcel) => Some(parcel),
        };
        let Some(parcel) = parcel else {
            // It is still in use, and closed behind that. Where the waiter has left, the next one has its turn.
            if waiter.open() {
                place.settle();
            }
            return None;
        };
        match waiter.hand(parcel) {
            Ok(()) => {
                place.settle();
                return None;
            }
            Err(parcel) => held = Err(parcel),
        }
    }
}

fn sweep_from_now(brief: bool) {
    if !SWEEPING.with(|sweeping| sweeping[usize::from(brief)].replace(true)) {
        spawn_local(sweep(brief));
    }
}

/// Closes connections that expired or were closed by their origins, as long as any is idle; with those that are kept
/// for a moment, those above the number that a group keeps.
async fn sweep(brief: bool) {
    let pause = if brief { BRIEF_IDLE } else { SWEEP };
    loop {
        tidegate_rt::timer::sleep(pause).await;
        let now = clock::now();
        let mut closed = Vec::new();
        let left = POOLS.with_borrow_mut(|pools| {
            let mut left = false;
            for pool in pools.iter_mut() {
                pool.shelf.retain(|idle| {
                    let is_quiet = idle.connection.is_quiet();
                    if !is_quiet && !brief {
                        closed.push((idle.fit.peer, now.saturating_duration_since(idle.since)));
                    }
                    let stays = now < idle.until && is_quiet;
                    left |= idle.fit.brief == brief && stays;
                    idle.fit.brief != brief || stays
                });
                left |= brief && pool.shelf.trim(pool.most, now);
                pool.update_whole_summary();
            }
            left
        });
        LEARNED.with_borrow_mut(|learned| {
            closed.iter().for_each(|(server, idle)| learned.closed(*server, *idle, now));
        });
        if !left {
            break;
        }
    }
    SWEEPING.with(|sweeping| sweeping[usize::from(brief)].set(false));
}
