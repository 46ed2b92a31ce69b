//! The index: what the store knows in memory of each key. Never touches the disk.
//!
//! A node may count uses of a key that has no file yet (`min_uses`), know a file, hold a running
//! fill, or the last two together (a stale entry that is being refreshed).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::fill::Fill;
use crate::format::Times;
use crate::key::{Key, KeyHash};
use crate::lru::{LruMap, Place, Sharded};

/// nginx's manual: one megabyte of `keys_zone` holds about 8000 keys.
const KEY_COST_BYTES: u64 = 128;

/// What nginx takes of a zone for itself; a zone of 16 kilobytes is a small one there, too.
const ZONE_COST_BYTES: u64 = 8 * 1024;

/// Locks of the index: enough that a dozen threads seldom meet.
const SHARDS: usize = 32;

/// How many shards' oldest nodes are compared when a key needs the room of another.
const ROOM_SAMPLES: usize = 4;

/// Nodes with running fills that are passed over in one search for a victim.
const FILLING_SKIPPED_MAX: usize = 16;

/// A whole file, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub times: Times,
    pub body_bytes: u64,
    /// Room taken on disk.
    pub disk_bytes: u64,
    /// Differs for each file and each renewal of metadata: what was opened before is outdated.
    pub generation: u64,
}

#[derive(Default)]
pub(crate) struct Node {
    last_access: u64,
    uses: u32,
    uncacheable_until: u64,
    present: Option<Present>,
    fill: Option<Arc<Fill>>,
}

/// A copy of what a node says.
#[derive(Clone, Default)]
pub(crate) struct NodeView {
    pub uses: u32,
    pub uncacheable_until: u64,
    pub present: Option<Present>,
    pub fill: Option<Arc<Fill>>,
}

/// What was found oldest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    pub hash: KeyHash,
    pub last_access: u64,
    pub generation: Option<u64>,
}

pub(crate) struct Index {
    nodes: Sharded<LruMap<Node>>,
    keys_max: AtomicUsize,
    keys: AtomicUsize,
    entries: AtomicUsize,
    disk_bytes: AtomicU64,
    generations: AtomicU64,
    removals: AtomicU64,
    /// Some key had to leave to make room for another: the manager shall make more.
    crowded: AtomicBool,
    rotation: AtomicUsize,
}

/// Result of [`Index::begin`].
pub(crate) enum Begun {
    /// The fill is known to the index now.
    Started,
    /// Another fill of this key runs.
    Running(Arc<Fill>),
    /// The index cannot take it: no room, or another key with the same hash is being filled.
    Refused,
}

impl Index {
    pub fn new(keys_bytes: u64) -> Index {
        let index = Index {
            nodes: Sharded::new(SHARDS),
            keys_max: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            disk_bytes: AtomicU64::new(0),
            generations: AtomicU64::new(1),
            removals: AtomicU64::new(0),
            crowded: AtomicBool::new(false),
            rotation: AtomicUsize::new(0),
        };
        index.limit_keys(keys_bytes);
        index
    }

    pub fn limit_keys(&self, keys_bytes: u64) {
        let usable = keys_bytes.saturating_sub(ZONE_COST_BYTES);
        let keys = usize::try_from(usable / KEY_COST_BYTES).unwrap_or(usize::MAX);
        self.keys_max.store(keys.clamp(1, u32::MAX as usize), Ordering::Relaxed);
    }

    pub fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the manager should remove keys: there are too many, or so many that a new one had to
    /// wait for room; then an eighth is made free.
    pub fn is_crowded(&self) -> bool {
        let (keys, most) = (self.keys(), self.keys_max());
        if keys > most {
            return true;
        }
        let crowded = self.crowded.load(Ordering::Relaxed) && keys > most - most / 8;
        if !crowded {
            self.crowded.store(false, Ordering::Relaxed);
        }
        crowded
    }

    /// How many keys were removed on demand.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub fn keys_max(&self) -> usize {
        self.keys_max.load(Ordering::Relaxed)
    }

    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes.load(Ordering::Relaxed)
    }

    /// Counts a use. `evicted` hears of a file whose key had to make room.
    pub fn count_use(&self, hash: &KeyHash, now: u64, evicted: impl FnMut(KeyHash)) -> NodeView {
        let known = self.touched(hash, now, |node| {
            node.uses = node.uses.saturating_add(1);
            view_of(node)
        });
        if let Some(view) = known {
            return view;
        }
        let first = NodeView { uses: 1, ..NodeView::default() };
        if !self.make_room(evicted) {
            return first;
        }
        self.with_node(hash, now, |node| {
            node.uses = node.uses.saturating_add(1);
            view_of(node)
        })
    }

    /// Looks without counting.
    pub fn peek(&self, hash: &KeyHash) -> NodeView {
        let (mut nodes, place) = self.nodes.lock(hash);
        nodes.find(place).map(|node| view_of(node)).unwrap_or_default()
    }

    /// Marks as used at `now`, without counting; whether the key is known.
    pub fn touch(&self, hash: &KeyHash, now: u64) -> bool {
        self.touched(hash, now, |_| ()).is_some()
    }

    /// Notes that a key's responses are not to be shared before a moment, if the key is known.
    pub fn mark_uncacheable(&self, hash: &KeyHash, until: u64) {
        let (mut nodes, place) = self.nodes.lock(hash);
        if let Some(node) = nodes.find(place) {
            node.uncacheable_until = until;
        }
    }

    /// Registers a fill, unless one runs. With `replace` a running one goes on beside it.
    pub fn begin(
        &self,
        key: &Key,
        fill: &Arc<Fill>,
        now: u64,
        replace: bool,
        evicted: impl FnMut(KeyHash),
    ) -> Begun {
        if !self.touch(key.hash(), now) && !self.make_room(evicted) {
            return Begun::Refused;
        }
        self.with_node(key.hash(), now, |node| match &node.fill {
            Some(running) if running.key().text() != key.text() => Begun::Refused,
            Some(running) if !replace => Begun::Running(running.clone()),
            running => {
                if let Some(running) = running {
                    running.set_beside();
                }
                node.fill = Some(fill.clone());
                Begun::Started
            }
        })
    }

    /// Forgets a fill, if it is still the key's.
    pub fn fill_ended(&self, hash: &KeyHash, fill: &Arc<Fill>) {
        let (mut nodes, place) = self.nodes.lock(hash);
        if let Some(node) = nodes.find(place)
            && is_same(&node.fill, fill)
        {
            node.fill = None;
        }
    }

    /// Whether what this fill made may become the key's file.
    pub fn may_fill(&self, hash: &KeyHash, fill: &Arc<Fill>) -> bool {
        let (mut nodes, place) = self.nodes.lock(hash);
        nodes.find(place).is_some_and(|node| self.may_fill_node(node, fill))
    }

    fn may_fill_node(&self, node: &Node, fill: &Arc<Fill>) -> bool {
        is_same(&node.fill, fill) || fill.is_beside() && fill.removals == self.removals()
    }

    /// Ends a fill with a file; false (and nothing done) when [`Index::may_fill`] no longer holds.
    pub fn filled(&self, hash: &KeyHash, fill: &Arc<Fill>, present: Present, now: u64) -> bool {
        let (mut nodes, place) = self.nodes.lock(hash);
        let Some(node) = nodes.touch(place) else { return false };
        if !self.may_fill_node(node, fill) {
            return false;
        }
        if is_same(&node.fill, fill) {
            node.fill = None;
        }
        node.uncacheable_until = 0;
        node.last_access = now;
        self.replace_present(node, Some(present));
        true
    }

    /// Adds a file found on disk, unless the key has one; whether it was added.
    pub fn add_found(
        &self,
        hash: &KeyHash,
        present: Present,
        now: u64,
        evicted: impl FnMut(KeyHash),
    ) -> bool {
        let known = {
            let (mut nodes, place) = self.nodes.lock(hash);
            nodes.find(place).is_some()
        };
        if !known && !self.make_room(evicted) {
            return false;
        }
        self.with_node(hash, now, |node| {
            if node.present.is_none() {
                self.replace_present(node, Some(present));
                return true;
            }
            false
        })
    }

    /// Puts another description in the place of one of this generation.
    pub fn renew(&self, hash: &KeyHash, generation: u64, present: Present) -> bool {
        let (mut nodes, place) = self.nodes.lock(hash);
        let Some(node) = nodes.find(place) else { return false };
        if node.present.is_none_or(|present| present.generation != generation) {
            return false;
        }
        self.replace_present(node, Some(present));
        true
    }

    /// Forgets the file of this generation; uses keep counting.
    pub fn forget_file(&self, hash: &KeyHash, generation: u64) {
        let (mut nodes, place) = self.nodes.lock(hash);
        if let Some(node) = nodes.find(place)
            && node.present.is_some_and(|present| present.generation == generation)
        {
            self.replace_present(node, None);
        }
    }

    /// Forgets all about a key, and the fill that runs (it goes on for its readers only).
    pub fn remove(&self, hash: &KeyHash) -> Option<NodeView> {
        let (mut nodes, place) = self.nodes.lock(hash);
        self.removals.fetch_add(1, Ordering::AcqRel);
        self.remove_in(&mut nodes, place)
    }

    /// Removes a victim, unless it came into use since it was found.
    pub fn evict(&self, victim: &Victim) -> bool {
        let (mut nodes, place) = self.nodes.lock(&victim.hash);
        let unchanged = nodes.find(place).is_some_and(|node| {
            node.fill.is_none()
                && node.last_access == victim.last_access
                && node.present.map(|present| present.generation) == victim.generation
        });
        unchanged && self.remove_in(&mut nodes, place).is_some()
    }

    /// The node that was not used for the longest time, of those without a fill.
    pub fn oldest(&self) -> Option<Victim> {
        (0..self.nodes.shards().len())
            .filter_map(|shard| self.victim_in(shard))
            .min_by_key(|victim| victim.last_access)
    }

    /// Makes sure that one more key fits; false when every key is being filled.
    fn make_room(&self, mut evicted: impl FnMut(KeyHash)) -> bool {
        let shards = self.nodes.shards().len();
        // Two rounds: a victim may come into use between being found and being removed.
        for _ in 0..2 {
            if self.keys() < self.keys_max() {
                return true;
            }
            let start = self.rotation.fetch_add(1, Ordering::Relaxed);
            let victim = (0..shards)
                .filter_map(|step| self.victim_in((start + step) % shards))
                .take(ROOM_SAMPLES)
                .min_by_key(|victim| victim.last_access);
            let Some(victim) = victim else { return false };
            self.crowded.store(true, Ordering::Relaxed);
            if self.evict(&victim) && victim.generation.is_some() {
                evicted(victim.hash);
            }
        }
        self.keys() < self.keys_max()
    }

    fn victim_in(&self, shard: usize) -> Option<Victim> {
        let mut nodes = self.nodes.shards()[shard].lock();
        for _ in 0..FILLING_SKIPPED_MAX {
            let (hash, node) = nodes.victim()?;
            if node.fill.is_none() {
                let generation = node.present.map(|present| present.generation);
                return Some(Victim { hash, last_access: node.last_access, generation });
            }
            let place = self.nodes.place(&hash);
            nodes.touch(place);
        }
        None
    }

    fn touched<T>(
        &self,
        hash: &KeyHash,
        now: u64,
        change: impl FnOnce(&mut Node) -> T,
    ) -> Option<T> {
        let (mut nodes, place) = self.nodes.lock(hash);
        let node = nodes.touch(place)?;
        node.last_access = now;
        Some(change(node))
    }

    /// Changes a node, making it when it is new.
    fn with_node<T>(&self, hash: &KeyHash, now: u64, change: impl FnOnce(&mut Node) -> T) -> T {
        let (mut nodes, place) = self.nodes.lock(hash);
        if let Some(node) = nodes.touch(place) {
            node.last_access = now;
            return change(node);
        }
        let mut node = Node { last_access: now, ..Node::default() };
        let result = change(&mut node);
        nodes.insert(place, node);
        self.keys.fetch_add(1, Ordering::Relaxed);
        result
    }

    fn remove_in(&self, nodes: &mut LruMap<Node>, place: Place<'_>) -> Option<NodeView> {
        let mut node = nodes.remove(place)?;
        self.keys.fetch_sub(1, Ordering::Relaxed);
        let view = view_of(&node);
        self.replace_present(&mut node, None);
        Some(view)
    }

    fn replace_present(&self, node: &mut Node, present: Option<Present>) {
        if let Some(old) = node.present {
            self.entries.fetch_sub(1, Ordering::Relaxed);
            self.disk_bytes.fetch_sub(old.disk_bytes, Ordering::Relaxed);
        }
        if let Some(new) = present {
            self.entries.fetch_add(1, Ordering::Relaxed);
            self.disk_bytes.fetch_add(new.disk_bytes, Ordering::Relaxed);
        }
        node.present = present;
    }
}

fn view_of(node: &Node) -> NodeView {
    NodeView {
        uses: node.uses,
        uncacheable_until: node.uncacheable_until,
        present: node.present,
        fill: node.fill.clone(),
    }
}

fn is_same(known: &Option<Arc<Fill>>, fill: &Arc<Fill>) -> bool {
    known.as_ref().is_some_and(|known| Arc::ptr_eq(known, fill))
}
