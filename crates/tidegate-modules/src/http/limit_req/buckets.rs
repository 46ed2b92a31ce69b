//! The buckets of a zone by key, in order of use; bounded by the zone's size.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use tidegate_core::figures::{KeyUse, SlabUse};

use super::logic::{Bucket, REQUEST, Recent, Share, WHOLE};
use super::pending::Pending;
use crate::http::limits::{self, LOOKED_AT_MAX, Stored};

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
    /// What other servers do not know yet, where they share the zone.
    pending: Option<Pending>,
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
            pending: None,
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
        let place = self.place_of(key, rate, now, bytes_max)?;
        self.slots[place as usize].bucket.fill(REQUEST, rate, now);
        if let Some(pending) = &mut self.pending {
            pending.count(place);
        }
        Ok(())
    }

    /// Counts a request of this key while the others are not known of. They have their shares of the requests as well, so that it
    /// stands for as many as there are for this server's one.
    pub(super) fn fill_alone(
        &mut self,
        key: &[u8],
        share: Share,
        (rate, now, bytes_max): (u64, Instant, usize),
    ) -> Result<(), NoRoom> {
        let place = self.place_of(key, rate, now, bytes_max)?;
        self.slots[place as usize].bucket.fill(REQUEST * WHOLE / share.max(1), rate, now);
        if let Some(pending) = &mut self.pending {
            pending.count_alone(place, share);
        }
        Ok(())
    }

    /// Takes over the contents for this key that all servers have together; `counts` are those of the request that was decided
    /// and of all. What was not sent yet is added, and what is older than the contents changes nothing.
    pub(super) fn learn(
        &mut self,
        key: &[u8],
        level: u64,
        counts: (u64, u64),
        (rate, now, bytes_max): (u64, Instant, usize),
    ) -> Result<(), NoRoom> {
        let place = self.place_of(key, rate, now, bytes_max)?;
        let not_sent = match &mut self.pending {
            Some(pending) => pending.learn(place, counts),
            None => Some(0),
        };
        if let Some(not_sent) = not_sent {
            let level = level.saturating_add(not_sent.saturating_mul(REQUEST));
            self.slots[place as usize].bucket = Bucket::with_level(level, now);
        }
        Ok(())
    }

    /// Returns the place of a key, which becomes the one that was used last; a new key gets an empty bucket.
    fn place_of(
        &mut self,
        key: &[u8],
        rate: u64,
        now: Instant,
        bytes_max: usize,
    ) -> Result<u32, NoRoom> {
        if let Some(place) = self.used(key) {
            return Ok(place);
        }
        self.make_room(key, rate, now, bytes_max)?;
        Ok(self.insert(key, Bucket::with_level(0, now)))
    }

    /// Returns the place of a key, which becomes the one that was used last.
    fn used(&mut self, key: &[u8]) -> Option<u32> {
        let place = self.places.get(key).copied()?;
        self.unlink(place);
        self.link(place);
        Some(place)
    }

    /// Removes buckets, so that there is room for one more.
    fn make_room(
        &mut self,
        key: &[u8],
        rate: u64,
        now: Instant,
        bytes_max: usize,
    ) -> Result<(), NoRoom> {
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
        Ok(())
    }

    /// Returns the keys whose buckets are fullest at `now`, the fullest first, with their contents in thousandths of a
    /// request; at most `most`, of those that were used last.
    pub(super) fn fullest(&self, rate: u64, now: Instant, most: usize) -> Vec<KeyUse> {
        let mut all = Vec::new();
        let mut place = self.newest;
        while let (Some(slot), true) = (self.slots.get(place as usize), all.len() < LOOKED_AT_MAX) {
            all.push((slot.bucket.excess(rate, now), &slot.key));
            place = slot.older;
        }
        limits::fullest(all, most)
    }

    /// Notes from now on what other servers are to know; or does no longer, and forgets it.
    pub(super) fn share(&mut self, is_shared: bool) {
        match is_shared {
            true => _ = self.pending.get_or_insert_default(),
            false => self.pending = None,
        }
    }

    /// Notes that the contents for this key are of interest, if there are any.
    pub(super) fn touch(&mut self, key: &[u8]) {
        if let (Some(pending), Some(place)) = (&mut self.pending, self.places.get(key)) {
            pending.touch(*place);
        }
    }

    /// Returns the recent requests of a key.
    pub(super) fn recent(&self, key: &[u8]) -> Recent {
        let place = self.places.get(key);
        let recent = place.and_then(|place| Some(self.pending.as_ref()?.recent(*place)));
        recent.unwrap_or_default()
    }

    /// Returns the number of keys that other servers are to know.
    pub(super) fn pending(&self) -> usize {
        self.pending.as_ref().map_or(0, Pending::len)
    }

    /// Takes the places that have changed, up to `most`.
    pub(super) fn take_changed(&mut self, most: usize) -> Vec<u32> {
        self.pending.as_mut().map_or(Vec::new(), |pending| pending.take(most))
    }

    /// Takes the requests at a place to send them; `None` for a place without a key.
    pub(super) fn send(&mut self, place: u32, rate: u64, now: Instant) -> Option<(Arc<[u8]>, u64)> {
        let slot = self.slots.get(place as usize);
        let level = || slot.map_or(0, |slot| slot.bucket.excess(rate, now));
        let requests = self.pending.as_mut()?.send(place, level);
        let key = &slot?.key;
        (!key.is_empty()).then(|| (key.clone(), requests))
    }

    /// Puts back what was not sent after all, where the key still has this place.
    pub(super) fn put_back(&mut self, place: u32, key: &Arc<[u8]>, requests: u64) {
        if let (true, Some(pending)) = (self.is_at(place, key), &mut self.pending) {
            pending.put_back(place, requests);
        }
    }

    /// Takes over the contents that all servers have together, where the key still has this place; `sent` requests were
    /// sent, and `total` is the count of all.
    pub(super) fn adopt(
        &mut self,
        (place, key): (u32, &Arc<[u8]>),
        level: u64,
        (sent, total): (u64, u64),
        now: Instant,
    ) {
        if let (true, Some(pending)) = (self.is_at(place, key), &mut self.pending) {
            let not_sent = pending.adopt(place, sent, total);
            let level = level.saturating_add(not_sent.saturating_mul(REQUEST));
            self.slots[place as usize].bucket = Bucket::with_level(level, now);
        }
    }

    fn is_at(&self, place: u32, key: &Arc<[u8]>) -> bool {
        self.slots.get(place as usize).is_some_and(|slot| Arc::ptr_eq(&slot.key, key))
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    fn insert(&mut self, key: &[u8], bucket: Bucket) -> u32 {
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
        place
    }

    fn remove(&mut self, place: u32) {
        self.unlink(place);
        // The key's memory is freed now, the slot is reused.
        let key = std::mem::replace(&mut self.slots[place as usize].key, Arc::from([]));
        self.bytes -= cost(&key);
        self.places.remove(&key);
        self.free.push(place);
        if let Some(pending) = &mut self.pending {
            pending.forget(place);
        }
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
