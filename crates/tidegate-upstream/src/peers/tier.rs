//! The servers of one rank (primary ones, or backups) and the ways to choose one of them: pure
//! functions over their state, with the time as an argument.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::choice::Choice;
use super::hashes::{self, KeyHash};
use super::options::BalancingMethod;
use super::slot::{SHARE_UNIT, Slot};
use super::tree::Tree;

/// Up to this number of servers each is checked, in the order in which nginx would.
pub(super) const LINEAR_MAX: usize = 64;
/// Attempts to hash a key that meets unavailable servers; then round robin decides (directive `ip_hash`: "the next
/// server").
const REHASH_MAX: u32 = 20;
/// Interval at which servers of a large group are updated that change by themselves: average times of slow ones fade,
/// and requests of an earlier configuration end.
const FADING: Duration = Duration::from_secs(1);
/// Draws of a large group that meet a server that starts slowly.
const REDRAW_MAX: u32 = 8;

/// Points of the ring for `hash … consistent`: hash and the server's index. Empty for other methods.
pub(super) type Ring = Box<[(u32, u32)]>;

/// Makes the ring of servers, given by name and weight in their order. It takes long for many: not to be done while
/// requests wait.
pub(super) fn ring<'a>(
    servers: impl Iterator<Item = (&'a str, u32)>,
    method: BalancingMethod,
) -> Ring {
    match method {
        BalancingMethod::HashConsistent => {
            let servers = servers.enumerate();
            hashes::ring(servers.map(|(at, (server, weight))| (at, server, weight)))
        }
        _ => Ring::default(),
    }
}

/// The servers of one rank.
#[derive(Debug, Default)]
pub(super) struct Tier {
    pub slots: Vec<Slot>,
    /// Sums of the weights up to each server, for the hash of a key.
    sums: Vec<u64>,
    ring: Ring,
    /// Several addresses have one name, and with it one set of points.
    shares_points: bool,
    large: Option<Large>,
}

#[derive(Debug)]
struct Large {
    tree: Tree,
    /// When servers are to be updated: their `fail_timeout` or [`FADING`] has passed.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
    /// When each server is updated next.
    due: Vec<Option<Instant>>,
}

impl Tier {
    /// Makes a rank of servers with their ring.
    pub(super) fn new(slots: Vec<Slot>, ring: Ring) -> Tier {
        let mut sum = 0;
        let sums = slots.iter().map(|slot| {
            sum += u64::from(slot.options.weight);
            sum
        });
        let sums = sums.collect();
        let same = |pair: &[Slot]| pair[0].peer.server == pair[1].peer.server;
        let shares_points = !ring.is_empty() && slots.windows(2).any(same);
        let large = (slots.len() > LINEAR_MAX).then(|| Large {
            tree: Tree::new(slots.len()),
            later: BinaryHeap::new(),
            due: vec![None; slots.len()],
        });
        Tier { slots, sums, ring, shares_points, large }
    }

    /// Takes the ring, for a rank of the same servers.
    pub(super) fn take_ring(&mut self) -> Ring {
        std::mem::take(&mut self.ring)
    }

    /// Returns whether leaves need every change.
    pub(super) fn is_large(&self) -> bool {
        self.large.is_some()
    }

    /// Updates every server in the tree.
    pub(super) fn refresh_all(&mut self, method: BalancingMethod, now: Instant) {
        if self.is_large() {
            (0..self.slots.len()).for_each(|at| self.refresh(at, method, now));
        }
    }

    /// Updates a server in the tree.
    pub(super) fn refresh(&mut self, at: usize, method: BalancingMethod, now: Instant) {
        let (Some(large), Some(slot)) = (&mut self.large, self.slots.get(at)) else { return };
        let ready = slot.is_ready(false, now);
        let value = ready.then(|| (slot.load_scaled(method, now), slot.options.weight));
        large.tree.set(at, value);
        // Requests of an earlier configuration may be among them, whose ends this group does not see.
        let is_busy = slot.peer.active() > 0 && (method.counts() || slot.options.max_conns > 0);
        let fades = method
            .time()
            .is_some_and(|kind| slot.peer.is_slow(kind, slot.options.fail_timeout, now));
        let again = match slot.is_resting(false, now) {
            true => slot.checked_at.and_then(|at| at.checked_add(slot.options.fail_timeout)),
            false => (fades || is_busy).then_some(now + FADING),
        };
        if let (Some(again), Some(due)) = (again, large.due.get_mut(at))
            && due.is_none_or(|due| due <= now)
        {
            let again = again + Duration::from_nanos(1);
            *due = Some(again);
            large.later.push(Reverse((again, at)));
        }
    }

    /// Updates servers that are due.
    fn awaken(&mut self, method: BalancingMethod, now: Instant) {
        while let Some(large) = &mut self.large
            && let Some(Reverse((at, index))) = large.later.peek().copied()
            && at <= now
        {
            large.later.pop();
            self.refresh(index, method, now);
        }
    }

    /// Chooses by round robin, or the least loaded one in rotation.
    pub(super) fn in_rotation(
        &mut self,
        method: BalancingMethod,
        choice: &Choice,
        excluded: &[usize],
        lone: bool,
        now: Instant,
    ) -> Option<usize> {
        if self.is_large() {
            return self.of_tree(method, excluded, now, Tree::next);
        }
        let lowest = match method.counts() {
            false => None,
            true => Some(self.lowest(method, choice, lone, now)?),
        };
        self.smooth(now, |slot| {
            slot.is_ready(lone, now)
                && !choice.has_tried(&slot.peer)
                && lowest.is_none_or(|lowest| !less(lowest, slot.load(method, now)))
        })
    }

    fn lowest(
        &self,
        method: BalancingMethod,
        choice: &Choice,
        lone: bool,
        now: Instant,
    ) -> Option<(u64, u64)> {
        let mut lowest: Option<(u64, u64)> = None;
        for slot in &self.slots {
            if slot.is_ready(lone, now) && !choice.has_tried(&slot.peer) {
                let load = slot.load(method, now);
                if lowest.is_none_or(|lowest| less(load, lowest)) {
                    lowest = Some(load);
                }
            }
        }
        lowest
    }

    /// Chooses by smooth weighted round robin among the servers for which `eligible` holds: every server's current
    /// weight grows by its weight, the largest is taken and reduced by the sum.
    fn smooth(&mut self, now: Instant, eligible: impl Fn(&Slot) -> bool) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<(usize, i64)> = None;
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if !eligible(slot) {
                continue;
            }
            let step = slot.effective * slot.grown(now);
            slot.current += step;
            total += step;
            if slot.effective < i64::from(slot.options.weight) {
                slot.effective += 1;
            }
            if best.is_none_or(|(_, most)| slot.current > most) {
                best = Some((at, slot.current));
            }
        }
        let (best, _) = best?;
        self.slots[best].current -= total;
        Some(best)
    }

    /// Draws from the tree without the excluded ones.
    fn of_tree(
        &mut self,
        method: BalancingMethod,
        excluded: &[usize],
        now: Instant,
        draw: impl Fn(&mut Tree) -> Option<usize>,
    ) -> Option<usize> {
        self.awaken(method, now);
        let large = self.large.as_mut()?;
        excluded.iter().for_each(|at| large.tree.set(*at, None));
        let mut found = draw(&mut large.tree);
        for _ in 0..REDRAW_MAX {
            let grown =
                found.and_then(|at| self.slots.get(at)).map_or(SHARE_UNIT, |slot| slot.grown(now));
            if grown >= SHARE_UNIT || (tidegate_rt::random::below(SHARE_UNIT as u64) as i64) < grown
            {
                break;
            }
            found = draw(&mut large.tree);
        }
        excluded.iter().for_each(|at| self.refresh(*at, method, now));
        found
    }

    /// Returns the server that a key belongs to, or a substitute.
    pub(super) fn by_hash(
        &self,
        choice: &mut Choice,
        lone: bool,
        now: Instant,
        hash: KeyHash,
    ) -> Option<usize> {
        let total = self.sums.last().copied().filter(|total| *total > 0)?;
        if choice.key.is_empty() {
            return None;
        }
        let mut running = 0;
        for attempt in 0..REHASH_MAX {
            let place = u64::from(hash(&choice.key, &mut running, attempt)) % total;
            let found = self.sums.partition_point(|sum| *sum <= place);
            let slot = self.slots.get(found)?;
            let free = slot.is_ready(lone, now) && !choice.has_tried(&slot.peer);
            if attempt >= choice.rehash && free {
                choice.rehash = attempt;
                return Some(found);
            }
        }
        None
    }

    /// Returns the next server on the ring behind a key.
    pub(super) fn by_ring(&mut self, choice: &Choice, lone: bool, now: Instant) -> Option<usize> {
        if choice.key.is_empty() || self.ring.is_empty() {
            return None;
        }
        let count = self.ring.len();
        let start = self.ring.partition_point(|(point, _)| *point < hashes::crc32(&choice.key));
        for step in 0..count.min(REHASH_MAX as usize * 16) {
            let (_, at) = self.ring[(start + step) % count];
            let at = at as usize;
            let found = match self.shares_points {
                false => self
                    .slots
                    .get(at)
                    .is_some_and(|slot| slot.is_ready(lone, now) && !choice.has_tried(&slot.peer))
                    .then_some(at),
                true => self.of_name(at, choice, lone, now),
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Chooses in rotation among the addresses of one server.
    fn of_name(&mut self, at: usize, choice: &Choice, lone: bool, now: Instant) -> Option<usize> {
        let name = self.slots.get(at)?.peer.server.clone();
        self.smooth(now, |slot| {
            slot.peer.server == name && slot.is_ready(lone, now) && !choice.has_tried(&slot.peer)
        })
    }

    /// Chooses one at random by weight; of two different ones (`draws`) the less loaded.
    pub(super) fn at_random(
        &mut self,
        method: BalancingMethod,
        draws: u32,
        choice: &Choice,
        excluded: &[usize],
        lone: bool,
        now: Instant,
    ) -> Option<usize> {
        let mut excluded = excluded.to_vec();
        let mut best: Option<usize> = None;
        for _ in 0..draws {
            let Some(drawn) = self.draw(choice, &excluded, lone, now) else { break };
            excluded.push(drawn);
            let load = |at: usize| self.slots[at].load(method, now);
            best = match best {
                Some(best) if !less(load(drawn), load(best)) => Some(best),
                _ => Some(drawn),
            };
        }
        best
    }

    fn draw(
        &mut self,
        choice: &Choice,
        excluded: &[usize],
        lone: bool,
        now: Instant,
    ) -> Option<usize> {
        use tidegate_rt::random::below;
        if self.is_large() {
            return self.of_tree(BalancingMethod::Random, excluded, now, |tree| {
                tree.at(below(tree.weight()))
            });
        }
        let open = |(at, slot): &(usize, &Slot)| {
            slot.is_ready(lone, now) && !choice.has_tried(&slot.peer) && !excluded.contains(at)
        };
        let weight = |slot: &Slot| u64::from(slot.options.weight);
        let all = || self.slots.iter().enumerate().filter(open);
        let total: u64 = all().map(|(_, slot)| weight(slot)).sum();
        let mut left = below(total);
        let drawn = all().find(|(_, slot)| {
            let here = left < weight(slot);
            left = left.saturating_sub(weight(slot));
            here
        });
        drawn.map(|(at, _)| at)
    }
}

/// Compares fractions without division.
fn less(a: (u64, u64), b: (u64, u64)) -> bool {
    u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1)
}
