//! The index before and after a restart: the data for a snapshot, and their restoration.

use super::entry::{BLOCK_BYTES, Present, Remembered};
use super::shard;
use super::table::{Index, QueueEntry};
use crate::evict::{Eviction, HEAT_MAX, Queue, Ticket};
use crate::key::KeyHash;

/// The result of [`Index::check_file`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileCheck {
    Unknown,
    Same,
    /// The file differs from the one of this generation in its size.
    Other(u64),
}

impl Index {
    /// Returns the tickets of all files, in the order of the queues, for [`Index::remembered`].
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.queues.lock().tickets()
    }

    /// Returns the snapshot record of a ticket's file, if it still exists.
    pub(crate) fn remembered(&self, ticket: Ticket) -> Option<Remembered> {
        let shard = self.nodes.shards()[shard::shard_of(ticket)].lock();
        shard.node_near(ticket).map(|node| Remembered {
            hash: node.hash,
            body_bytes: node.body_bytes,
            blocks: node.blocks,
            last_access: node.last_access,
            heat: node.heat,
            is_main: node.queue == Queue::Main,
        })
    }

    /// Restores a file from a snapshot or journal, unless the index has newer data of the key or no room for
    /// another one. [`Index::restored`] is to be called at the end.
    pub(crate) fn restore(&self, known: &Remembered) {
        if known.blocks == 0 || self.keys() >= self.keys_max() {
            return;
        }
        let (mut shard, place) = self.nodes.lock(&known.hash);
        let slot = match shard.find(place) {
            Some(slot) if shard.is_filling(slot) => return,
            Some(slot) => slot,
            None => {
                self.totals[Queue::Bare as usize].add(0);
                shard.insert(place, known.last_access)
            }
        };
        let node = shard.node(slot);
        if node.generation > 0 && !node.is_unseen {
            return;
        }
        let before = node.disk_bytes();
        let generation = self.next_generation();
        let disk_bytes = u64::from(known.blocks) * BLOCK_BYTES;
        let present = Present { body_bytes: known.body_bytes, disk_bytes, generation };
        let entered = self.set_present(&mut shard, slot, Some(present));
        self.recharge(before, disk_bytes);
        let node = shard.node(slot);
        (node.heat, node.is_unseen) = (known.heat.min(HEAT_MAX), true);
        let Some(QueueEntry { ticket, mut queue, .. }) = entered else { return };
        if known.is_main {
            self.totals[queue as usize].subtract(disk_bytes);
            queue = Queue::Main;
            node.queue = queue;
            self.totals[queue as usize].add(disk_bytes);
        }
        drop(shard);
        self.queues.lock().put_back(ticket, queue);
    }

    /// Removes a restored file, since a journal has its removal.
    pub(crate) fn unrestore(&self, hash: &KeyHash) {
        let (mut shard, place) = self.nodes.lock(hash);
        let Some(slot) = shard.find(place) else { return };
        if shard.node(slot).is_unseen && !shard.is_filling(slot) {
            self.uncharge(shard.node(slot).disk_bytes());
            self.remove_in(&mut shard, place, slot);
        }
    }

    /// Sorts the order of use after all files were restored.
    pub(crate) fn restored(&self) {
        self.nodes.shards().iter().for_each(|shard| shard.lock().sort_by_access());
    }

    /// Compares a file on disk with the index: whether it is in the index, and of the same size.
    pub(crate) fn check_file(&self, hash: &KeyHash, file_bytes: u64) -> FileCheck {
        let (mut shard, place) = self.nodes.lock(hash);
        let Some(slot) = shard.find(place) else { return FileCheck::Unknown };
        let node = shard.node(slot);
        let blocks = file_bytes.div_ceil(BLOCK_BYTES);
        match node.present() {
            None => FileCheck::Unknown,
            Some(_) if u64::from(node.blocks) == blocks => {
                node.is_unseen = false;
                FileCheck::Same
            }
            Some(present) => FileCheck::Other(present.generation),
        }
    }

    /// Returns the keys of one shard whose files are in the snapshot and were not found on disk yet; `None`:
    /// there is no such shard.
    pub(crate) fn unseen(&self, shard: usize) -> Option<Vec<KeyHash>> {
        self.nodes.shards().get(shard).map(|shard| shard.lock().unseen())
    }

    /// Returns the keys of one shard that have files; `None`: there is no such shard.
    pub(crate) fn with_files(&self, shard: usize) -> Option<Vec<KeyHash>> {
        self.nodes.shards().get(shard).map(|shard| shard.lock().with_files())
    }
}
