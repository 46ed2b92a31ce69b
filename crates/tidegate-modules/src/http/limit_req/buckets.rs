//! The buckets of a zone by key, in order of use; bounded by the zone's size.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use tidegate_core::figures::SlabUse;

use super::logic::Bucket;
use crate::http::limits::Stored;

/// A bucket that has been empty for this time may be removed before its room is needed.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Stale buckets checked for each new one: more are removed than added, and no request pays for many.
const STALE_STEPS: usize = 2;
/// The end of the list.
const NONE: u32 = u32::MAX;

/// The buckets of a zone.
pub(super) struct Buckets {
    places: HashMap<Arc<[u8]>, u32, RandomState>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: usize,
}

struct Slot {
    key: Arc<[u8]>,
    bucket: Bucket,
    newer: u32,
    older: u32,
}

/// The zone is too small for this key even when it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no room for another key")
    }
}

impl std::error::Error for NoRoom {}

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets {
            places: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
        }
    }
}

impl Stored for Buckets {
    fn used(&self) -> SlabUse {
        SlabUse { bytes: self.bytes as u64, entries: self.places.len() as u64 }
    }
}

impl Buckets {
    /// Returns the excess that one more request of this key would have, in thousandths of a request.
    pub(super) fn excess(&self, key: &[u8], rate: u64, now: Instant) -> u64 {
        let slot = self.places.get(key).and_then(|place| self.slots.get(*place as usize));
        slot.map_or(0, |slot| slot.bucket.excess(rate, now))
    }

    /// Counts a request of this key; the least recently used buckets are removed to stay within `bytes_max`.
    pub(super) fn fill(
        &mut self,
        key: &[u8],
        rate: u64,
        now: Instant,
        bytes_max: usize,
    ) -> Result<(), NoRoom> {
        if let Some(place) = self.places.get(key).copied() {
            self.slots[place as usize].bucket.fill(rate, now);
            self.unlink(place);
            self.link(place);
            return Ok(());
        }
        if cost(key) > bytes_max {
            return Err(NoRoom);
        }
        for _ in 0..STALE_STEPS {
            let oldest = self.slots.get(self.oldest as usize);
            if !oldest.is_some_and(|slot| slot.bucket.is_stale(rate, now, STALE_AFTER)) {
                break;
            }
            self.remove(self.oldest);
        }
        while self.bytes + cost(key) > bytes_max && self.oldest != NONE {
            self.remove(self.oldest);
        }
        self.insert(key, Bucket::new(now));
        Ok(())
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    fn insert(&mut self, key: &[u8], bucket: Bucket) {
        let key: Arc<[u8]> = key.into();
        self.bytes += cost(&key);
        let slot = Slot { key: key.clone(), bucket, newer: NONE, older: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.places.insert(key, place);
        self.link(place);
    }

    fn remove(&mut self, place: u32) {
        self.unlink(place);
        // The key's memory is freed now, the slot is reused.
        let key = std::mem::replace(&mut self.slots[place as usize].key, Arc::from([]));
        self.bytes -= cost(&key);
        self.places.remove(&key);
        self.free.push(place);
    }

    /// Links a slot as the newest.
    fn link(&mut self, place: u32) {
        let before = std::mem::replace(&mut self.newest, place);
        let slot = &mut self.slots[place as usize];
        (slot.newer, slot.older) = (NONE, before);
        match self.slots.get_mut(before as usize) {
            Some(before) => before.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }
}

/// Returns the memory of a key in bytes, as nginx's manual counts it: 128 for an address, 8000 of which fit into a
/// megabyte.
fn cost(key: &[u8]) -> usize {
    (104 + key.len()).next_power_of_two()
}
