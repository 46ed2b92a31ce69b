//! One shard of the index: a table of nodes, their order of use, and the additional data that few of them
//! have.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};
use std::hash::BuildHasher;

use crate::evict::{Queue, Resident, Ticket};
use crate::fill::Fill;
use crate::key::KeyHash;
use crate::lru::{KeyPosition, LeastRecent};

use super::entry::{BLOCK_BYTES, Present};

/// Bits of a slot's version that a ticket carries.
const VERSION_MASK: u32 = 0xFF_FFFF;

/// The data of one key. It takes one cache line with its links; a million keys take 64 MB and the table.
pub(super) struct Node {
    pub hash: KeyHash,
    pub last_access: u64,
    pub body_bytes: u64,
    /// 0: no file.
    pub generation: u64,
    pub uses: u32,
    /// Room on disk, in blocks.
    pub blocks: u32,
    /// The number of changes of key and queue of this slot: an old ticket has another version.
    version: u32,
    pub heat: u8,
    pub queue: Queue,
    /// Whether the key has an entry in [`Shard::live`].
    is_live: bool,
    /// Whether it was restored from a snapshot and its file was not found on disk yet.
    pub is_unseen: bool,
}

/// The data that only few keys have.
#[derive(Default)]
pub(super) struct Live {
    pub uncacheable_until: u64,
    pub fill: Option<Arc<Fill>>,
}

pub(super) struct Shard {
    number: u64,
    spreader: RandomState,
    table: HashTable<u32>,
    slots: Vec<Node>,
    free: Vec<u32>,
    order: LeastRecent,
    live: HashMap<KeyHash, Live, RandomState>,
    /// The running fills in `live`, which may have very many other keys.
    fills: HashMap<KeyHash, Arc<Fill>, RandomState>,
}

impl Node {
    fn new(hash: KeyHash, now: u64) -> Node {
        Node {
            hash,
            last_access: now,
            body_bytes: 0,
            generation: 0,
            uses: 0,
            blocks: 0,
            version: 0,
            heat: 0,
            queue: Queue::Bare,
            is_live: false,
            is_unseen: false,
        }
    }

    pub(super) fn present(&self) -> Option<Present> {
        (self.generation > 0).then(|| Present {
            body_bytes: self.body_bytes,
            disk_bytes: u64::from(self.blocks) * BLOCK_BYTES,
            generation: self.generation,
        })
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK_BYTES
    }

    pub(super) fn set_present(&mut self, present: Option<Present>) {
        let none = Present { body_bytes: 0, disk_bytes: 0, generation: 0 };
        let Present { body_bytes, disk_bytes, generation } = present.unwrap_or(none);
        self.body_bytes = body_bytes;
        self.blocks = u32::try_from(disk_bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX);
        self.generation = generation;
        self.is_unseen = false;
    }
}

impl Shard {
    pub(super) fn new(number: usize, spreader: &RandomState) -> Shard {
        Shard {
            number: number as u64,
            spreader: spreader.clone(),
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            order: LeastRecent::default(),
            live: HashMap::with_hasher(spreader.clone()),
            fills: HashMap::with_hasher(spreader.clone()),
        }
    }

    pub(super) fn find(&self, place: KeyPosition<'_>) -> Option<u32> {
        let is_it = |slot: &u32| self.slots[*slot as usize].hash == *place.hash;
        self.table.find(place.spread, is_it).copied()
    }

    pub(super) fn node(&mut self, slot: u32) -> &mut Node {
        &mut self.slots[slot as usize]
    }

    /// Marks a node as used most recently.
    pub(super) fn touch(&mut self, slot: u32, now: u64) {
        self.order.touched(slot);
        self.slots[slot as usize].last_access = now;
    }

    /// Adds a key that is not in the shard.
    pub(super) fn insert(&mut self, place: KeyPosition<'_>, now: u64) -> u32 {
        let node = Node::new(*place.hash, now);
        let slot = match self.free.pop() {
            Some(slot) => {
                let known = &mut self.slots[slot as usize];
                let version = known.version;
                *known = Node { version, ..node };
                slot
            }
            None => {
                self.slots.push(node);
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, spreader) = (&self.slots, &self.spreader);
        let spread = |slot: &u32| spreader.hash_one(slots[*slot as usize].hash.0);
        self.table.insert_unique(place.spread, slot, spread);
        self.order.inserted(slot);
        slot
    }

    pub(super) fn remove(&mut self, place: KeyPosition<'_>) {
        let slots = &self.slots;
        let is_it = |slot: &u32| slots[*slot as usize].hash == *place.hash;
        let Ok(entry) = self.table.find_entry(place.spread, is_it) else { return };
        let (slot, _) = entry.remove();
        self.order.removed(slot);
        self.live.remove(place.hash);
        self.fills.remove(place.hash);
        self.new_ticket(slot);
        self.slots[slot as usize].set_present(None);
        self.free.push(slot);
    }

    /// Returns a new ticket for the key; the old one becomes void.
    pub(super) fn new_ticket(&mut self, slot: u32) -> Ticket {
        let node = &mut self.slots[slot as usize];
        node.version = node.version.wrapping_add(1) & VERSION_MASK;
        let version = u64::from(node.version);
        Ticket(self.number << 56 | version << 32 | u64::from(slot))
    }

    /// Returns the slot of a ticket, if the ticket is still valid.
    pub(super) fn slot_of(&self, ticket: Ticket) -> Option<u32> {
        let slot = ticket.0 as u32;
        let version = (ticket.0 >> 32) as u32 & VERSION_MASK;
        (self.slots.get(slot as usize)?.version == version).then_some(slot)
    }

    /// Returns the node with a file in a ticket's slot now, whether the ticket is valid or not.
    pub(super) fn node_near(&self, ticket: Ticket) -> Option<&Node> {
        self.slots.get(ticket.0 as u32 as usize).filter(|node| node.generation > 0)
    }

    pub(super) fn resident(&self, slot: u32) -> Resident {
        let node = &self.slots[slot as usize];
        Resident { heat: node.heat, bytes: node.disk_bytes(), busy: self.is_filling(slot) }
    }

    pub(super) fn live(&self, slot: u32) -> Option<&Live> {
        let node = &self.slots[slot as usize];
        if node.is_live { self.live.get(&node.hash) } else { None }
    }

    /// Changes the data that only few keys have.
    pub(super) fn change_live<T>(&mut self, slot: u32, change: impl FnOnce(&mut Live) -> T) -> T {
        let node = &mut self.slots[slot as usize];
        let live = self.live.entry(node.hash).or_default();
        let result = change(live);
        match &live.fill {
            Some(fill) => self.fills.insert(node.hash, fill.clone()),
            None => self.fills.remove(&node.hash),
        };
        node.is_live = live.fill.is_some() || live.uncacheable_until > 0;
        if !node.is_live {
            self.live.remove(&node.hash);
        }
        result
    }

    pub(super) fn is_filling(&self, slot: u32) -> bool {
        self.live(slot).is_some_and(|live| live.fill.is_some())
    }

    /// Returns the running fills.
    pub(super) fn fills(&self) -> impl Iterator<Item = &Arc<Fill>> {
        self.fills.values()
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        self.order.oldest()
    }

    /// Orders all nodes by their last access, after many were added in another order.
    pub(super) fn sort_by_access(&mut self) {
        let mut slots: Vec<u32> = self.table.iter().copied().collect();
        slots.sort_by_key(|slot| self.slots[*slot as usize].last_access);
        self.order = LeastRecent::default();
        slots.into_iter().for_each(|slot| self.order.inserted(slot));
    }

    /// Returns the keys that have files.
    pub(super) fn files(&self) -> Vec<KeyHash> {
        let nodes = self.table.iter().map(|slot| &self.slots[*slot as usize]);
        nodes.filter(|node| node.generation > 0).map(|node| node.hash).collect()
    }

    /// Returns the keys whose files are in the snapshot and were not found on disk yet.
    pub(super) fn unseen(&self) -> Vec<KeyHash> {
        let nodes = self.table.iter().map(|slot| &self.slots[*slot as usize]);
        nodes.filter(|node| node.is_unseen).map(|node| node.hash).collect()
    }

    /// Returns the keys that have files.
    pub(super) fn with_files(&self) -> Vec<KeyHash> {
        let nodes = self.table.iter().map(|slot| &self.slots[*slot as usize]);
        nodes.filter(|node| node.generation > 0).map(|node| node.hash).collect()
    }
}

/// Returns the shard number of a ticket.
pub(super) fn shard_of(ticket: Ticket) -> usize {
    (ticket.0 >> 56) as usize
}

/// The memory of one entry in bytes: the node, its links, and its ticket in a queue. The table adds 5 to 10
/// bytes.
#[cfg(test)]
pub(crate) const ENTRY_BYTES: usize = size_of::<Node>() + 8 + 8;
