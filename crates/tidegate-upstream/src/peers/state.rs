//! A group's servers by rank, and the order of the ways to choose among them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;

use super::check::{CheckRule, Health};
use super::choice::Choice;
use super::former::{Former, rank_of};
use super::hashes;
use super::member::Member;
use super::options::{BalancingMethod, Outcome, PeerSpec, ServerOptions, Stickiness};
use super::owners::{Owner, rank};
use super::peer::Peer;
use super::slot::{SHARE_UNIT, Slot, route_of};
use super::tier::{Ring, Tier, ring};

/// The data guarded by the group's lock.
#[derive(Debug)]
pub(super) struct State {
    method: BalancingMethod,
    sticky: Stickiness,
    /// Primary servers, then backups.
    tiers: [Tier; 2],
    /// Rank and index by the server's id.
    places: HashMap<u64, (usize, usize), RandomState>,
    /// By route: the indexes of servers of each rank.
    routes: [HashMap<Box<[u8]>, Vec<usize>>; 2],
    /// The group has one server in all.
    lone: bool,
    next_number: u32,
    checks: Vec<CheckRule>,
}

/// A server as status pages show it.
#[derive(Clone, Debug)]
pub struct SlotView {
    /// Its number for commands; never reused.
    pub number: u32,
    /// Number of the server with a name of which it is an address.
    pub parent: Option<u32>,
    /// The server itself, with its statistics.
    pub peer: Arc<Peer>,
    /// Its current parameters.
    pub options: ServerOptions,
    /// Failures keep it from being tried.
    pub resting: bool,
    /// The worst result of its checks.
    pub health: Health,
    /// It has as many requests as `max_conns` allows.
    pub full: bool,
    /// It grows to its weight (`slow_start`).
    pub recovering: bool,
}

impl SlotView {
    /// Returns the name by which requests are bound to it (`sticky`).
    pub fn route(&self) -> Vec<u8> {
        route_of(&self.peer, &self.options)
    }
}

impl State {
    pub(super) fn new(method: BalancingMethod, sticky: Stickiness) -> State {
        State {
            method,
            sticky,
            tiers: Default::default(),
            places: HashMap::default(),
            routes: Default::default(),
            lone: false,
            next_number: 0,
            checks: Vec::new(),
        }
    }

    /// Continues the numbers of another group of the same name.
    pub(super) fn continue_numbers(&mut self, before: &State) {
        self.next_number = before.next_number;
    }

    pub(super) fn next_number(&self) -> u32 {
        self.next_number
    }

    /// Reserves a number that no server has or had.
    pub(super) fn reserve_number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Sets the group's servers. Those that it had keep their state. New servers among existing ones start slowly,
    /// where that is configured (`slow_start`).
    ///
    /// A server is the same one if it is written the same and has the same address; of several that are, each old one
    /// is taken once. Numbers are never reused. Afterwards every slot has a result for each of the group's
    /// checks, and the indexes, routes and trees are rebuilt. Requests in progress keep their leases: those on a
    /// removed server end with it. `rings` is what [`rings`] returns for them.
    pub(super) fn replace(&mut self, specs: Vec<PeerSpec<'_>>, rings: [Ring; 2], now: Instant) {
        let grown = self.tiers.iter().any(|tier| !tier.slots.is_empty());
        let mut before =
            Former::new(self.tiers.each_mut().map(|tier| std::mem::take(&mut tier.slots)), &specs);
        let backups = specs.iter().filter(|spec| spec.options.backup).count();
        let mut ranks = [specs.len() - backups, backups].map(Vec::with_capacity);
        for spec in specs {
            let rank = rank_of(&spec);
            ranks[rank].push(match before.take(&spec) {
                Some(mut known) if known.options == spec.options => {
                    known.parent = spec.parent;
                    known
                }
                known => self.slot(spec, known.as_ref(), grown, now),
            });
        }
        self.settle(ranks, rings, now);
    }

    /// Makes a server that is new, or has other parameters than before.
    fn slot(
        &mut self,
        spec: PeerSpec<'_>,
        known: Option<&Slot>,
        grown: bool,
        now: Instant,
    ) -> Slot {
        let mut slot = match known {
            Some(known) => Slot::new(known.peer.clone(), spec.options, spec.parent, known.number),
            None => {
                let number = self.reserve_number();
                let peer = Arc::new(Peer::new(spec.server, spec.address.clone()));
                Slot::new(peer, spec.options, spec.parent, number)
            }
        };
        match known {
            Some(known) => {
                slot.inherit(known, &self.checks);
                if known.options.down && !slot.options.down {
                    slot.start_slowly(now);
                }
            }
            None if grown => slot.start_slowly(now),
            None => {}
        }
        self.checks.iter().for_each(|check| {
            slot.add_check(&match known {
                // The group is the same: the results remain valid for every check.
                Some(_) => CheckRule { persistent: true, ..check.clone() },
                None => check.clone(),
            })
        });
        slot
    }

    /// Takes over the state of another group of the same name. New servers have the numbers from `next_number` on.
    pub(super) fn inherit(&mut self, before: &State, next_number: u32, now: Instant) {
        // Of several that are written the same, each takes one.
        let mut known: HashMap<_, VecDeque<&Slot>> = HashMap::new();
        for slot in before.slots() {
            let key = (slot.peer.server.clone(), slot.peer.text.clone());
            known.entry(key).or_default().push_back(slot);
        }
        let mut ranks: [Vec<Slot>; 2] = Default::default();
        self.next_number = next_number;
        for (rank, tier) in self.tiers.iter_mut().enumerate() {
            for mut slot in tier.slots.drain(..) {
                let key = (slot.peer.server.clone(), slot.peer.text.clone());
                match known.get_mut(&key).and_then(VecDeque::pop_front) {
                    Some(known) => slot.inherit(known, &before.checks),
                    None => {
                        slot.number = self.next_number;
                        self.next_number += 1;
                    }
                }
                ranks[rank].push(slot);
            }
        }
        // The servers are the same, in the same order.
        let rings = self.tiers.each_mut().map(Tier::take_ring);
        self.settle(ranks, rings, now);
    }

    fn settle(&mut self, ranks: [Vec<Slot>; 2], rings: [Ring; 2], now: Instant) {
        self.places.clear();
        self.routes = Default::default();
        let [first, backup] = rings;
        let [slots, backups] = ranks;
        self.tiers = [Tier::new(slots, first), Tier::new(backups, backup)];
        for (rank, tier) in self.tiers.iter().enumerate() {
            for (at, slot) in tier.slots.iter().enumerate() {
                self.places.insert(slot.peer.id, (rank, at));
                if self.sticky == Stickiness::Routes {
                    self.routes[rank].entry(slot.route().into()).or_default().push(at);
                }
            }
        }
        self.lone = self.tiers.iter().map(|tier| tier.slots.len()).sum::<usize>() == 1;
        self.refresh_all(now);
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.tiers.iter().flat_map(|tier| &tier.slots)
    }

    /// Returns the numbers of the addresses of `members`, of which this state was made: each behind the indexes of the
    /// server and of its place, in their order.
    pub(super) fn numbers(&self, members: &[Member]) -> Vec<((usize, usize), u32)> {
        let mut ranks = self.tiers.each_ref().map(|tier| tier.slots.iter());
        let places = members.iter().enumerate().flat_map(|(at, member)| {
            member.specs().enumerate().map(move |(place, spec)| ((at, place), rank_of(&spec)))
        });
        places.filter_map(|(place, rank)| Some((place, ranks[rank].next()?.number))).collect()
    }

    pub(super) fn view(&self, now: Instant) -> Vec<SlotView> {
        let view = |slot: &Slot| SlotView {
            number: slot.number,
            parent: slot.parent,
            peer: slot.peer.clone(),
            options: slot.options.clone(),
            resting: slot.is_resting(self.lone, now),
            health: slot.health(),
            full: slot.is_full(),
            recovering: slot.grown(now) < SHARE_UNIT,
        };
        self.slots().map(view).collect()
    }

    /// Returns the servers in the order in which they own a key. Backups are servers as any other.
    pub(super) fn owners(&self, key: &[u8; 16], now: Instant) -> Vec<Owner> {
        let ranked = |slot: &Slot| {
            let is_ready = slot.is_ready(self.lone, now);
            let owner = Owner { peer: slot.peer.clone(), is_ready };
            (rank(slot.peer.text.as_bytes(), slot.options.weight, key), owner)
        };
        let mut ranked: Vec<(f64, Owner)> = self.slots().map(ranked).collect();
        ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        ranked.into_iter().map(|(_, owner)| owner).collect()
    }

    /// Returns whether the tree of a large group needs every change in requests in progress.
    pub(super) fn is_large(&self) -> bool {
        self.tiers.iter().any(Tier::is_large)
    }

    pub(super) fn is_lone(&self) -> bool {
        self.lone
    }

    /// Chooses a server that was not tried yet; `None` when none is available.
    pub(super) fn choose(&mut self, choice: &mut Choice, now: Instant) -> Option<Arc<Peer>> {
        let (rank, at) = self.find(choice, now)?;
        choice.in_backup = rank == 1;
        let slot = self.tiers[rank].slots.get_mut(at)?;
        slot.used(now);
        let peer = slot.peer.clone();
        choice.exclude(&peer);
        Some(peer)
    }

    /// Returns the server of a rank that a request is bound to, if it can be used.
    fn bound(&self, rank: usize, choice: &Choice, now: Instant) -> Option<(usize, usize)> {
        let places = self.routes[rank].get(choice.bound.as_deref()?)?;
        let usable = |at: &&usize| {
            let slot = self.tiers[rank].slots.get(**at);
            slot.is_some_and(|slot| slot.is_usable(self.lone, now) && !choice.has_tried(&slot.peer))
        };
        places.iter().find(usable).map(|at| (rank, *at))
    }

    /// Finds a server. Those that a request is bound to come before all others of their rank.
    fn find(&mut self, choice: &mut Choice, now: Instant) -> Option<(usize, usize)> {
        let (method, lone) = (self.method, self.lone);
        if let Some(only) = choice.only {
            let (rank, at) = *self.places.get(&only)?;
            let slot = self.tiers[rank].slots.get(at)?;
            let is_free = slot.is_ready(lone, now) && !choice.has_tried(&slot.peer);
            return is_free.then_some((rank, at));
        }
        if let Some(bound) = self.bound(0, choice, now) {
            return Some(bound);
        }
        let mut excluded = [self.excluded(choice, 0), self.excluded(choice, 1)];
        let primary = &mut self.tiers[0];
        let by_method = match method {
            BalancingMethod::IpHash => primary.by_hash(choice, lone, now, hashes::ip_hash),
            BalancingMethod::Hash => primary.by_hash(choice, lone, now, hashes::key_hash),
            BalancingMethod::HashConsistent => primary.by_ring(choice, lone, now),
            BalancingMethod::Random => {
                primary.at_random(method, 1, choice, &excluded[0], lone, now)
            }
            BalancingMethod::RandomTwo | BalancingMethod::RandomTwoTime(_) => {
                primary.at_random(method, 2, choice, &excluded[0], lone, now)
            }
            _ => None,
        };
        if let Some(at) = by_method {
            return Some((0, at));
        }
        for rank in usize::from(choice.in_backup)..2 {
            let excluded = std::mem::take(&mut excluded[rank]);
            if rank == 1
                && let Some(bound) = self.bound(1, choice, now)
            {
                return Some(bound);
            }
            let found = self.tiers[rank].in_rotation(method, choice, &excluded, lone, now);
            if let Some(at) = found {
                return Some((rank, at));
            }
        }
        None
    }

    /// Returns the indexes in a large rank that were tried already.
    fn excluded(&self, choice: &Choice, rank: usize) -> Vec<usize> {
        if !self.tiers[rank].is_large() {
            return Vec::new();
        }
        let place = |id: u64| self.places.get(&id).filter(|place| place.0 == rank);
        choice.tried().filter_map(place).map(|place| place.1).collect()
    }

    /// Applies an attempt's outcome.
    pub(super) fn report(&mut self, peer: &Peer, outcome: Outcome, now: Instant) {
        let Some((rank, at)) = self.places.get(&peer.id).copied() else { return };
        let Some(slot) = self.tiers[rank].slots.get_mut(at) else { return };
        let unavailable = slot.report(outcome, now) && !self.lone;
        if unavailable {
            peer.became_unavailable(now);
        } else if outcome == Outcome::Success && !peer.is_troubled() {
            peer.became_available(now);
        }
        self.tiers[rank].refresh(at, self.method, now);
    }

    /// Updates the tree: a server's requests in progress, or its health, have changed.
    pub(super) fn refresh(&mut self, peer: &Peer, now: Instant) {
        if let Some((rank, at)) = self.places.get(&peer.id).copied() {
            self.tiers[rank].refresh(at, self.method, now);
        }
    }

    /// Adds a check that servers have to pass; returns its number.
    pub(super) fn add_check(&mut self, check: CheckRule, now: Instant) -> usize {
        let slots = self.tiers.iter_mut().flat_map(|tier| &mut tier.slots);
        slots.for_each(|slot| slot.add_check(&check));
        self.checks.push(check);
        self.refresh_all(now);
        self.checks.len() - 1
    }

    /// Returns the result of a check for a server.
    pub(super) fn check_result(&self, peer: &Peer, check: usize) -> Health {
        let slot =
            self.places.get(&peer.id).and_then(|(rank, at)| self.tiers[*rank].slots.get(*at));
        slot.map_or_else(Health::default, |slot| slot.check_result(check))
    }

    /// Sets the result of a check for a server.
    pub(super) fn judge(&mut self, peer: &Peer, check: usize, health: Health, now: Instant) {
        let Some((rank, at)) = self.places.get(&peer.id).copied() else { return };
        let slot = &mut self.tiers[rank].slots[at];
        let before = slot.health();
        slot.judge(check, health, now);
        match (before, slot.health()) {
            (Health::Unhealthy, Health::Unhealthy) => {}
            (_, Health::Unhealthy) => {
                peer.statistics.unhealthy.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                peer.note_down(now);
            }
            (_, Health::Fine) if !slot.is_resting(self.lone, now) => peer.became_available(now),
            _ => {}
        }
        self.tiers[rank].refresh(at, self.method, now);
    }

    fn refresh_all(&mut self, now: Instant) {
        let method = self.method;
        self.tiers.iter_mut().for_each(|tier| tier.refresh_all(method, now));
    }

    /// Returns the route by which requests are bound to a server.
    pub(super) fn route(&self, peer: &Peer) -> Option<Vec<u8>> {
        let (rank, at) = self.places.get(&peer.id)?;
        Some(self.tiers[*rank].slots.get(*at)?.route())
    }
}

/// Returns the rings of servers, of the primary ones and of the backups, in their order.
pub(super) fn rings(specs: &[PeerSpec<'_>], method: BalancingMethod) -> [Ring; 2] {
    [false, true].map(|backup| {
        let of_rank = specs.iter().filter(|spec| spec.options.backup == backup);
        ring(of_rank.map(|spec| (spec.server, spec.options.weight)), method)
    })
}
