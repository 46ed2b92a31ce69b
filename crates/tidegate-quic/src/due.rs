//! The order in which the connections of an endpoint are served.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use crate::connection::Connection;

/// The connections that are to be served, and the waker of the task that serves them.
#[derive(Default)]
pub(crate) struct Due {
    pub(crate) queue: RefCell<VecDeque<usize>>,
    pub(crate) waker: RefCell<Option<Waker>>,
    /// The task runs, and looks at the queue before it waits.
    pub(crate) in_turn: Cell<bool>,
}

impl Due {
    pub(crate) fn add(&self, connection: &Connection) {
        if connection.queued.replace(true) {
            return;
        }
        self.queue.borrow_mut().push_back(connection.handle);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if !self.in_turn.get()
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
}
