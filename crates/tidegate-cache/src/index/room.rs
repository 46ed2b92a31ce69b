//! Removal from the index: of the oldest node, or of the one chosen for want of room.

use std::sync::atomic::Ordering;

use super::shard::{self, Node};
use super::table::{FILLING_SKIPPED_MAX, Index, SHARDS, trace_of};
use crate::evict::{Eviction, Need, Queue, Resident, Residents, Ticket, Total};
use crate::key::KeyHash;

/// The node chosen for removal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub hash: KeyHash,
    pub last_access: u64,
    pub generation: Option<u64>,
    /// Its ticket and queue, out of which it was taken.
    chosen: Option<(Ticket, Queue)>,
}

impl Index {
    /// Removes a victim, unless it was used since it was found. Returns the bytes of its file, which stay
    /// charged until that has been removed.
    pub(crate) fn evict(&self, victim: &Victim) -> Option<u64> {
        let bytes = self.evict_node(victim);
        let trace = trace_of(&victim.hash);
        match (bytes, victim.chosen) {
            (Some(_), Some((_, queue))) => self.queues.lock().evicted(queue, trace, self),
            (None, Some((ticket, queue))) => self.queues.lock().put_back(ticket, queue),
            (_, None) => {}
        }
        bytes
    }

    fn evict_node(&self, victim: &Victim) -> Option<u64> {
        let (mut shard, place) = self.nodes.lock(&victim.hash);
        let slot = shard.find(place)?;
        let node = shard.node(slot);
        let unchanged = node.last_access == victim.last_access
            && node.present().map(|present| present.generation) == victim.generation;
        let bytes = node.disk_bytes();
        if !unchanged || shard.is_filling(slot) {
            return None;
        }
        self.remove_in(&mut shard, place, slot);
        Some(bytes)
    }

    /// Returns the node without a fill that was not used for the longest time.
    pub(crate) fn oldest(&self) -> Option<Victim> {
        (0..SHARDS)
            .filter_map(|shard| self.oldest_in(shard))
            .min_by_key(|victim| victim.last_access)
    }

    /// Returns the node to remove next for want of room. It must be given to [`Index::evict`].
    pub(crate) fn chosen(&self, need: Need) -> Option<Victim> {
        loop {
            let chosen = self.queues.lock().victim(need, self)?;
            let mut shard = self.nodes.shards()[shard::shard_of(chosen.0)].lock();
            let Some(slot) = shard.slot_of(chosen.0) else { continue };
            return Some(victim_of(shard.node(slot), Some(chosen)));
        }
    }

    /// Makes sure that one more key fits; returns false when every key is being filled.
    pub(super) fn make_room(&self, mut evicted: impl FnMut(KeyHash, u64)) -> bool {
        // Two rounds: a victim may be used between the moment it is found and its removal.
        for _ in 0..2 {
            if self.keys() < self.keys_max() {
                return true;
            }
            let Some(victim) = self.chosen(Need::Key) else { return false };
            self.crowded.store(true, Ordering::Relaxed);
            if let Some(bytes) = self.evict(&victim)
                && victim.generation.is_some()
            {
                evicted(victim.hash, bytes);
            }
        }
        self.keys() < self.keys_max()
    }

    fn oldest_in(&self, shard: usize) -> Option<Victim> {
        let mut shard = self.nodes.shards()[shard].lock();
        for _ in 0..FILLING_SKIPPED_MAX {
            let slot = shard.oldest()?;
            let last_access = shard.node(slot).last_access;
            if !shard.is_filling(slot) {
                return Some(victim_of(shard.node(slot), None));
            }
            shard.touch(slot, last_access);
        }
        None
    }
    /// Clears the queues of void tickets, one queue at a time.
    pub(crate) fn sweep_queues(&self) {
        let taken = self.queues.lock().take_for_sweep(self);
        let Some((queue, mut tickets)) = taken else { return };
        tickets.retain(|ticket| self.look(*ticket).is_some());
        self.queues.lock().put_back_swept(queue, tickets);
    }
}

impl Residents for Index {
    fn look(&self, ticket: Ticket) -> Option<Resident> {
        let shard = self.nodes.shards()[shard::shard_of(ticket)].lock();
        shard.slot_of(ticket).map(|slot| shard.resident(slot))
    }

    fn cool(&self, ticket: Ticket) {
        let mut shard = self.nodes.shards()[shard::shard_of(ticket)].lock();
        if let Some(slot) = shard.slot_of(ticket) {
            let node = shard.node(slot);
            node.heat = node.heat.saturating_sub(1);
        }
    }

    fn promote(&self, ticket: Ticket) -> Option<Ticket> {
        let mut shard = self.nodes.shards()[shard::shard_of(ticket)].lock();
        let slot = shard.slot_of(ticket)?;
        let node = shard.node(slot);
        let bytes = node.disk_bytes();
        self.totals[node.queue as usize].subtract(bytes);
        (node.queue, node.heat) = (Queue::Main, 0);
        self.totals[Queue::Main as usize].add(bytes);
        Some(shard.new_ticket(slot))
    }

    fn total(&self, queue: Queue) -> Total {
        let total = &self.totals[queue as usize];
        Total {
            count: total.count.load(Ordering::Relaxed),
            bytes: total.bytes.load(Ordering::Relaxed),
        }
    }
}

fn victim_of(node: &Node, chosen: Option<(Ticket, Queue)>) -> Victim {
    let generation = node.present().map(|present| present.generation);
    Victim { hash: node.hash, last_access: node.last_access, generation, chosen }
}
