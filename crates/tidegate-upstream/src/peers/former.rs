//! The servers of a group before a change. Mostly few of many are different: those that remain are found in the order that
//! they had, without a table of all.

use std::hash::{DefaultHasher, Hash, Hasher};

use tidegate_rt::net::Addr;

use super::options::PeerSpec;
use super::slot::Slot;

/// Where a server was: its rank, and its place in it.
type Place = (usize, usize);

/// Servers, each of which is taken once.
pub(super) struct Former {
    ranks: [Vec<Option<Slot>>; 2],
    /// Behind the one that was taken last.
    next: [usize; 2],
    /// How many are still to be taken.
    left: [usize; 2],
    /// How many at the end are the same as before, parameters included, in the same order: each is for the one at its
    /// distance from the end.
    tail: [usize; 2],
    /// Hashes of those before the tail, sorted; made when one is not where it is expected.
    hashes: Option<Vec<(u64, Place)>>,
}

impl Former {
    /// Makes them of the slots of each rank; `specs` are all that will be taken, in their order.
    pub(super) fn new(ranks: [Vec<Slot>; 2], specs: &[PeerSpec<'_>]) -> Former {
        let of_rank = |rank| specs.iter().rev().filter(move |spec| rank_of(spec) == rank);
        let tail = [0, 1].map(|rank| {
            let pairs = ranks[rank].iter().rev().zip(of_rank(rank));
            let is_unchanged = |(slot, spec): &(&Slot, &PeerSpec<'_>)| {
                is_same(slot, spec) && slot.options == spec.options
            };
            pairs.take_while(is_unchanged).count()
        });
        let left = [0, 1].map(|rank| of_rank(rank).count());
        let ranks = ranks.map(|slots| slots.into_iter().map(Some).collect());
        Former { ranks, next: [0; 2], left, tail, hashes: None }
    }

    /// Takes the server that is written the same and has the same address, of the same rank or the other one.
    pub(super) fn take(&mut self, spec: &PeerSpec<'_>) -> Option<Slot> {
        let rank = rank_of(spec);
        let left = self.left[rank];
        self.left[rank] -= 1;
        if left <= self.tail[rank] {
            let slots = &mut self.ranks[rank];
            let at = slots.len() - left;
            return slots[at].take();
        }
        let expected = (rank, self.next[rank]);
        let (rank, at) = match expected.1 < self.before_tail(rank) && self.has(expected, spec) {
            true => expected,
            false => self.find(spec)?,
        };
        self.next[rank] = at + 1;
        self.ranks[rank][at].take()
    }

    /// Returns where the tail of a rank begins.
    fn before_tail(&self, rank: usize) -> usize {
        self.ranks[rank].len() - self.tail[rank]
    }

    fn has(&self, (rank, at): Place, spec: &PeerSpec<'_>) -> bool {
        let slot = self.ranks[rank].get(at).and_then(Option::as_ref);
        slot.is_some_and(|slot| is_same(slot, spec))
    }

    fn find(&mut self, spec: &PeerSpec<'_>) -> Option<Place> {
        let hashes = self.hashes.take().unwrap_or_else(|| self.all_hashes());
        let wanted = hash(spec.server, spec.address);
        let from = hashes.partition_point(|(hash, _)| *hash < wanted);
        let same = hashes[from..].iter().take_while(|(hash, _)| *hash == wanted);
        let found = same.map(|(_, place)| *place).find(|place| self.has(*place, spec));
        self.hashes = Some(hashes);
        found
    }

    fn all_hashes(&self) -> Vec<(u64, Place)> {
        let mut all = Vec::new();
        for (rank, slots) in self.ranks.iter().enumerate() {
            let slots = slots[..self.before_tail(rank)].iter().enumerate();
            all.extend(slots.filter_map(|(at, slot)| {
                let peer = &slot.as_ref()?.peer;
                Some((hash(&peer.server, &peer.address), (rank, at)))
            }));
        }
        all.sort_unstable();
        all
    }
}

/// Returns 0 for a primary server, 1 for a backup.
pub(super) fn rank_of(spec: &PeerSpec<'_>) -> usize {
    usize::from(spec.options.backup)
}

fn is_same(slot: &Slot, spec: &PeerSpec<'_>) -> bool {
    *slot.peer.server == *spec.server && slot.peer.address == *spec.address
}

fn hash(server: &str, address: &Addr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (server, address).hash(&mut hasher);
    hasher.finish()
}
