//! Idle connections to origins, kept per thread: taking and giving one back needs no lock.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use tidegate_rt::clock;

use crate::connection::OriginConnection;
use crate::peers::Group;
use crate::request::LocalAddress;
use crate::tls::TlsTarget;

/// `keepalive` and its companions of an `upstream` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle connections kept per thread; 0 keeps none.
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
    pub local: Option<LocalAddress>,
    pub tls: Option<TlsTarget>,
}

struct Idle {
    connection: Box<OriginConnection>,
    fit: Fit,
    since: Instant,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Idle>,
    idle_time_max: Duration,
}

thread_local! {
    /// By the group's number.
    static POOLS: RefCell<Vec<Pool>> = const { RefCell::new(Vec::new()) };
    static SWEEPING: Cell<bool> = const { Cell::new(false) };
}

/// How often closed and expired idle connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// An idle connection that fits and still lives, the one used last first.
pub fn take(group: &Group, fit: &Fit, now: Instant) -> Option<Box<OriginConnection>> {
    if group.keepalive.idle_max == 0 || group.id == 0 {
        return None;
    }
    POOLS.with_borrow_mut(|pools| {
        let pool = pools.get_mut(usize::try_from(group.id).ok()?)?;
        loop {
            let at = pool.idle.iter().rposition(|idle| idle.fit == *fit)?;
            let idle = pool.idle.remove(at);
            let old = now.saturating_duration_since(idle.since) >= group.keepalive.idle_time_max;
            if !old && idle.connection.is_quiet() {
                return Some(idle.connection);
            }
        }
    })
}

/// Keeps a connection whose response was read to its end, within the group's limits.
pub fn give(group: &Group, fit: Fit, connection: Box<OriginConnection>) {
    let limits = &group.keepalive;
    let now = clock::now();
    let fits = limits.idle_max > 0
        && group.id != 0
        && connection.requests < limits.requests_max
        && now.saturating_duration_since(connection.opened) < limits.age_max;
    let Ok(place) = usize::try_from(group.id) else { return };
    if !fits {
        return;
    }
    POOLS.with_borrow_mut(|pools| {
        if pools.len() <= place {
            pools.resize_with(place + 1, Pool::default);
        }
        let pool = &mut pools[place];
        pool.idle_time_max = limits.idle_time_max;
        if pool.idle.len() >= limits.idle_max {
            pool.idle.remove(0);
        }
        pool.idle.push(Idle { connection, fit, since: now });
    });
    if !SWEEPING.replace(true) {
        tidegate_rt::spawn_local(sweep());
    }
}

/// Idle connections of this thread, for tests and status pages.
pub fn idle_count() -> usize {
    POOLS.with_borrow(|pools| pools.iter().map(|pool| pool.idle.len()).sum())
}

/// Closes what expired or was closed by its origin, as long as anything is idle.
async fn sweep() {
    loop {
        tidegate_rt::timer::sleep(SWEEP).await;
        let now = clock::now();
        let left = POOLS.with_borrow_mut(|pools| {
            for pool in pools.iter_mut() {
                let most = pool.idle_time_max;
                pool.idle.retain(|idle| {
                    now.saturating_duration_since(idle.since) < most && idle.connection.is_quiet()
                });
            }
            pools.iter().any(|pool| !pool.idle.is_empty())
        });
        if !left {
            break;
        }
    }
    SWEEPING.set(false);
}
