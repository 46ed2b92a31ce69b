//! Priorities of RFC 7540 section 5.3: a tree of streams, each with a parent and a weight.
//!
//! A stream is sent before those below it. Streams of one parent share the connection by their weights: each has a
//! virtual time, which runs by the bytes sent of it and of those below it, divided by its share, and the stream with
//! the earliest one is next. A stream that begins to wait starts at its parent's time, so that it neither catches up
//! nor owes.
//!
//! ```text
//!   connection ─┬─ 3 (announced: a group, never sent) ─┬─ 13
//!               │                                      └─ 15 ── 17 (after 15)
//!               └─ 19
//! ```
//!
//! Nodes are in one list and refer to each other by their places in it. A frame costs the depth of its stream, the
//! choice of the next stream the nodes on its way and their siblings; both are at most the number of nodes: the streams
//! that are open, [`ANNOUNCED_MAX`] and [`CLOSED_MAX`].

#[cfg(test)]
mod tests;

use crate::frame::StreamId;
use crate::frame::parse::Dependency;

/// Streams that PRIORITY has named and that have not begun, or never do: some browsers use a handful of them as
/// groups. The one that was used longest ago is forgotten first.
const ANNOUNCED_MAX: usize = 32;
/// Closed streams that are kept as parents for others (RFC 7540 section 5.3.4), forgotten in the same way.
const CLOSED_MAX: usize = 32;

/// The place of the connection itself.
const ROOT: u32 = 0;
/// No node.
const NONE: u32 = u32::MAX;
/// The identifier of a free place; streams have 31 bits.
const FREE: u32 = u32::MAX;
/// The share of a stream of weight 1. Shares of streams that inherit a part of a weight are fractions of weights.
const SHARE_OF_ONE: u32 = 256;
/// The weight of a stream without a signal, minus 1 (RFC 7540 section 5.3.5).
const WEIGHT_DEFAULT: u8 = 15;
/// Bytes that each turn is reckoned as before it is known: who has the larger share is first among equals.
const TURN_BYTES: u64 = 8 * 1024;
/// Bytes of a frame beside its payload, so that empty ones count.
const FRAME_COST: u64 = 9;
/// Virtual time has this many bits behind the point.
const TIME_BITS: u32 = 16;

/// Why a node is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It was named before it began.
    Announced,
    /// It has begun.
    Open,
    /// It is over.
    Closed,
}

#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    /// Its children, the siblings before and behind it.
    first: u32,
    before: u32,
    behind: u32,
    /// Its part among its siblings: the weight times [`SHARE_OF_ONE`].
    share: u32,
    /// Children that can be sent, or have such below them.
    active: u32,
    life: Life,
    /// The stream itself can be sent.
    ready: bool,
    /// The virtual time that it has used, in its parent's time.
    used: u64,
    /// The virtual time of its children: where the last one that was sent began.
    now: u64,
    /// When it was named last, for forgetting.
    named: u64,
}

impl Node {
    fn new(parent: u32, share: u32, life: Life) -> Node {
        Node {
            parent,
            first: NONE,
            before: NONE,
            behind: NONE,
            share,
            active: 0,
            life,
            ready: false,
            used: 0,
            now: 0,
            named: 0,
        }
    }

    fn is_active(&self) -> bool {
        self.ready || self.active > 0
    }

    fn time_of(&self, bytes: u64) -> u64 {
        (bytes << TIME_BITS) / u64::from(self.share.max(1))
    }

    /// When a turn that begins now would end: the earliest is next.
    fn turn_end(&self) -> u64 {
        self.used.saturating_add(self.time_of(TURN_BYTES))
    }
}

/// The dependencies of a connection's streams, and which of them can be sent.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The identifier in each place, apart from the nodes: they are looked through.
    ids: Vec<u32>,
    nodes: Vec<Node>,
    /// Places that are free.
    free: Vec<u32>,
    announced: usize,
    closed: usize,
    /// Counts the names, for forgetting.
    names: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Node::new(NONE, SHARE_OF_ONE, Life::Open);
        Tree {
            ids: vec![StreamId::CONNECTION.value()],
            nodes: vec![root],
            free: Vec::new(),
            announced: 0,
            closed: 0,
            names: 0,
        }
    }
}

impl Tree {
    /// A stream has begun. Without a dependency of its own it keeps what PRIORITY has said of it before. `is_idle` says
    /// whether a stream has not begun.
    pub(crate) fn begin(
        &mut self,
        stream: StreamId,
        dependency: Option<Dependency>,
        is_idle: impl Fn(StreamId) -> bool,
    ) {
        let place = match self.find(stream) {
            Some(place) => place,
            None => self.add(stream, Life::Open),
        };
        self.set_life(place, Life::Open);
        if let Some(dependency) = dependency {
            self.announce(dependency.parent, is_idle);
            self.depend(place, dependency);
            self.forget();
        }
    }

    /// PRIORITY was received. Streams that have not begun are remembered, closed ones that were forgotten are not.
    pub(crate) fn prioritise(
        &mut self,
        stream: StreamId,
        dependency: Dependency,
        is_idle: impl Fn(StreamId) -> bool,
    ) {
        let place = match self.find(stream) {
            Some(place) => place,
            None if is_idle(stream) => self.add(stream, Life::Announced),
            None => return,
        };
        self.announce(dependency.parent, is_idle);
        self.depend(place, dependency);
        self.forget();
    }

    /// The stream is over; it stays for a while as the parent of others.
    pub(crate) fn close(&mut self, stream: StreamId) {
        let Some(place) = self.find(stream) else { return };
        self.set_ready(place, false);
        self.set_life(place, Life::Closed);
        self.name(place);
        self.forget();
    }

    /// Forgets what an idle connection needs not: closed streams. Returns whether nothing is left.
    pub(crate) fn shrink(&mut self) -> bool {
        while let Some(place) = self.oldest(Life::Closed) {
            self.remove(place);
        }
        while self.ids.pop_if(|id| *id == FREE).is_some() {
            self.nodes.pop();
        }
        let places = self.ids.len() as u32;
        self.free.retain(|place| *place < places);
        self.ids.shrink_to_fit();
        self.nodes.shrink_to_fit();
        self.free.shrink_to_fit();
        places == 1
    }

    /// A stream can be sent, or no longer. One that is not in the tree depends on the connection.
    pub(crate) fn set(&mut self, stream: StreamId, ready: bool) {
        match self.find(stream) {
            Some(place) => self.set_ready(place, ready),
            None if ready => {
                let place = self.add(stream, Life::Open);
                self.set_ready(place, true);
            }
            None => {}
        }
    }

    /// No stream can be sent.
    pub(crate) fn clear(&mut self) {
        for node in &mut self.nodes {
            node.ready = false;
            node.active = 0;
        }
    }

    /// Returns the stream to be sent next.
    pub(crate) fn next(&self) -> Option<StreamId> {
        let mut place = ROOT;
        // Each step goes down; there are no circles.
        loop {
            let node = self.node(place);
            if node.ready {
                return self.ids.get(place as usize).map(|id| StreamId::new(*id));
            }
            if node.active == 0 {
                return None;
            }
            let key = |child: &u32| (self.node(*child).turn_end(), self.ids[*child as usize]);
            place = self
                .children(place)
                .filter(|child| self.node(*child).is_active())
                .min_by_key(key)?;
        }
    }

    /// A frame of this stream was sent, with this number of bytes.
    pub(crate) fn sent(&mut self, stream: StreamId, bytes: u32) {
        let Some(mut place) = self.find(stream) else { return };
        let bytes = u64::from(bytes) + FRAME_COST;
        while place != ROOT {
            let node = self.node_mut(place);
            let (began, parent) = (node.used, node.parent);
            node.used = began.saturating_add(node.time_of(bytes));
            let parent_node = self.node_mut(parent);
            parent_node.now = parent_node.now.max(began);
            place = parent;
        }
    }

    /// Bytes allocated.
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + (self.ids.capacity() + self.free.capacity()) * size_of::<u32>()
    }

    /// Remembers a parent that has not begun (RFC 7540 section 5.3.1).
    fn announce(&mut self, parent: StreamId, is_idle: impl Fn(StreamId) -> bool) {
        if self.find(parent).is_none() && is_idle(parent) {
            self.add(parent, Life::Announced);
        }
    }

    /// Makes a stream depend on another one (RFC 7540 section 5.3.3). A parent that is unknown, because it was closed and
    /// forgotten, gives the stream the default priority (section 5.3.1).
    fn depend(&mut self, place: u32, dependency: Dependency) {
        self.name(place);
        let parent = self.find(dependency.parent).filter(|parent| *parent != place);
        let Some(parent) = parent else {
            self.node_mut(place).share = share_of(WEIGHT_DEFAULT);
            return self.move_to(place, ROOT);
        };
        self.name(parent);
        // A parent below the stream is put where the stream was, so that there is no circle.
        if self.is_below(parent, place) {
            self.move_to(parent, self.node(place).parent);
        }
        self.node_mut(place).share = share_of(dependency.weight);
        self.move_to(place, parent);
        // It is the first child now.
        while dependency.exclusive
            && let Some(sibling) = some(self.node(place).behind)
        {
            self.move_to(sibling, place);
        }
    }

    fn is_below(&self, mut place: u32, above: u32) -> bool {
        while place != ROOT && place != above {
            place = self.node(place).parent;
        }
        place == above
    }

    /// Adds a node with the default priority.
    fn add(&mut self, stream: StreamId, life: Life) -> u32 {
        let node = Node::new(ROOT, share_of(WEIGHT_DEFAULT), life);
        match life {
            Life::Announced => self.announced += 1,
            Life::Open | Life::Closed => {}
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.ids[place as usize] = stream.value();
                *self.node_mut(place) = node;
                place
            }
            None => {
                self.ids.push(stream.value());
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.link(place, ROOT);
        self.name(place);
        place
    }

    fn set_life(&mut self, place: u32, life: Life) {
        let before = std::mem::replace(&mut self.node_mut(place).life, life);
        for (of, count) in [(before, -1), (life, 1)] {
            match of {
                Life::Announced => self.announced = self.announced.saturating_add_signed(count),
                Life::Closed => self.closed = self.closed.saturating_add_signed(count),
                Life::Open => {}
            }
        }
    }

    /// The stream was named: it is forgotten later than others.
    fn name(&mut self, place: u32) {
        self.names += 1;
        self.node_mut(place).named = self.names;
    }

    /// Forgets streams beyond the limits.
    fn forget(&mut self) {
        while self.announced > ANNOUNCED_MAX {
            let Some(place) = self.oldest(Life::Announced) else { break };
            self.remove(place);
        }
        while self.closed > CLOSED_MAX {
            let Some(place) = self.oldest(Life::Closed) else { break };
            self.remove(place);
        }
    }

    fn oldest(&self, life: Life) -> Option<u32> {
        let places = self.ids.iter().zip(&self.nodes).zip(0..);
        let of_life = places.filter(|((id, node), _)| **id != FREE && node.life == life);
        of_life.min_by_key(|((_, node), _)| node.named).map(|(_, place)| place)
    }

    /// Forgets a node. Its children share its part among its siblings (RFC 7540 section 5.3.4).
    fn remove(&mut self, place: u32) {
        let (parent, share) = (self.node(place).parent, u64::from(self.node(place).share));
        let shares = self.children(place).map(|child| u64::from(self.node(child).share));
        let sum = shares.sum::<u64>().max(1);
        while let Some(child) = self.first_child(place) {
            let node = self.node_mut(child);
            // No larger than `share`, which has 32 bits.
            node.share = (u64::from(node.share) * share / sum).max(1) as u32;
            self.move_to(child, parent);
        }
        self.unlink(place);
        self.set_life(place, Life::Open);
        self.ids[place as usize] = FREE;
        self.free.push(place);
    }

    fn move_to(&mut self, place: u32, parent: u32) {
        self.unlink(place);
        self.link(place, parent);
    }

    fn set_ready(&mut self, place: u32, ready: bool) {
        let was_active = self.node(place).is_active();
        self.node_mut(place).ready = ready;
        match (was_active, self.node(place).is_active()) {
            (false, true) => self.activated(place),
            (true, false) => self.deactivated(self.node(place).parent),
            _ => {}
        }
    }

    /// A node has become active, and those above it with it: none has credit from the time before.
    fn activated(&mut self, mut place: u32) {
        while place != ROOT {
            let parent = self.node(place).parent;
            let now = self.node(parent).now;
            let node = self.node_mut(place);
            node.used = node.used.max(now);
            let above = self.node_mut(parent);
            let was_active = above.is_active();
            above.active += 1;
            if was_active {
                return;
            }
            place = parent;
        }
    }

    /// A child of this node is no longer active.
    fn deactivated(&mut self, mut place: u32) {
        loop {
            let node = self.node_mut(place);
            node.active = node.active.saturating_sub(1);
            if node.is_active() || place == ROOT {
                return;
            }
            place = node.parent;
        }
    }

    /// Takes a node, with all below it, from its parent.
    fn unlink(&mut self, place: u32) {
        let Node { parent, before, behind, .. } = *self.node(place);
        match before {
            NONE => self.node_mut(parent).first = behind,
            _ => self.node_mut(before).behind = behind,
        }
        if behind != NONE {
            self.node_mut(behind).before = before;
        }
        if self.node(place).is_active() {
            self.deactivated(parent);
        }
    }

    /// Puts a node below a parent. What it used under another parent does not count.
    fn link(&mut self, place: u32, parent: u32) {
        let above = self.node_mut(parent);
        let now = above.now;
        let behind = std::mem::replace(&mut above.first, place);
        let node = self.node_mut(place);
        node.parent = parent;
        node.before = NONE;
        node.behind = behind;
        node.used = now;
        let is_active = node.is_active();
        if behind != NONE {
            self.node_mut(behind).before = place;
        }
        if is_active {
            self.activated(place);
        }
    }

    fn children(&self, place: u32) -> impl Iterator<Item = u32> {
        let first = self.first_child(place);
        std::iter::successors(first, |child| some(self.node(*child).behind))
    }

    fn first_child(&self, place: u32) -> Option<u32> {
        some(self.node(place).first)
    }

    fn find(&self, stream: StreamId) -> Option<u32> {
        let place = self.ids.iter().position(|id| *id == stream.value())?;
        Some(place as u32)
    }

    fn node(&self, place: u32) -> &Node {
        // cannot fail: places come from `find`, `add` and the links among nodes, and only free ones are dropped.
        &self.nodes[place as usize]
    }

    fn node_mut(&mut self, place: u32) -> &mut Node {
        // cannot fail: as in `node`.
        &mut self.nodes[place as usize]
    }
}

fn share_of(weight: u8) -> u32 {
    (u32::from(weight) + 1) * SHARE_OF_ONE
}

fn some(place: u32) -> Option<u32> {
    (place != NONE).then_some(place)
}
