//! Number of requests in progress for each key of a zone; bounded by the zone's size.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tidegate_core::figures::SlabUse;

use crate::http::limits::Stored;

/// The counters of a zone.
#[derive(Default)]
pub(super) struct Counts {
    by_key: HashMap<Box<[u8]>, u32, RandomState>,
    bytes: usize,
}

impl Counts {
    /// Counts a request of this key; returns `false` and counts nothing if there are already `most`, or if the key
    /// would not fit into `bytes_max`.
    pub(super) fn enter(&mut self, key: &[u8], most: u32, bytes_max: usize) -> bool {
        if let Some(count) = self.by_key.get_mut(key) {
            let free = *count < most;
            *count += u32::from(free);
            return free;
        }
        if self.bytes + cost(key) > bytes_max {
            return false;
        }
        self.bytes += cost(key);
        self.by_key.insert(key.into(), 1);
        true
    }

    /// Ends the count of a request of this key.
    pub(super) fn leave(&mut self, key: &[u8]) {
        let Some(count) = self.by_key.get_mut(key) else { return };
        *count -= 1;
        if *count == 0 {
            self.by_key.remove(key);
            self.bytes -= cost(key);
        }
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
