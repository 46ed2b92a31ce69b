//! Signals of priority: PRIORITY_UPDATE and the `priority` field of RFC 9218, PRIORITY and HEADERS of RFC 7540.
//!
//! A client that has sent a signal of RFC 9218 is served by that alone (its section 2.1). The tree of RFC 7540 begins
//! with the first signal of a client that has not.

use super::{Connection, Event, Role};
use crate::error::Fault;
use crate::frame::StreamId;
use crate::frame::parse::Dependency;
use crate::priority::Priority;
use crate::stream::Stream;

/// Priorities that are kept for streams that have not begun (RFC 9218 section 7.1 demands a limit).
const EARLY_PRIORITIES_MAX: usize = 16;

impl<R: Role> Connection<R> {
    /// Takes PRIORITY_UPDATE.
    pub(super) fn priority_update(
        &mut self,
        id: StreamId,
        value: &[u8],
    ) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        if !R::IS_SERVER {
            return Err(Fault::Role);
        }
        if !id.is_of_client() {
            return Err(Fault::StreamId);
        }
        self.be_extensible();
        let priority = Priority::parse(value);
        if !self.is_idle(id) {
            self.prioritise(id, priority);
        } else {
            self.early_priorities.retain(|(early, _)| *early != id);
            if self.early_priorities.len() >= EARLY_PRIORITIES_MAX {
                self.early_priorities.pop_front();
            }
            self.early_priorities.push_back((id, priority));
        }
        Ok(None)
    }

    /// Takes PRIORITY. It concerns servers alone, and streams that clients begin.
    pub(super) fn priority(
        &mut self,
        id: StreamId,
        dependency: Dependency,
    ) -> Result<Option<Event<'static>>, Fault> {
        self.budgets.control_frame()?;
        if R::IS_SERVER && id.is_of_client() && self.order.takes_dependencies() {
            self.plant();
            let last = self.last_received;
            let open = std::iter::empty();
            self.order.tree(open).prioritise(id, dependency, |id| is_idle(id, last));
        }
        Ok(None)
    }

    /// Returns the priority of a stream that begins; `dependency` is in its HEADERS. The stream is not in the list yet.
    #[inline]
    pub(super) fn first_priority(
        &mut self,
        id: StreamId,
        dependency: Option<Dependency>,
    ) -> Priority {
        if let Some(priority) = self.early_priority(id).or(self.head().priority) {
            self.be_extensible();
            return priority;
        }
        if self.order.has_tree() || (dependency.is_some() && self.order.takes_dependencies()) {
            self.plant();
            let last = self.last_received;
            let open = std::iter::empty();
            self.order.tree(open).begin(id, dependency, |id| is_idle(id, last));
        }
        Priority::UNSIGNALLED
    }

    /// Makes the order anew of all streams that can be sent.
    pub(super) fn reorder(&mut self) {
        let ready = |stream: &&Stream| stream.wants && stream.send.available() > 0;
        let waiting = self.streams.iter().filter(ready);
        self.order.replace(waiting.map(|stream| (stream.id, stream.priority)));
    }

    /// Begins the tree of RFC 7540 with the streams that are there.
    fn plant(&mut self) {
        if !self.order.has_tree() {
            self.order.tree(self.streams.iter().map(|stream| stream.id));
            self.reorder();
        }
    }

    fn be_extensible(&mut self) {
        if self.order.be_extensible() {
            self.reorder();
        }
    }

    /// The priority that PRIORITY_UPDATE gave a stream before it began.
    fn early_priority(&mut self, id: StreamId) -> Option<Priority> {
        if self.early_priorities.is_empty() {
            return None;
        }
        let found = self.early_priorities.iter().find(|(early, _)| *early == id);
        let priority = found.map(|(_, priority)| *priority);
        self.early_priorities.retain(|(early, _)| *early > id);
        priority
    }
}

/// Whether a client may still begin a stream.
fn is_idle(stream: StreamId, last: StreamId) -> bool {
    stream.is_of_client() && stream > last
}
