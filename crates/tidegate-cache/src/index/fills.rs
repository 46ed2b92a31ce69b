//! The running fills in the index.

use std::sync::Arc;

use super::entry::Present;
use super::shard::{Live, Shard};
use super::table::Index;
use crate::fill::Fill;
use crate::key::{Key, KeyHash};

/// Result of [`Index::begin`].
pub(crate) enum BeginResult {
    /// The index has the fill now, perhaps in the place of another one.
    Started { replaced: Option<Arc<Fill>> },
    /// Another fill of this key is running.
    Running(Arc<Fill>),
    /// The index cannot take it: there is no room, or another key with the same hash is being filled.
    Refused,
}

/// The running fill that [`Index::begin`] may replace.
#[derive(Clone, Copy)]
pub(crate) enum Replaceable<'a> {
    Any,
    This(&'a Arc<Fill>),
}

impl Replaceable<'_> {
    fn includes(self, running: &Arc<Fill>) -> bool {
        match self {
            Replaceable::Any => true,
            Replaceable::This(fill) => Arc::ptr_eq(fill, running),
        }
    }
}

impl Index {
    /// Returns the fills that are found by their keys, in no order. Takes the lock of one shard after the other.
    pub(crate) fn fills(&self) -> Vec<Arc<Fill>> {
        let mut fills = Vec::new();
        for shard in self.nodes.shards() {
            fills.extend(shard.lock().fills().cloned());
        }
        fills
    }

    /// Registers a fill, unless one is running. One that may be replaced continues outside of the index.
    pub(crate) fn begin(
        &self,
        key: &Key,
        fill: &Arc<Fill>,
        now: u64,
        replaceable: Option<Replaceable<'_>>,
        evicted: impl FnMut(KeyHash, u64),
    ) -> BeginResult {
        let stays = |running: &Arc<Fill>| replaceable.is_none_or(|it| !it.includes(running));
        let begin = |shard: &mut Shard, slot| {
            shard.change_live(slot, |live| match &live.fill {
                Some(running) if running.key().text() != key.text() => BeginResult::Refused,
                Some(running) if stays(running) => BeginResult::Running(running.clone()),
                running => {
                    if let Some(running) = running {
                        running.set_beside(true);
                    }
                    BeginResult::Started { replaced: live.fill.replace(fill.clone()) }
                }
            })
        };
        if let Some(begun) = self.touched(key.hash(), now, begin) {
            return begun;
        }
        if !self.make_room(evicted) {
            return BeginResult::Refused;
        }
        self.with_node(key.hash(), now, begin)
    }

    /// Removes a fill from the index, if it is still the key's. One that it has hidden is found again.
    pub(crate) fn fill_ended(&self, hash: &KeyHash, fill: &Arc<Fill>) {
        let (mut shard, place) = self.nodes.lock(hash);
        fill.set_over();
        let Some(slot) = shard.find(place) else { return };
        let is_known = is_same(shard.live(slot), fill);
        end_fill(&mut shard, slot, fill);
        // One that was purged by its key meanwhile stays as it is.
        let is_meant = |hidden: &Arc<Fill>| is_known && hidden.removals == self.removals(hash);
        if let Some(hidden) = fill.hidden().filter(is_meant) {
            hidden.set_beside(false);
            shard.change_live(slot, |live| live.fill = Some(hidden.clone()));
        }
    }

    /// Registers a complete fill that was not shared, unless a shared one is running that is not complete: it
    /// becomes the key's file in a moment. The last one offered counts, and no other is stored behind it.
    pub(crate) fn offer(&self, hash: &KeyHash, fill: &Arc<Fill>) {
        let (mut shard, place) = self.nodes.lock(hash);
        if let Some(slot) = shard.find(place)
            && fill.removals == self.removals(hash)
            && !fill.is_superseded()
        {
            shard.change_live(slot, |live| match &live.fill {
                Some(known) if Arc::ptr_eq(known, fill) => {}
                Some(known) if !known.is_beside() && !known.is_complete() => {}
                known => {
                    if let Some(known) = known {
                        known.set_superseded();
                    }
                    live.fill = Some(fill.clone());
                }
            });
        }
    }

    /// Returns whether this fill is the one that is found by its key.
    pub(crate) fn is_known(&self, fill: &Arc<Fill>) -> bool {
        let (shard, place) = self.nodes.lock(fill.key().hash());
        shard.find(place).is_some_and(|slot| is_same(shard.live(slot), fill))
    }

    /// Returns whether the object of this fill may become the key's file.
    pub(crate) fn may_fill(&self, hash: &KeyHash, fill: &Arc<Fill>) -> bool {
        let (shard, place) = self.nodes.lock(hash);
        shard.find(place).is_some_and(|slot| self.may_fill_node(&shard, slot, fill))
    }

    fn may_fill_node(&self, shard: &Shard, slot: u32, fill: &Arc<Fill>) -> bool {
        let known = shard.live(slot).and_then(|live| live.fill.as_ref());
        match known {
            // Another one was offered later.
            _ if fill.is_superseded() => false,
            Some(known) if Arc::ptr_eq(known, fill) => true,
            Some(known) if known.is_beside() => false,
            _ => fill.is_beside() && fill.removals == self.removals(fill.key().hash()),
        }
    }

    /// Ends a fill with a file, for which `reserved` bytes were charged. Returns false, and does nothing,
    /// when [`Index::may_fill`] is no longer true.
    pub(crate) fn filled(
        &self,
        hash: &KeyHash,
        fill: &Arc<Fill>,
        present: Present,
        reserved: u64,
        now: u64,
    ) -> bool {
        let (mut shard, place) = self.nodes.lock(hash);
        let Some(slot) = shard.find(place) else { return false };
        if !self.may_fill_node(&shard, slot, fill) {
            return false;
        }
        fill.set_over();
        end_fill(&mut shard, slot, fill);
        if shard.live(slot).is_some() {
            shard.change_live(slot, |live| live.uncacheable_until = 0);
        }
        shard.touch(slot, now);
        let before = shard.node(slot).disk_bytes();
        let entered = self.set_present(&mut shard, slot, Some(present));
        self.recharge(before.saturating_add(reserved), present.disk_bytes);
        drop(shard);
        self.enter(entered);
        true
    }
}

fn end_fill(shard: &mut Shard, slot: u32, fill: &Arc<Fill>) {
    if is_same(shard.live(slot), fill) {
        shard.change_live(slot, |live| live.fill = None);
    }
}

fn is_same(live: Option<&Live>, fill: &Arc<Fill>) -> bool {
    live.and_then(|live| live.fill.as_ref()).is_some_and(|known| Arc::ptr_eq(known, fill))
}
