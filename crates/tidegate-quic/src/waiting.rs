//! The streams that wait for room, in the order in which they get it.
//!
//! The transport has room for a number of bytes that are not acknowledged, for all streams of a connection together. It
//! reports the room to the stream that was refused last: under load, the first ones would wait for as long as others
//! come. Here, streams get room by priority, and within a priority in the order in which they began to wait.

use crate::event::StreamId;

/// A stream that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    priority: i32,
    stream: StreamId,
}

/// Streams on which less was written than wanted, each once.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The highest priority first; within one, those that have waited longest.
    order: Vec<Waiter>,
}

impl Waiting {
    /// Adds a stream, unless it waits already: then it keeps its place. Returns whether it is new.
    pub(crate) fn add(&mut self, stream: StreamId, priority: i32) -> bool {
        if self.order.iter().any(|waiter| waiter.stream == stream) {
            return false;
        }
        let at = self.order.partition_point(|waiter| waiter.priority >= priority);
        self.order.insert(at, Waiter { priority, stream });
        true
    }

    /// Removes a stream, which has got all that it wanted or has ended.
    pub(crate) fn remove(&mut self, stream: StreamId) {
        if !self.order.is_empty() {
            self.order.retain(|waiter| waiter.stream != stream);
        }
    }

    /// Moves a stream that waits to its place within another priority, behind those that are there.
    pub(crate) fn move_to(&mut self, stream: StreamId, priority: i32) {
        if self.order.iter().any(|waiter| waiter.stream == stream) {
            self.remove(stream);
            self.add(stream, priority);
        }
    }

    /// Returns the streams in their order.
    pub(crate) fn streams(&self) -> Vec<StreamId> {
        self.order.iter().map(|waiter| waiter.stream).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_wait_by_priority_and_then_by_time() {
        let mut waiting = Waiting::default();
        for (stream, priority) in [(0, 1), (4, 3), (8, 1), (0, 9), (12, 3), (16, 2)] {
            assert_eq!(waiting.add(StreamId(stream), priority), priority != 9, "stream {stream}");
        }
        let order = |waiting: &Waiting| waiting.streams().iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(order(&waiting), [4, 12, 16, 0, 8]);
        waiting.move_to(StreamId(4), 1);
        waiting.move_to(StreamId(20), 9);
        waiting.remove(StreamId(16));
        assert_eq!(order(&waiting), [12, 0, 8, 4]);
        [12, 0, 8, 4, 4].into_iter().for_each(|stream| waiting.remove(StreamId(stream)));
        assert!(waiting.is_empty());
    }
}
