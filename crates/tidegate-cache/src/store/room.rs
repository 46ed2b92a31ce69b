//! Room on disk: reserved before it is written to, so that `max_size` is never exceeded and
//! `min_free` is left. Blocks.

use std::sync::atomic::Ordering;

use super::inner::StoreInner;
use super::options::Options;
use crate::evict::Need;
use crate::format::Layout;
use crate::index::{BLOCK_BYTES, Index, Present};

/// Files removed in one call to make room for a fill. The fill continues between two calls, and the pace of
/// its readers does not depend on the number of small files that a large one evicts.
const EVICTED_MAX: usize = 64;

/// The result of a request for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The bytes are charged.
    Kept,
    /// Some room was made, but not enough yet: call again.
    More,
    /// There is no room: the fill must continue without a file.
    None,
}

impl StoreInner {
    /// Returns whether an object of this number of bytes on disk can ever be stored. An object that still
    /// grows may take half the room: an endless one must not evict everything before it is given up.
    pub(crate) fn can_hold(&self, bytes: u64, grows: bool) -> bool {
        let max = write_limit(&self.options());
        max.is_none_or(|max| bytes <= if grows { max / 2 } else { max })
    }

    /// Claims room for a running fill, so that not more is promised than there is once everything else has
    /// been removed: followers of a fill rely on its file. Returns false when other fills have claimed it.
    /// Never blocks.
    pub(crate) fn claim(&self, bytes: u64) -> bool {
        let max = write_limit(&self.options());
        let more = |claimed: u64| {
            let sum = claimed.checked_add(bytes)?;
            max.is_none_or(|max| sum <= max).then_some(sum)
        };
        self.claimed.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Gives a claim back.
    pub(crate) fn unclaim(&self, bytes: u64) {
        self.claimed.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Charges bytes for a fill, of which `unwritten` are about to be written, and makes room for them: by
    /// removing files that wait for removal, then the next victims.
    pub(crate) fn keep_room(&self, bytes: u64, unwritten: u64) -> Room {
        let options = self.options();
        for _ in 0..EVICTED_MAX {
            if self.has_free(&options, unwritten) && self.index.charge(bytes, write_limit(&options))
            {
                return Room::Kept;
            }
            let garbage = self.garbage.lock().pop_front();
            if let Some(garbage) = garbage {
                self.remove_garbage(garbage);
            } else if !self.evict_one(Need::Bytes) {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                return Room::None;
            }
        }
        Room::More
    }

    /// Returns whether `min_free` is left when this number of bytes more are written. With no file to remove,
    /// eviction could free nothing.
    pub(super) fn has_free(&self, options: &Options, unwritten: u64) -> bool {
        let Some(free_min) = options.free_min else { return true };
        match self.disk.free_bytes(&options.path) {
            Ok(free) => free >= free_min.saturating_add(unwritten),
            Err(error) => {
                self.disk_failed("asking for free space", &error);
                true
            }
        }
    }

    /// Removes the next victim and its file; returns false when there is none.
    pub(super) fn evict_one(&self, need: Need) -> bool {
        // A victim may be used between its choice and its removal: then the next one is tried.
        for _ in 0..3 {
            let Some(victim) = self.index.chosen(need) else { return false };
            if self.evict(&victim).is_some() {
                return true;
            }
        }
        false
    }
}

/// Returns the most bytes that may be stored at any moment. A limit of 0 does not limit writing: it makes the
/// manager clear the cache at its pace, as with nginx, where otherwise nothing could ever be stored.
fn write_limit(options: &Options) -> Option<u64> {
    options.size_max.filter(|max| *max > 0)
}

/// Returns the index's data of a file.
pub(super) fn present(index: &Index, layout: Layout, body_bytes: u64) -> Present {
    let disk_bytes = disk_bytes_of(layout, body_bytes);
    Present { body_bytes, disk_bytes, generation: index.next_generation() }
}

/// Returns the room on disk of a file with this layout, in bytes.
pub(crate) fn disk_bytes_of(layout: Layout, body_bytes: u64) -> u64 {
    disk_bytes(layout.file_bytes(body_bytes))
}

/// Returns the room that a file of this size takes, in bytes: whole blocks, as in nginx.
fn disk_bytes(file_bytes: u64) -> u64 {
    file_bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}
