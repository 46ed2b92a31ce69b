//! The order in which streams are sent: by priorities of RFC 9218 (the `priority` field, PRIORITY_UPDATE), and for
//! clients that send none of them by the [`tree`] of RFC 7540.

mod tree;

pub use tidegate_fields::Priority;

use crate::frame::StreamId;
use tree::Tree;

/// One stream that has something to send and a window for it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The lowest is next.
    key: u64,
    stream: StreamId,
    priority: Priority,
}

/// The streams that can be sent now. At most as many as there are streams, which a setting limits, so that they are
/// simply looked through: 128 keys are 4 kB in one piece.
#[derive(Debug, Default)]
pub(crate) struct SendOrder {
    /// Empty where there is a tree.
    waiting: Vec<Waiting>,
    /// Counts the turns of incremental streams.
    turn: u32,
    /// The client has sent a priority of RFC 9218: those of RFC 7540 do not count (RFC 9218 section 2.1).
    is_extensible: bool,
    /// The dependencies of RFC 7540, once the client has sent one.
    tree: Option<Box<Tree>>,
}

impl SendOrder {
    /// Whether priorities of RFC 7540 count.
    pub(crate) fn takes_dependencies(&self) -> bool {
        !self.is_extensible
    }

    /// Whether the client has sent a priority of RFC 7540, and none of RFC 9218.
    #[inline]
    pub(crate) fn has_tree(&self) -> bool {
        self.tree.is_some()
    }

    /// The client sends priorities of RFC 9218. Returns whether there was a tree: the caller calls
    /// [`SendOrder::replace`].
    pub(crate) fn be_extensible(&mut self) -> bool {
        self.is_extensible = true;
        self.tree.take().is_some()
    }

    /// Returns the tree. `open` are the streams that have begun; where the tree is new, the caller calls
    /// [`SendOrder::replace`].
    pub(crate) fn tree(&mut self, open: impl Iterator<Item = StreamId>) -> &mut Tree {
        self.tree.get_or_insert_with(|| {
            let mut tree = Box::<Tree>::default();
            open.for_each(|stream| tree.begin(stream, None, |_| false));
            tree
        })
    }

    /// Adds a stream, or moves it to where its priority belongs.
    pub(crate) fn insert(&mut self, stream: StreamId, priority: Priority) {
        if let Some(tree) = &mut self.tree {
            return tree.set(stream, true);
        }
        let key = self.key(stream, priority);
        let found = self.waiting.iter_mut().find(|waiting| waiting.stream == stream);
        match found {
            Some(waiting) if waiting.priority == priority => {}
            Some(waiting) => *waiting = Waiting { key, stream, priority },
            None => self.waiting.push(Waiting { key, stream, priority }),
        }
    }

    /// Puts these streams in place of all, each named once. One pass, where many windows change at once.
    pub(crate) fn replace(&mut self, streams: impl Iterator<Item = (StreamId, Priority)>) {
        self.waiting.clear();
        if let Some(tree) = &mut self.tree {
            tree.clear();
            return streams.for_each(|(stream, _)| tree.set(stream, true));
        }
        for (stream, priority) in streams {
            let key = self.key(stream, priority);
            self.waiting.push(Waiting { key, stream, priority });
        }
    }

    /// Moves a stream that is in the order.
    pub(crate) fn update(&mut self, stream: StreamId, priority: Priority) {
        if self.waiting.iter().any(|waiting| waiting.stream == stream) {
            self.insert(stream, priority);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, stream: StreamId) {
        if !self.waiting.is_empty() || self.tree.is_some() {
            self.take_out(stream);
        }
    }

    fn take_out(&mut self, stream: StreamId) {
        if let Some(tree) = &mut self.tree {
            return tree.set(stream, false);
        }
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.stream == stream) {
            self.waiting.swap_remove(at);
        }
    }

    /// The stream is over.
    #[inline]
    pub(crate) fn close(&mut self, stream: StreamId) {
        match &mut self.tree {
            Some(tree) => tree.close(stream),
            None => self.remove(stream),
        }
    }

    /// Returns the stream to be sent next: the most urgent; among equals those that are not incremental first, by
    /// their numbers, and then the others in turn. With a tree: the first in it.
    pub(crate) fn next(&self) -> Option<StreamId> {
        if let Some(tree) = &self.tree {
            return tree.next();
        }
        let next = self.waiting.iter().min_by_key(|waiting| waiting.key)?;
        Some(next.stream)
    }

    /// A frame of this stream was sent, with this number of bytes: if it is incremental, others of its urgency are next.
    /// Where its window is used up it waits no longer.
    pub(crate) fn sent(&mut self, stream: StreamId, bytes: u32, has_window: bool) {
        if let Some(tree) = &mut self.tree {
            tree.sent(stream, bytes);
        }
        if !has_window {
            return self.remove(stream);
        }
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn;
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.stream == stream)
            && waiting.priority.incremental
        {
            waiting.key = key(waiting.priority, turn);
        }
    }

    /// Bytes allocated.
    pub(crate) fn capacity(&self) -> usize {
        let tree = self.tree.as_ref().map_or(0, |tree| tree.capacity() + size_of::<Tree>());
        self.waiting.capacity() * size_of::<Waiting>() + tree
    }

    pub(crate) fn shrink(&mut self) {
        self.waiting.shrink_to_fit();
        self.tree.take_if(|tree| tree.shrink());
    }

    fn key(&mut self, stream: StreamId, priority: Priority) -> u64 {
        match priority.incremental {
            true => {
                self.turn = self.turn.wrapping_add(1);
                key(priority, self.turn)
            }
            false => key(priority, stream.value()),
        }
    }
}

/// Urgency, then what is not incremental, then the order among equals. Once in 2^32 turns an incremental stream is
/// served twice in a row.
fn key(priority: Priority, order: u32) -> u64 {
    u64::from(priority.urgency) << 33 | u64::from(priority.incremental) << 32 | u64::from(order)
}

#[cfg(test)]
mod tests {
    use super::{Priority, SendOrder};
    use crate::frame::StreamId;

    /// The streams as they are sent, one frame each turn.
    fn sent(order: &mut SendOrder, turns: usize) -> Vec<u32> {
        let mut streams = Vec::new();
        for _ in 0..turns {
            let Some(stream) = order.next() else { break };
            order.sent(stream, 1, true);
            streams.push(stream.value());
        }
        streams
    }

    #[test]
    fn urgency_comes_first_then_numbers_then_turns() {
        let mut order = SendOrder::default();
        let at = |urgency, incremental| Priority { urgency, incremental };
        for (stream, priority) in [
            (9, at(3, true)),
            (3, at(5, false)),
            (7, at(3, false)),
            (5, at(3, false)),
            (1, at(3, true)),
            (11, at(3, true)),
            (13, at(0, true)),
        ] {
            order.insert(StreamId::new(stream), priority);
        }
        assert_eq!(sent(&mut order, 2), [13, 13]);
        order.remove(StreamId::new(13));
        assert_eq!(sent(&mut order, 2), [5, 5]);
        order.remove(StreamId::new(5));
        assert_eq!(sent(&mut order, 1), [7]);
        order.remove(StreamId::new(7));
        assert_eq!(sent(&mut order, 5), [9, 1, 11, 9, 1]);
        // A second call does not change the turn.
        order.insert(StreamId::new(11), at(3, true));
        assert_eq!(sent(&mut order, 2), [11, 9]);
        order.update(StreamId::new(3), at(1, false));
        order.update(StreamId::new(99), at(0, false));
        assert_eq!(sent(&mut order, 1), [3]);
        let all = [(5, at(3, true)), (7, at(3, true)), (9, at(3, false))];
        order.replace(all.into_iter().map(|(stream, at)| (StreamId::new(stream), at)));
        assert_eq!(sent(&mut order, 1), [9]);
        order.remove(StreamId::new(9));
        assert_eq!(sent(&mut order, 3), [5, 7, 5]);
    }
}
