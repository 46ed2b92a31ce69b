//! A group of servers, shared by all threads.

mod commands;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_rt::clock;
use tidegate_rt::net::Addr;
use tidegate_rt::sync::{Notify, Semaphore};

use super::check::{CheckRule, Health};
use super::choice::Choice;
use super::member::Member;
use super::options::{
    BalancingMethod, Keepalive, Mutability, Outcome, PeerSpec, ServerOptions, Stickiness,
};
use super::owners::{Owner, has_ip};
use super::peer::Peer;
use super::state::{SlotView, State, rings};
use crate::address::address_text;

/// Servers among which requests are spread.
pub struct Group {
    /// Number of this group in the process, from 1; 0 for one whose connections are not kept.
    pub(crate) id: u64,
    /// The `upstream`'s name, or the address as written.
    pub name: Box<str>,
    pub(crate) method: BalancingMethod,
    pub(crate) keepalive: Keepalive,
    options: GroupOptions,
    /// The only server of a group that never changes.
    lone: Option<Arc<Peer>>,
    members: Mutex<Vec<Member>>,
    /// Locked inside the lock of `members`, where both are needed.
    state: Mutex<State>,
    /// Requests in progress are counted.
    counts: AtomicBool,
    /// Changes in requests in progress change the order of choice.
    is_large: AtomicBool,
    attempts_max: AtomicU32,
    /// Requests in the `queue`.
    waiting: AtomicUsize,
    /// Requests that found the `queue` full.
    overflows: AtomicUsize,
    /// Held by the first one in the queue that has tried no server; given in the order of arrival.
    head: Semaphore,
    freed: Notify,
    /// Notified when servers were added, removed or given other parameters.
    altered: Notify,
}

/// Shows the settings.
impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.name, self.method, self.keepalive, self.options).fmt(f)
    }
}

/// The other settings of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// Whether requests can be bound to servers (`sticky`).
    pub sticky: Stickiness,
    /// Whether servers can be added and removed (`zone`).
    pub mutability: Mutability,
    /// Requests that may wait for a server, and for how long (`queue`).
    pub queue: Option<(usize, Duration)>,
    /// Names of servers are resolved again while the group exists.
    pub resolves: bool,
}

/// A server in use; its requests in progress are decremented when this is dropped.
pub struct Lease {
    peer: Arc<Peer>,
    /// The group that counts it.
    group: Option<Arc<Group>>,
}

impl Lease {
    /// Returns the server.
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
    /// Makes a group of servers with their names as written.
    pub fn new(
        name: &str,
        method: BalancingMethod,
        keepalive: Keepalive,
        servers: Vec<(String, Addr, ServerOptions)>,
        now: Instant,
    ) -> Group {
        let member = |(server, address, options): (String, Addr, ServerOptions)| {
            Member::fixed(&server, vec![address], options)
        };
        let members = servers.into_iter().map(member).collect();
        Group::with(name, (method, keepalive, GroupOptions::default()), members, now)
    }

    /// Makes a group with all settings.
    pub fn with(
        name: &str,
        settings: (BalancingMethod, Keepalive, GroupOptions),
        members: Vec<Member>,
        now: Instant,
    ) -> Group {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Group::numbered_as(NEXT.fetch_add(1, Ordering::Relaxed), name, settings, members, now)
    }

    fn numbered_as(
        id: u64,
        name: &str,
        (method, keepalive, options): (BalancingMethod, Keepalive, GroupOptions),
        mut members: Vec<Member>,
        now: Instant,
    ) -> Group {
        let mut state = State::new(method, options.sticky);
        for member in members.iter_mut().filter(|member| member.name.is_some()) {
            member.number = Some(state.reserve_number());
        }
        let specs: Vec<PeerSpec<'_>> = members.iter().flat_map(Member::specs).collect();
        let rings = rings(&specs, method);
        state.replace(specs, rings, now);
        let mut group = Group {
            id,
            name: name.into(),
            method,
            keepalive,
            options,
            lone: None,
            members: Mutex::new(members),
            state: Mutex::new(state),
            counts: AtomicBool::new(false),
            is_large: AtomicBool::new(false),
            attempts_max: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            overflows: AtomicUsize::new(0),
            head: Semaphore::new(1),
            freed: Notify::new(),
            altered: Notify::new(),
        };
        group.settled();
        group
    }

    /// Makes a group of one server whose connections are not kept: for addresses that are known per request only. It
    /// takes no number: pools are as many as the largest one.
    pub fn transient(name: &str, addresses: Vec<Addr>, now: Instant) -> Group {
        let member = |address: Addr| {
            Member::fixed(&address_text(&address), vec![address], ServerOptions::default())
        };
        let members = addresses.into_iter().map(member).collect();
        let settings = (BalancingMethod::RoundRobin, Keepalive::OFF, GroupOptions::default());
        Group::numbered_as(0, name, settings, members, now)
    }

    /// Takes over the state of the group of this name in an earlier configuration: its idle connections and the state
    /// of servers that both have.
    pub fn inherit(&mut self, before: &Group, now: Instant) {
        self.id = before.id;
        let mut members = self.lock_members();
        let known = before.lock_members();
        let mut state = self.lock();
        // Requests choose among its servers meanwhile: its lock is held for moments.
        state.continue_numbers(&before.lock());
        let mut numbered: Vec<&Member> = known.iter().collect();
        for member in members.iter_mut().filter(|member| member.name.is_some()) {
            let places = known.iter().find_map(|known| member.places_of(known));
            member.places = places.unwrap_or_default();
            // Of several that are written the same, each takes one.
            let same = numbered.iter().position(|known| known.name == member.name);
            let number = same.and_then(|at| numbered.remove(at).number);
            member.number = Some(number.unwrap_or_else(|| state.reserve_number()));
        }
        let next_number = state.next_number();
        let specs: Vec<PeerSpec<'_>> = members.iter().flat_map(Member::specs).collect();
        let rings = rings(&specs, self.method);
        state.replace(specs, rings, now);
        state.inherit(&before.lock(), next_number, now);
        drop(state);
        drop(known);
        drop(members);
        self.settled();
    }

    /// Returns the number of servers that a request may try: those that are not `down`.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max.load(Ordering::Relaxed)
    }

    /// Chooses a server that was not tried yet; `None` when none is available. The request counts as in progress
    /// until the lease is dropped.
    pub fn choose(self: &Arc<Self>, choice: &mut Choice, now: Instant) -> Option<Lease> {
        let peer = match &self.lone {
            Some(lone) if !choice.admits(lone) => return None,
            Some(lone) => {
                choice.exclude(lone);
                lone.clone()
            }
            None => return self.choose_locked(choice, now),
        };
        Some(Lease { peer, group: None })
    }

    /// As [`Group::choose`], for a request that arrives: it does not go ahead of those in the `queue`.
    pub fn choose_in_order(self: &Arc<Self>, choice: &mut Choice, now: Instant) -> Option<Lease> {
        match self.options.queue {
            Some(_) if self.waiting() > 0 && choice.tried().next().is_none() => None,
            _ => self.choose(choice, now),
        }
    }

    fn choose_locked(self: &Arc<Self>, choice: &mut Choice, now: Instant) -> Option<Lease> {
        let mut state = self.lock();
        let peer = state.choose(choice, now)?;
        let group = self.counts.load(Ordering::Relaxed).then(|| self.clone());
        if group.is_some() {
            peer.enter(now);
            if state.is_large() {
                state.refresh(&peer, now);
            }
        }
        Some(Lease { peer, group })
    }

    /// Waits in the `queue` for a server, where there is one; returns it with the time. `None`: the queue is full, the
    /// time limit has passed, or the choice is of one server alone, whose caller has something else to do.
    ///
    /// Requests get servers in the order of arrival: only the first one in the queue looks for one, and the next one does
    /// when it has left. One that has tried a server looks beside them, as it waits for fewer servers than they do. Each
    /// that looks checks twice a second by itself: the end of a server's `fail_timeout` wakes none.
    ///
    /// A place in the queue is a ticket, which is given back when this future is dropped. All that look are woken, so no
    /// wake-up is lost with one of them.
    pub async fn wait(self: &Arc<Self>, choice: &mut Choice) -> Option<(Lease, Instant)> {
        let (most, time) = self.options.queue.filter(|_| choice.only.is_none())?;
        let Some(ticket) = Ticket::take(self, most) else {
            self.overflows.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let is_first_try = choice.tried().next().is_none();
        let waiting = async {
            // Never closed; an error would only end the order.
            let _head = match is_first_try {
                true => Some(self.head.acquire().await),
                false => None,
            };
            loop {
                let freed = self.freed.notified();
                // A server was freed, or the `fail_timeout` of one may have passed.
                let now = clock::now();
                if let Some(lease) = self.choose(choice, now) {
                    return (lease, now);
                }
                // The end of `fail_timeout` sends no notification.
                let _ = tidegate_rt::timer::timeout(REST_CHECK, freed).await;
            }
        };
        let had = tidegate_rt::timer::timeout(time, waiting).await.ok();
        drop(ticket);
        had
    }

    /// Reports the outcome of an attempt.
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

    /// Returns whether servers can change while the group exists.
    pub fn is_changing(&self) -> bool {
        self.options.mutability == Mutability::Changing
    }

    /// Returns the current servers.
    pub fn view(&self, now: Instant) -> Vec<SlotView> {
        self.lock().view(now)
    }

    /// Returns the number of requests in the `queue`.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that found the `queue` full.
    pub fn overflows(&self) -> usize {
        self.overflows.load(Ordering::Relaxed)
    }

    /// Returns the servers in the order in which they own a key, given by its hash ([`owners`](super::owners)).
    pub fn owners(&self, key: &[u8; 16], now: Instant) -> Vec<Owner> {
        self.lock().owners(key, now)
    }

    /// Returns whether a server of the group has this address, with any port.
    pub fn has_ip(&self, ip: IpAddr) -> bool {
        self.lock().slots().any(|slot| has_ip(&slot.peer, ip))
    }

    /// Returns how the group chooses.
    pub fn method(&self) -> BalancingMethod {
        self.method
    }

    /// Returns the settings beside method and idle connections.
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Returns the servers as configured.
    pub fn members(&self) -> Vec<Member> {
        self.lock_members().clone()
    }

    /// Changes the servers; those that remain keep their state.
    pub fn change_members<T>(&self, now: Instant, change: impl FnOnce(&mut Vec<Member>) -> T) -> T {
        let mut members = self.lock_members();
        let result = change(&mut members);
        self.apply(&mut members, now);
        drop(members);
        self.changed();
        result
    }

    /// Makes the configured servers the current ones, under the lock of `members`.
    fn apply(&self, members: &mut [Member], now: Instant) {
        for member in members.iter_mut().filter(|member| member.name.is_some()) {
            if member.number.is_none() {
                member.number = Some(self.lock().reserve_number());
            }
        }
        let specs: Vec<PeerSpec<'_>> = members.iter().flat_map(Member::specs).collect();
        // Requests choose servers meanwhile.
        let rings = rings(&specs, self.method);
        self.lock().replace(specs, rings, now);
    }

    /// Adds a check that servers have to pass; returns its number for [`Group::judge`].
    pub fn add_check(&self, check: CheckRule, now: Instant) -> usize {
        self.lock().add_check(check, now)
    }

    /// Returns the result of a check for a server; its number is that of [`Group::add_check`].
    pub fn check_result(&self, peer: &Peer, check: usize) -> Health {
        self.lock().check_result(peer, check)
    }

    /// Sets the result of a check for a server.
    pub fn judge(&self, peer: &Peer, check: usize, health: Health, now: Instant) {
        self.lock().judge(peer, check, health, now);
        self.freed.notify_waiters();
    }

    /// Waits until servers were added or removed since the call.
    pub fn altered(&self) -> impl Future<Output = ()> {
        self.altered.notified()
    }

    /// Returns the route by which requests are bound to a server (`sticky`).
    pub fn route(&self, peer: &Peer) -> Option<Vec<u8>> {
        self.lock().route(peer)
    }

    fn lock_members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that has left a server.
    fn left(&self, peer: &Peer) {
        if self.is_large.load(Ordering::Relaxed) {
            // A lease is dropped wherever its request ends: this is that event's reading of the clock.
            self.lock().refresh(peer, clock::now());
        }
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Completes the group after its servers were set, before it is in use.
    fn settled(&mut self) {
        self.changed();
        let grows = self.lock_members().iter().any(|member| member.name.is_some());
        let state = self.lock();
        let only = (state.is_lone()
            && !grows
            && !self.is_changing()
            && !self.counts.load(Ordering::Relaxed))
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
        self.altered.notify_waiters();
    }
}

/// A place in the queue.
struct Ticket<'g>(&'g Group);

impl<'g> Ticket<'g> {
    fn take(group: &'g Group, most: usize) -> Option<Ticket<'g>> {
        if group.waiting.fetch_add(1, Ordering::Relaxed) >= most {
            group.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Ticket(group))
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Interval at which a waiter checks whether a server's `fail_timeout` has passed.
const REST_CHECK: Duration = Duration::from_millis(500);
