//! Room on disk: reserved before it is written to, so that `max_size` is never exceeded and
//! `min_free` is left. Blocks.

use std::sync::atomic::Ordering;

use super::inner::StoreInner;
use super::options::Options;
use crate::evict::Need;
use crate::format::Layout;
use crate::index::{BLOCK_BYTES, Index, Present};

/// Files removed in one call to make room for a fill. The fill goes on between two calls, and the
/// pace of its readers does not depend on how many small files a large one drives out.
const EVICTED_MAX: usize = 64;

/// What became of a wish for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The bytes are charged.
    Kept,
    /// Some room was made, but not enough yet: ask again.
    More,
    /// There is no room: the fill must go on without a file.
    None,
}

impl StoreInner {
    /// Whether an object of so many bytes on disk can ever be stored. One that still grows may
    /// take half the room: an endless one must not drive everything out before it is given up.
    pub(crate) fn can_hold(&self, bytes: u64, grows: bool) -> bool {
        let max = write_limit(&self.options());
        max.is_none_or(|max| bytes <= if grows { max / 2 } else { max })
    }

    /// Claims room for a running fill, so that not more is promised than there is once everything else
    /// has been removed: who follows a fill relies on its file. False: other fills have claimed it. Never
    /// blocks.
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

    /// Charges bytes for a fill, of which `unwritten` are about to be written, and makes room for
    /// them: by removing what waits for removal, then what goes next.
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

    /// Whether `min_free` is left when so many bytes more are written. With no file to remove there
    /// is nothing that eviction could free.
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

    /// Removes the next victim and its file; false when there is none.
    pub(super) fn evict_one(&self, need: Need) -> bool {
        // A victim may come into use between being chosen and being removed: then the next one.
        for _ in 0..3 {
            let Some(victim) = self.index.chosen(need) else { return false };
            if self.evict(&victim).is_some() {
                return true;
            }
        }
        false
    }
}

/// What may be stored at any moment. A limit of 0 is none for writing: it asks the manager to clear the
/// cache at its pace, as with nginx, where else nothing could ever be stored.
fn write_limit(options: &Options) -> Option<u64> {
    options.size_max.filter(|max| *max > 0)
}

/// The index's description of a file.
pub(super) fn present(index: &Index, layout: Layout, body_bytes: u64) -> Present {
    let disk_bytes = disk_bytes_of(layout, body_bytes);
    Present { body_bytes, disk_bytes, generation: index.next_generation() }
}

/// Room on disk of a file with this layout.
pub(crate) fn disk_bytes_of(layout: Layout, body_bytes: u64) -> u64 {
    disk_bytes(layout.file_bytes(body_bytes))
}

/// Room that a file of this size takes: whole blocks, as nginx counts.
fn disk_bytes(file_bytes: u64) -> u64 {
    file_bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}
