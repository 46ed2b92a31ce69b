//! A map in order of use: a hash table over slots, and the order as a list of slot numbers.
//! [`Sharded`] spreads maps over locks.

use std::hash::BuildHasher;
use std::sync::MutexGuard;

use crate::key::KeyHash;
use crate::sync::Mutex;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// A map of values by key hash, in order of use.
pub(crate) struct LruMap<V> {
    table: HashTable<u32>,
    slots: Vec<Option<Slot<V>>>,
    free: Vec<u32>,
    order: LeastRecent,
}

struct Slot<V> {
    hash: KeyHash,
    spread: u64,
    value: V,
}

impl<V> Default for LruMap<V> {
    fn default() -> Self {
        LruMap {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            order: LeastRecent::default(),
        }
    }
}

impl<V> LruMap<V> {
    pub(crate) fn find(&mut self, place: KeyPosition<'_>) -> Option<&mut V> {
        let slot = self.slot_of(place)?;
        self.value_of(slot)
    }

    /// Finds a value and counts that as a use.
    pub(crate) fn touch(&mut self, place: KeyPosition<'_>) -> Option<&mut V> {
        let slot = self.slot_of(place)?;
        self.order.touched(slot);
        self.value_of(slot)
    }

    /// Inserts a value and returns the one that it replaces.
    pub(crate) fn insert(&mut self, place: KeyPosition<'_>, value: V) -> Option<V> {
        if let Some(present) = self.touch(place) {
            return Some(std::mem::replace(present, value));
        }
        let full = Some(Slot { hash: *place.hash, spread: place.spread, value });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = full;
                slot
            }
            None => {
                self.slots.push(full);
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.table.insert_unique(place.spread, slot, |slot| spread_of(slots, *slot));
        self.order.inserted(slot);
        None
    }

    pub(crate) fn remove(&mut self, place: KeyPosition<'_>) -> Option<V> {
        let slots = &self.slots;
        let entry =
            self.table.find_entry(place.spread, |slot| is_at(slots, *slot, place.hash)).ok()?;
        let (slot, _) = entry.remove();
        self.order.removed(slot);
        self.free.push(slot);
        self.slots[slot as usize].take().map(|slot| slot.value)
    }

    /// Returns the key that is removed next when room is needed.
    pub(crate) fn victim(&mut self) -> Option<(KeyHash, &mut V)> {
        let slot = self.slots.get_mut(self.order.oldest()? as usize)?.as_mut()?;
        Some((slot.hash, &mut slot.value))
    }

    fn slot_of(&self, place: KeyPosition<'_>) -> Option<u32> {
        self.table.find(place.spread, |slot| is_at(&self.slots, *slot, place.hash)).copied()
    }

    fn value_of(&mut self, slot: u32) -> Option<&mut V> {
        Some(&mut self.slots.get_mut(slot as usize)?.as_mut()?.value)
    }
}

/// The position of a key: its hash, and that hash spread by a random seed, so that no client can choose keys
/// that fill one bucket or shard.
#[derive(Clone, Copy)]
pub(crate) struct KeyPosition<'a> {
    pub hash: &'a KeyHash,
    pub spread: u64,
}

/// Several `S`, each behind its own lock, chosen by key.
pub(crate) struct Sharded<S> {
    spreader: RandomState,
    shards: Box<[Mutex<S>]>,
}

impl<S> Sharded<S> {
    pub(crate) fn new(shards: usize) -> Sharded<S>
    where
        S: Default,
    {
        Sharded::with(shards, |_| S::default())
    }

    /// Makes shards that share the random seed.
    pub(crate) fn with(shards: usize, make: impl Fn(&RandomState) -> S) -> Sharded<S> {
        let spreader = RandomState::default();
        let shards = (0..shards.max(1)).map(|_| Mutex::new(make(&spreader))).collect();
        Sharded { spreader, shards }
    }

    pub(crate) fn lock<'a>(&self, hash: &'a KeyHash) -> (MutexGuard<'_, S>, KeyPosition<'a>) {
        let place = self.place(hash);
        (self.shards[self.shard_of(place)].lock(), place)
    }

    /// Returns the number of a key's shard.
    pub(crate) fn shard_of(&self, place: KeyPosition<'_>) -> usize {
        // The upper half chooses the shard: the table's buckets use the other bits.
        (place.spread >> 40) as usize % self.shards.len()
    }

    pub(crate) fn place<'a>(&self, hash: &'a KeyHash) -> KeyPosition<'a> {
        KeyPosition { hash, spread: self.spreader.hash_one(hash.0) }
    }

    pub(crate) fn shards(&self) -> &[Mutex<S>] {
        &self.shards
    }
}

/// Least recently used first: a doubly linked list over slot numbers.
pub(crate) struct LeastRecent {
    links: Vec<Links>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy)]
struct Links {
    newer: u32,
    older: u32,
}

const NONE: u32 = u32::MAX;

impl Default for LeastRecent {
    fn default() -> LeastRecent {
        LeastRecent { links: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl LeastRecent {
    pub(crate) fn inserted(&mut self, slot: u32) {
        let at = slot as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, Links { newer: NONE, older: NONE });
        }
        self.links[at] = Links { newer: NONE, older: self.newest };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    pub(crate) fn touched(&mut self, slot: u32) {
        if self.newest != slot {
            self.removed(slot);
            self.inserted(slot);
        }
    }

    pub(crate) fn removed(&mut self, slot: u32) {
        let Links { newer, older } = self.links[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

fn is_at<V>(slots: &[Option<Slot<V>>], slot: u32, hash: &KeyHash) -> bool {
    slots.get(slot as usize).and_then(Option::as_ref).is_some_and(|slot| slot.hash == *hash)
}

fn spread_of<V>(slots: &[Option<Slot<V>>], slot: u32) -> u64 {
    slots.get(slot as usize).and_then(Option::as_ref).map_or(0, |slot| slot.spread)
}
