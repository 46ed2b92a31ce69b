//! The nodes of the index, its account of the disk, and the functions that all its parts use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::entry::Present;
use super::shard::{Node, Shard};
use crate::evict::{Eviction, HEAT_MAX, Queue, Residents, S3Fifo, Ticket};
use crate::fill::Fill;
use crate::key::KeyHash;
use crate::lru::{KeyPosition, Sharded};
use crate::sync::Mutex;

/// Bytes of `keys_zone` for a key. nginx's manual: one megabyte holds about 8000 keys.
const KEY_COST_BYTES: u64 = 128;

/// Bytes that nginx takes of a zone for itself: a zone of 16 kilobytes holds few keys there, too.
const ZONE_COST_BYTES: u64 = 8 * 1024;

/// Counters of removals: few keys share one, so that the removal of one seldom concerns the fills of another.
const REMOVAL_COUNTERS: usize = 4096;

/// Number of locks of the index: enough that a dozen threads seldom contend.
pub(super) const SHARDS: usize = 32;

/// Nodes with running fills that are skipped in one search for the oldest.
pub(super) const FILLING_SKIPPED_MAX: usize = 16;

/// A copy of a node's data.
#[derive(Clone, Default)]
pub(crate) struct NodeView {
    pub uses: u32,
    pub uncacheable_until: u64,
    pub present: Option<Present>,
    pub fill: Option<Arc<Fill>>,
}

/// The index of a store: see [`crate::index`].
pub(crate) struct Index {
    pub(super) nodes: Sharded<Shard>,
    pub(super) queues: Mutex<S3Fifo>,
    pub(super) totals: [AtomicTotal; 3],
    keys_max: AtomicUsize,
    /// The account of the disk in bytes: see [`crate::index`].
    charged: AtomicU64,
    generations: AtomicU64,
    /// The removals on demand, by a part of the key's hash.
    removals: Box<[AtomicU64]>,
    /// Whether a key was removed to make room for another: the manager shall make more room.
    pub(super) crowded: AtomicBool,
}

#[derive(Default)]
pub(super) struct AtomicTotal {
    pub(super) count: AtomicUsize,
    pub(super) bytes: AtomicU64,
}

/// A node that has to be added to the queues, once its shard is unlocked.
#[must_use]
pub(super) struct QueueEntry {
    pub(super) ticket: Ticket,
    pub(super) queue: Queue,
    pub(super) trace: u32,
}

impl Index {
    pub(crate) fn new(keys_bytes: u64) -> Index {
        let number = AtomicUsize::new(0);
        let make = |spreader: &_| Shard::new(number.fetch_add(1, Ordering::Relaxed), spreader);
        let index = Index {
            nodes: Sharded::with(SHARDS, make),
            queues: Mutex::new(S3Fifo::default()),
            totals: Default::default(),
            keys_max: AtomicUsize::new(0),
            charged: AtomicU64::new(0),
            generations: AtomicU64::new(1),
            removals: (0..REMOVAL_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            crowded: AtomicBool::new(false),
        };
        index.limit_keys(keys_bytes);
        index
    }

    pub(crate) fn limit_keys(&self, keys_bytes: u64) {
        let usable = keys_bytes.saturating_sub(ZONE_COST_BYTES);
        let keys = usize::try_from(usable / KEY_COST_BYTES).unwrap_or(usize::MAX);
        self.keys_max.store(keys.clamp(1, u32::MAX as usize), Ordering::Relaxed);
    }

    pub(crate) fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether the manager should remove keys: there are too many, or a new one had to wait for room.
    /// In the second case an eighth is freed.
    pub(crate) fn is_crowded(&self) -> bool {
        let (keys, most) = (self.keys(), self.keys_max());
        if keys > most {
            return true;
        }
        let crowded = self.crowded.load(Ordering::Relaxed) && keys > most - most / 8;
        if !crowded {
            self.crowded.store(false, Ordering::Relaxed);
        }
        crowded
    }

    /// Returns how often this key, or one of the few that share its counter, was removed on demand.
    pub(crate) fn removals(&self, hash: &KeyHash) -> u64 {
        self.removal_counter(hash).load(Ordering::Acquire)
    }

    /// Counts a removal on demand.
    pub(super) fn count_removal(&self, hash: &KeyHash) {
        self.removal_counter(hash).fetch_add(1, Ordering::AcqRel);
    }

    fn removal_counter(&self, hash: &KeyHash) -> &AtomicU64 {
        let [a, b, ..] = hash.0;
        &self.removals[usize::from(u16::from_le_bytes([a, b])) % REMOVAL_COUNTERS]
    }

    pub(crate) fn keys(&self) -> usize {
        self.total(Queue::Bare).count + self.entries()
    }

    pub(crate) fn keys_max(&self) -> usize {
        self.keys_max.load(Ordering::Relaxed)
    }

    pub(crate) fn entries(&self) -> usize {
        self.total(Queue::Small).count + self.total(Queue::Main).count
    }

    /// Returns the bytes of files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.total(Queue::Small).bytes + self.total(Queue::Main).bytes
    }

    /// Returns the bytes of files, of fills, and of files that are to be removed.
    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Acquire)
    }

    /// Charges bytes, unless the account would exceed `max`. Returns whether they are charged.
    pub(crate) fn charge(&self, bytes: u64, max: Option<u64>) -> bool {
        let fits = |charged: u64| {
            let sum = charged.checked_add(bytes)?;
            max.is_none_or(|max| sum <= max).then_some(sum)
        };
        self.charged.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    pub(crate) fn uncharge(&self, bytes: u64) {
        let less = |charged: u64| Some(charged.saturating_sub(bytes));
        let _ = self.charged.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    /// Replaces one charge by another, in one step.
    pub(super) fn recharge(&self, old: u64, new: u64) {
        let change = |charged: u64| Some((charged.saturating_add(new)).saturating_sub(old));
        let _ = self.charged.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    /// Counts a use. `evicted` is called with a file whose key had to make room and its bytes, which stay
    /// charged until it has been removed.
    pub(crate) fn count_use(
        &self,
        hash: &KeyHash,
        now: u64,
        evicted: impl FnMut(KeyHash, u64),
    ) -> NodeView {
        let count = |node: &mut Node| {
            node.uses = node.uses.saturating_add(1);
            node.heat = (node.heat + 1).min(HEAT_MAX);
        };
        let known = self.touched(hash, now, |shard, slot| {
            count(shard.node(slot));
            view_of(shard, slot)
        });
        if let Some(view) = known {
            return view;
        }
        let first = NodeView { uses: 1, ..NodeView::default() };
        if !self.make_room(evicted) {
            return first;
        }
        self.with_node(hash, now, |shard, slot| {
            count(shard.node(slot));
            view_of(shard, slot)
        })
    }

    /// Returns the data of a key without counting a use.
    pub(crate) fn peek(&self, hash: &KeyHash) -> NodeView {
        let (mut shard, place) = self.nodes.lock(hash);
        shard.find(place).map(|slot| view_of(&mut shard, slot)).unwrap_or_default()
    }

    /// Marks a key as used at `now`, without counting; returns whether the key is in the index.
    pub(crate) fn touch(&self, hash: &KeyHash, now: u64) -> bool {
        self.touched(hash, now, |shard, slot| {
            let node = shard.node(slot);
            node.heat = (node.heat + 1).min(HEAT_MAX);
        })
        .is_some()
    }

    /// Notes that a key's responses are not to be shared before a moment, if the key is in the index.
    pub(crate) fn mark_uncacheable(&self, hash: &KeyHash, until: u64) {
        let (mut shard, place) = self.nodes.lock(hash);
        if let Some(slot) = shard.find(place) {
            shard.change_live(slot, |live| live.uncacheable_until = until);
        }
    }

    /// Adds a file found on disk, unless the key has one; returns whether it was added.
    pub(crate) fn add_found(
        &self,
        hash: &KeyHash,
        present: Present,
        now: u64,
        evicted: impl FnMut(KeyHash, u64),
    ) -> bool {
        let known = {
            let (shard, place) = self.nodes.lock(hash);
            shard.find(place).is_some()
        };
        if !known && !self.make_room(evicted) {
            return false;
        }
        let (added, entered) = self.with_node(hash, now, |shard, slot| {
            if shard.node(slot).generation > 0 {
                return (false, None);
            }
            self.charge(present.disk_bytes, None);
            (true, self.set_present(shard, slot, Some(present)))
        });
        self.enter(entered);
        added
    }

    /// Replaces the data of the file of this generation, for whose new size `reserved` bytes were charged.
    pub(crate) fn renew(
        &self,
        hash: &KeyHash,
        generation: u64,
        present: Present,
        reserved: u64,
    ) -> bool {
        let (mut shard, place) = self.nodes.lock(hash);
        let Some(slot) = shard.find(place) else { return false };
        let node = shard.node(slot);
        if node.generation != generation || generation == 0 {
            return false;
        }
        let before = node.disk_bytes();
        let entered = self.set_present(&mut shard, slot, Some(present));
        self.recharge(before.saturating_add(reserved), present.disk_bytes);
        drop(shard);
        self.enter(entered);
        true
    }

    /// Removes the file of this generation from the index, since it no longer exists; uses keep counting.
    pub(crate) fn forget_file(&self, hash: &KeyHash, generation: u64) {
        let (mut shard, place) = self.nodes.lock(hash);
        let Some(slot) = shard.find(place) else { return };
        if shard.node(slot).generation != generation || generation == 0 {
            return;
        }
        self.uncharge(shard.node(slot).disk_bytes());
        let entered = self.set_present(&mut shard, slot, None);
        drop(shard);
        self.enter(entered);
    }

    /// Removes a key, and its running fill, which continues for its readers only. The bytes of its file stay
    /// charged until that has been removed.
    pub(crate) fn remove(&self, hash: &KeyHash) -> Option<NodeView> {
        let (mut shard, place) = self.nodes.lock(hash);
        self.count_removal(hash);
        let slot = shard.find(place)?;
        let view = view_of(&mut shard, slot);
        self.remove_in(&mut shard, place, slot);
        Some(view)
    }

    pub(super) fn touched<T>(
        &self,
        hash: &KeyHash,
        now: u64,
        change: impl FnOnce(&mut Shard, u32) -> T,
    ) -> Option<T> {
        let (mut shard, place) = self.nodes.lock(hash);
        let slot = shard.find(place)?;
        shard.touch(slot, now);
        Some(change(&mut shard, slot))
    }

    /// Changes a node and adds it when it is new.
    pub(super) fn with_node<T>(
        &self,
        hash: &KeyHash,
        now: u64,
        change: impl FnOnce(&mut Shard, u32) -> T,
    ) -> T {
        let (mut shard, place) = self.nodes.lock(hash);
        if let Some(slot) = shard.find(place) {
            shard.touch(slot, now);
            return change(&mut shard, slot);
        }
        let slot = shard.insert(place, now);
        self.totals[Queue::Bare as usize].add(0);
        let ticket = shard.new_ticket(slot);
        let result = change(&mut shard, slot);
        let is_bare = shard.slot_of(ticket).is_some();
        drop(shard);
        if is_bare {
            self.enter(Some(QueueEntry { ticket, queue: Queue::Bare, trace: 0 }));
        }
        result
    }

    pub(super) fn remove_in(&self, shard: &mut Shard, place: KeyPosition<'_>, slot: u32) {
        let node = shard.node(slot);
        self.totals[node.queue as usize].subtract(node.disk_bytes());
        shard.remove(place);
    }

    /// Sets a node's file and moves the node to the queue where it belongs.
    pub(super) fn set_present(
        &self,
        shard: &mut Shard,
        slot: u32,
        present: Option<Present>,
    ) -> Option<QueueEntry> {
        let node = shard.node(slot);
        let before = node.queue;
        self.totals[before as usize].subtract(node.disk_bytes());
        node.set_present(present);
        let queue = match (present, before) {
            (None, _) => Queue::Bare,
            (Some(_), Queue::Bare) => Queue::Small,
            (Some(_), before) => before,
        };
        self.totals[queue as usize].add(node.disk_bytes());
        if queue == before {
            return None;
        }
        node.queue = queue;
        node.heat = 0;
        let trace = trace_of(&node.hash);
        Some(QueueEntry { ticket: shard.new_ticket(slot), queue, trace })
    }

    /// Adds a node to the queues; no shard may be locked.
    pub(super) fn enter(&self, entered: Option<QueueEntry>) {
        if let Some(QueueEntry { ticket, queue, trace }) = entered {
            self.queues.lock().entered(ticket, queue, trace, self);
        }
    }
}

impl AtomicTotal {
    pub(super) fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn view_of(shard: &mut Shard, slot: u32) -> NodeView {
    let live = shard.live(slot);
    let (uncacheable_until, fill) =
        live.map_or((0, None), |live| (live.uncacheable_until, live.fill.clone()));
    let node = shard.node(slot);
    NodeView { uses: node.uses, uncacheable_until, present: node.present(), fill }
}

/// Returns the trace of a key for the ghosts. A collision makes an object popular too early, no more.
pub(super) fn trace_of(hash: &KeyHash) -> u32 {
    let [.., a, b, c, d] = hash.0;
    u32::from_le_bytes([a, b, c, d])
}
