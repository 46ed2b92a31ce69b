//! Connections without a task of their own (QUIC), as the thread knows them: it ends them and checks their time limits.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use slab::Slab;

/// A connection that has no task.
pub(crate) trait Taskless {
    /// Returns since when no request is in progress; `None` while one is, and where the connection has ended.
    fn idle_since(&self) -> Option<Instant>;
    /// Whether it may be closed to make room.
    fn is_free(&self) -> bool;
    /// Returns the generation of its last request.
    fn generation(&self) -> u64;
    /// Ends it gracefully.
    fn drain(&self);
    /// Ends it and all of its requests at once.
    fn abort(&self);
    /// Checks its time limits; it is called about once per second.
    fn sweep(&self, now: Instant);
}

/// Those of a thread.
#[derive(Default)]
pub(crate) struct TasklessConnections(RefCell<Slab<Weak<dyn Taskless>>>);

impl TasklessConnections {
    /// Adds a connection; the returned key is for [`TasklessConnections::remove`].
    pub(crate) fn add(&self, connection: Weak<dyn Taskless>) -> usize {
        self.0.borrow_mut().insert(connection)
    }

    pub(crate) fn remove(&self, key: usize) {
        let mut connections = self.0.borrow_mut();
        connections.try_remove(key);
        if connections.is_empty() {
            connections.shrink_to_fit();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn all(&self) -> Vec<Rc<dyn Taskless>> {
        self.0.borrow().iter().filter_map(|(_, connection)| connection.upgrade()).collect()
    }
}
