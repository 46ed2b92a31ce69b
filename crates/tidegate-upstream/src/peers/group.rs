//! A group of servers, shared by all threads.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_rt::sync::Notify;

use super::choice::Choice;
use super::options::{Kept, Method, Outcome, PeerSpec, ServerOptions, Stickiness};
use super::peer::{Health, Peer, address_text};
use super::state::{SlotView, State};
use crate::pool::Keepalive;

/// Servers among which requests are spread.
pub struct Group {
    /// Number of this group in the process, from 1; 0 for one whose connections are not kept.
    pub id: u64,
    /// The `upstream`'s name, or the address as written.
    pub name: Box<str>,
    pub method: Method,
    pub keepalive: Keepalive,
    options: GroupOptions,
    /// The only server of a group that never changes.
    lone: Option<Arc<Peer>>,
    state: Mutex<State>,
    /// Requests in progress are counted.
    counts: AtomicBool,
    /// Changes in requests in progress change the order of choice.
    is_large: AtomicBool,
    attempts_max: AtomicU32,
    /// Requests in the `queue`.
    waiting: AtomicUsize,
    freed: Notify,
}

/// What else a configuration says of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    pub sticky: Stickiness,
    pub kept: Kept,
    /// Requests that may wait for a server, and for how long (`queue`).
    pub queue: Option<(usize, Duration)>,
}

/// A server in use; its requests in progress go down when this is dropped.
pub struct Lease {
    peer: Arc<Peer>,
    /// Where it is counted.
    group: Option<Arc<Group>>,
}

impl Lease {
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            self.peer.leave();
            group.left(&self.peer);
        }
    }
}

impl Group {
    /// A group of servers with their names as written.
    pub fn new(
        name: &str,
        method: Method,
        keepalive: Keepalive,
        servers: Vec<(String, Addr, ServerOptions)>,
    ) -> Group {
        let spec = |(server, address, options): (String, Addr, ServerOptions)| PeerSpec {
            server: server.into(),
            address,
            options,
        };
        let specs = servers.into_iter().map(spec).collect();
        Group::with(name, method, keepalive, GroupOptions::default(), specs)
    }

    /// A group with all that can be said of one.
    pub fn with(
        name: &str,
        method: Method,
        keepalive: Keepalive,
        options: GroupOptions,
        specs: Vec<PeerSpec>,
    ) -> Group {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let state = State::new(method, options.sticky, specs);
        let mut group = Group {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            method,
            keepalive,
            options,
            lone: None,
            state: Mutex::new(state),
            counts: AtomicBool::new(false),
            is_large: AtomicBool::new(false),
            attempts_max: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        };
        group.settled();
        group
    }

    /// One server whose connections are not kept: for addresses that are known per request only.
    pub fn transient(name: &str, addresses: Vec<Addr>) -> Group {
        let servers = addresses
            .into_iter()
            .map(|address| (address_text(&address), address, ServerOptions::default()))
            .collect();
        let mut group = Group::new(name, Method::RoundRobin, Keepalive::OFF, servers);
        group.id = 0;
        group
    }

    /// Takes over what the group of this name knew in an earlier configuration: its idle connections and
    /// the state of servers that both have.
    pub fn inherit(&mut self, before: &Group) {
        self.id = before.id;
        let known = before.lock();
        self.lock().inherit(&known, clock::now());
        drop(known);
        self.settled();
    }

    /// Servers that a request may try at most: those that are not `down`.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max.load(Ordering::Relaxed)
    }

    /// Chooses a server that was not tried yet; `None` when none is available. What it is chosen for is
    /// in progress until the lease is dropped.
    pub fn choose(self: &Arc<Self>, choice: &mut Choice, now: Instant) -> Option<Lease> {
        let peer = match &self.lone {
            Some(lone) if choice.has_tried(lone) => return None,
            Some(lone) => {
                choice.exclude(lone);
                lone.clone()
            }
            None => return self.choose_locked(choice, now),
        };
        Some(Lease { peer, group: None })
    }

    fn choose_locked(self: &Arc<Self>, choice: &mut Choice, now: Instant) -> Option<Lease> {
        let mut state = self.lock();
        let peer = state.choose(choice, now)?;
        let group = self.counts.load(Ordering::Relaxed).then(|| self.clone());
        if group.is_some() {
            peer.enter();
            if state.is_large() {
                state.refresh(&peer, now);
            }
        }
        Some(Lease { peer, group })
    }

    /// Waits in the `queue` for a server, where there is one. `None`: the queue is full, or it took too
    /// long.
    pub async fn wait(self: &Arc<Self>, choice: &mut Choice) -> Option<Lease> {
        let (most, time) = self.options.queue?;
        let place = Place::take(self, most)?;
        let waiting = async {
            loop {
                let freed = self.freed.notified();
                if let Some(lease) = self.choose(choice, clock::now()) {
                    return lease;
                }
                // Servers that rest come back without anybody telling.
                let _ = tidegate_rt::timer::timeout(REST_CHECK, freed).await;
            }
        };
        let lease = tidegate_rt::timer::timeout(time, waiting).await.ok();
        drop(place);
        lease
    }

    /// Reports what became of an attempt.
    pub fn report(&self, peer: &Peer, outcome: Outcome, now: Instant) {
        let matters = match outcome {
            Outcome::Neutral => false,
            Outcome::Success => peer.is_troubled(),
            Outcome::Failure => true,
        };
        if matters && self.lone.is_none() {
            self.lock().report(peer, outcome, now);
        }
    }

    /// Whether servers can change while the group lives.
    pub fn is_changing(&self) -> bool {
        self.options.kept == Kept::Changing
    }

    /// The servers as they are now.
    pub fn view(&self) -> Vec<SlotView> {
        self.lock().view(clock::now())
    }

    /// Requests in the `queue`.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// The servers from now on; those that it has keep their state.
    pub fn replace(&self, specs: Vec<PeerSpec>) {
        self.lock().replace(specs, clock::now());
        self.changed();
    }

    /// Changes a server's parameters. `false`: there is no such server.
    pub fn change(&self, number: u32, change: impl FnOnce(&mut ServerOptions)) -> bool {
        let found = self.lock().change(number, clock::now(), change);
        self.changed();
        found
    }

    /// What checks say of a server from now on.
    pub fn set_health(&self, peer: &Peer, health: Health) {
        self.lock().set_health(peer, health, clock::now());
        self.freed.notify_waiters();
    }

    /// The route by which requests are bound to a server (`sticky`).
    pub fn route(&self, peer: &Peer) -> Option<Vec<u8>> {
        self.lock().route(peer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has left a server.
    fn left(&self, peer: &Peer) {
        if self.is_large.load(Ordering::Relaxed) {
            self.lock().refresh(peer, clock::now());
        }
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.freed.notify_one();
        }
    }

    /// After the servers were set before anybody uses the group.
    fn settled(&mut self) {
        self.changed();
        let state = self.lock();
        let only = (state.is_lone() && !self.is_changing() && !self.counts.load(Ordering::Relaxed))
            .then(|| state.slots().find(|slot| !slot.options.down).map(|slot| slot.peer.clone()));
        drop(state);
        self.lone = only.flatten();
    }

    fn changed(&self) {
        let state = self.lock();
        let options = || state.slots().map(|slot| &slot.options);
        let counts = self.method.counts()
            || self.is_changing()
            || self.options.queue.is_some()
            || options().any(|options| options.max_conns > 0);
        let usable = options().filter(|options| !options.down).count();
        self.counts.store(counts, Ordering::Relaxed);
        self.is_large.store(state.is_large(), Ordering::Relaxed);
        self.attempts_max.store(u32::try_from(usable).unwrap_or(u32::MAX), Ordering::Relaxed);
        drop(state);
        self.freed.notify_waiters();
    }
}

/// A place in the queue.
struct Place<'g>(&'g Group);

impl<'g> Place<'g> {
    fn take(group: &'g Group, most: usize) -> Option<Place<'g>> {
        if group.waiting.fetch_add(1, Ordering::Relaxed) >= most {
            group.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Place(group))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often a queue looks whether a server's rest is over.
const REST_CHECK: Duration = Duration::from_millis(500);
