//! Number of requests in progress for each key of a zone; bounded by the zone's size.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tidegate_core::figures::{KeyUse, SlabUse};

use super::others::Others;
use crate::http::limits::{self, LOOKED_AT_MAX, Stored};

/// The counters of a zone.
#[derive(Default)]
pub(super) struct Counts {
    by_key: HashMap<Box<[u8]>, u32, RandomState>,
    bytes: usize,
    /// The counts of other servers, where they share the zone.
    others: Option<Others>,
}

impl Counts {
    /// Counts a request of this key; returns `false` and counts nothing if there are already `most`, those of other servers
    /// included, or if the key would not fit into `bytes_max`.
    pub(super) fn enter(&mut self, key: &[u8], most: u32, bytes_max: usize) -> bool {
        let others = self.others.as_ref().map_or(0, |others| others.count(key));
        let own = self.by_key.get_mut(key);
        let fits = own.is_some() || self.bytes + cost(key) <= bytes_max;
        let free = fits && own.as_deref().copied().unwrap_or(0).saturating_add(others) < most;
        if let Some(shared) = &mut self.others {
            // Also where it is refused, to learn when it is not any more.
            shared.touch(key, free, bytes_max / cost(key));
        }
        if !free {
            return false;
        }
        match own {
            Some(count) => *count += 1,
            None => {
                self.bytes += cost(key);
                self.by_key.insert(key.into(), 1);
            }
        }
        true
    }

    /// Returns whether requests of this key are in progress, here or on other servers.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        let elsewhere = || self.others.as_ref().is_some_and(|others| others.count(key) > 0);
        self.by_key.contains_key(key) || elsewhere()
    }

    /// Ends the count of a request of this key.
    pub(super) fn leave(&mut self, key: &[u8]) {
        let Some(count) = self.by_key.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            self.by_key.remove(key);
            self.bytes -= cost(key);
        }
        if let Some(others) = &mut self.others {
            others.touch(key, true, usize::MAX);
        }
    }

    /// Returns the requests of this server in progress.
    pub(super) fn own(&self, key: &[u8]) -> u32 {
        self.by_key.get(key).copied().unwrap_or(0)
    }

    /// Returns the keys with the most requests in progress, the most first; at most `most`, of a part of a very large zone.
    pub(super) fn fullest(&self, most: usize) -> Vec<KeyUse> {
        let counts = self.by_key.iter().map(|(key, count)| (u64::from(*count), key));
        limits::fullest(counts.take(LOOKED_AT_MAX).collect(), most)
    }

    /// Notes from now on what other servers are to know, beginning with what is in progress; or does no longer, and forgets
    /// their counts.
    pub(super) fn share(&mut self, is_shared: bool) {
        if !is_shared {
            self.others = None;
        } else if self.others.is_none() {
            let mut others = Others::default();
            self.by_key.keys().for_each(|key| others.touch(key, true, usize::MAX));
            self.others = Some(others);
        }
    }

    /// Returns the counts of other servers, where the zone is shared.
    pub(super) fn others(&mut self) -> Option<&mut Others> {
        self.others.as_mut()
    }

    /// Returns the number of keys that other servers are to know.
    pub(super) fn pending(&self) -> usize {
        self.others.as_ref().map_or(0, Others::pending)
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

impl Stored for Counts {
    fn used(&self) -> SlabUse {
        SlabUse { bytes: self.bytes as u64, entries: self.by_key.len() as u64 }
    }
}

/// Returns the memory of a key in bytes, as nginx's manual counts it: 64 for an IPv4 address, 16000 of which fit
/// into a megabyte.
fn cost(key: &[u8]) -> usize {
    (48 + key.len()).next_power_of_two()
}
