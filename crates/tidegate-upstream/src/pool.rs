//! Idle connections to origins, kept per thread: taking and giving one back needs no lock. Where a thread has
//! none, it may get one from another ([`handover`]).

pub mod handover;
pub mod learn;
pub mod line;
mod shelf;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_rt::clock;

use crate::connection::OriginConnection;
use crate::peers::Group;
use crate::request::LocalAddress;
use handover::Share;
pub use handover::idle_of;
use learn::Learned;
use shelf::{EXCESS_IDLE, Idle, Shelf};
use tidegate_tls::TlsTarget;

/// `keepalive` and its companions of an `upstream` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle connections kept per thread; 0 keeps none. More are kept for a moment only.
    pub idle_max: usize,
    /// `keepalive … local`: only the location that opened a connection uses it again.
    pub local: bool,
    /// `keepalive_requests`.
    pub requests_max: u64,
    /// `keepalive_time`: age after which a connection is closed behind its request.
    pub age_max: Duration,
    /// `keepalive_timeout`: idle time after which it is closed.
    pub idle_time_max: Duration,
}

impl Keepalive {
    /// No connection is kept.
    pub const OFF: Keepalive = Keepalive { idle_max: 0, ..Keepalive::DEFAULT };
    /// nginx's defaults since 1.29.7, but for the number: 32 idle connections are fewer than the requests
    /// that a busy thread has in flight, and each one too many is a handshake with every request.
    pub const DEFAULT: Keepalive = Keepalive {
        idle_max: 512,
        local: true,
        requests_max: 1000,
        age_max: Duration::from_secs(3600),
        idle_time_max: Duration::from_secs(60),
    };
}

/// What a connection must fit to serve a request again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Id of the server.
    pub peer: u64,
    /// Location, where connections are not shared between locations; else 0.
    pub tag: u64,
    /// The language spoken, as a number.
    pub wire: u8,
    /// Kept for a moment only.
    pub brief: bool,
    pub local: Option<LocalAddress>,
    pub tls: Option<TlsTarget>,
}

#[derive(Default)]
struct Pool {
    shelf: Shelf<Box<OriginConnection>>,
    /// `keepalive`, as the one who gave a connection last had it.
    most: usize,
    /// For those who ask from other threads.
    share: Option<Arc<Share>>,
}

impl Pool {
    fn tell(&self) {
        if let Some(share) = &self.share {
            share.tell(&self.shelf);
        }
    }

    fn tell_all(&self) {
        if let Some(share) = &self.share {
            share.tell(&self.shelf);
            share.tell_servers(&self.shelf);
        }
    }
}

thread_local! {
    /// When origins close idle connections.
    static LEARNED: RefCell<Learned> = RefCell::default();
    /// By the group's number.
    static POOLS: RefCell<Vec<Pool>> = const { RefCell::new(Vec::new()) };
    /// Who looks after connections that are kept long, and after those kept for a moment.
    static SWEEPING: [Cell<bool>; 2] = const { [Cell::new(false), Cell::new(false)] };
}

/// How often closed and expired idle connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// The idle time of connections that are kept for a moment: a busy thread asks again within it. Another
/// thread may wait as long for the process behind the connection.
const BRIEF_IDLE: Duration = EXCESS_IDLE;
/// And the requests and the age behind which they are closed, so that those who wait for a process get
/// one in their turn: opening a connection for every 32nd request costs next to nothing.
const BRIEF_REQUESTS: u64 = 32;
const BRIEF_AGE: Duration = Duration::from_secs(1);

impl Fit {
    /// The limits of such connections in a group.
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

/// An idle connection that fits and still lives, the one used last first.
pub fn take(group: &Group, fit: &Fit, now: Instant) -> Option<Box<OriginConnection>> {
    if group.keepalive.idle_max == 0 || group.id == 0 {
        return None;
    }
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.get_mut(usize::try_from(group.id).ok()?)?;
        let taken = pool.shelf.take(fit, now, |connection| connection.is_quiet());
        pool.tell();
        taken
    })
}

/// One that this thread has to spare, for another.
fn spare(group: u64, fit: &Fit, now: Instant) -> Option<Idle<Box<OriginConnection>>> {
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.get_mut(usize::try_from(group).ok()?)?;
        let spare = pool.shelf.spare(fit, now, |connection| connection.is_quiet());
        // Others need not ask again for what is not there.
        pool.tell_all();
        spare
    })
}

/// Keeps one that was not wanted after all.
fn take_back(group: u64, idle: Idle<Box<OriginConnection>>) {
    POOLS.with_borrow_mut(|pools| {
        let place = usize::try_from(group).unwrap_or(usize::MAX);
        if let Some(pool) = pools.get_mut(place) {
            pool.shelf.put(idle, usize::MAX);
            pool.tell_all();
        }
    });
}

/// Closes the idle connections that fit: somebody waits for what is behind them.
pub fn close_idle(group: &Group, fit: &Fit) {
    let closed: Vec<_> = POOLS
        .with_borrow_mut(|pools| {
            let place = usize::try_from(group.id).unwrap_or(usize::MAX);
            let pool = pools.get_mut(place)?;
            let closed = pool.shelf.remove(fit);
            pool.tell();
            Some(closed)
        })
        .unwrap_or_default();
    drop(closed);
}

/// Keeps a connection whose response was read to its end, within the group's limits.
pub fn give(group: &Group, fit: Fit, mut connection: Box<OriginConnection>) {
    if connection.place.take().is_some_and(|place| !place.may_keep()) {
        return;
    }
    let limits = fit.limits(group);
    let brief = fit.brief;
    let now = clock::now();
    let fits = limits.idle_max > 0
        && group.id != 0
        && connection.requests < limits.requests_max
        && now.saturating_duration_since(connection.opened) < limits.age_max;
    let Ok(place) = usize::try_from(group.id) else { return };
    if !fits {
        return;
    }
    let is_excess = POOLS.with_borrow_mut(|pools| {
        if pools.len() <= place {
            pools.resize_with(place + 1, Pool::default);
        }
        let pool = &mut pools[place];
        let far = now + Duration::from_secs(24 * 3600);
        let mut idle_time = limits.idle_time_max;
        let learned = LEARNED.with_borrow(|learned| learned.limit(fit.peer, now));
        for shorter in [connection.idle_told, learned].into_iter().flatten() {
            idle_time = idle_time.min(shorter);
        }
        let until = now.checked_add(idle_time).unwrap_or(far);
        let share = pool.share.get_or_insert_with(|| Share::new(group.id));
        share.tell_server(fit.peer);
        pool.most = limits.idle_max;
        let idle = Idle { connection, fit, since: now, until };
        pool.shelf.put(idle, pool.most);
        pool.tell();
        pool.shelf.len() > pool.most
    });
    sweep_from_now(brief);
    if is_excess {
        sweep_from_now(true);
    }
}

fn sweep_from_now(brief: bool) {
    if !SWEEPING.with(|sweeping| sweeping[usize::from(brief)].replace(true)) {
        tidegate_rt::spawn_local(sweep(brief));
    }
}

/// Closes what expired or was closed by its origin, as long as anything is idle; with those that are kept for a
/// moment, what is above the number that a group keeps.
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
                pool.tell_all();
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
