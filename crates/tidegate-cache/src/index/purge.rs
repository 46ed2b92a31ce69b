//! The functions of the index that purges need.

use std::sync::Arc;

use super::table::Index;
use crate::fill::Fill;
use crate::key::KeyHash;

impl Index {
    /// Takes the file of this generation from a key, which stays in the index. Returns the file's bytes,
    /// which stay charged until it has been removed; `None`: the key has another file, or none.
    pub(crate) fn take_file(&self, hash: &KeyHash, generation: u64) -> Option<u64> {
        let (mut shard, place) = self.nodes.lock(hash);
        let slot = shard.find(place)?;
        let node = shard.node(slot);
        if node.generation != generation || generation == 0 {
            return None;
        }
        let bytes = node.disk_bytes();
        let entered = self.set_present(&mut shard, slot, None);
        drop(shard);
        self.enter(entered);
        Some(bytes)
    }

    /// Returns the fill of a key and makes its unshared fills store nothing any more.
    pub(crate) fn only_fill(&self, hash: &KeyHash) -> Option<Arc<Fill>> {
        let (shard, place) = self.nodes.lock(hash);
        self.count_removal(hash);
        shard.live(shard.find(place)?)?.fill.clone()
    }

    /// Returns the keys of a shard that have files; `None` behind the last shard.
    pub(crate) fn files(&self, shard: usize) -> Option<Vec<KeyHash>> {
        self.nodes.shards().get(shard).map(|shard| shard.lock().files())
    }
}
