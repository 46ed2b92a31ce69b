//! What a link keeps of HTTP/2: the protocol's state, and the wake-ups of its streams.

use std::cell::{RefCell, RefMut};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tidegate_h2::{Buffers, Config, Connection, ErrorCode, SendError, Server, StreamId};

use super::output::Bodies;
use super::wakes::Wakes;
use crate::io::Io;

/// HTTP/2 on one connection. Its link owns it; the driver and the streams in progress share it.
pub(crate) struct Multiplexer {
    core: RefCell<Connection<Server>>,
    /// Pieces of bodies that are sent from where they are.
    bodies: RefCell<Bodies>,
    pub(super) wakes: Arc<Wakes>,
    /// The begin of the connection, from which the protocol's budgets count.
    pub(super) began: Instant,
}

impl Multiplexer {
    /// Begins the protocol; SETTINGS wait to be sent.
    pub(crate) fn new(config: Arc<Config>, began: Instant) -> Rc<Multiplexer> {
        Rc::new(Multiplexer {
            core: RefCell::new(Connection::<Server>::new(config)),
            bodies: RefCell::default(),
            wakes: Arc::default(),
            began,
        })
    }

    /// Returns the protocol's state, for single calls.
    pub(super) fn core(&self) -> RefMut<'_, Connection<Server>> {
        self.core.borrow_mut()
    }

    /// Changes the protocol's state from within a request. What that makes to be sent leaves with the driver's next
    /// run, which is woken unless it is what runs.
    pub(super) fn command<T>(&self, work: impl FnOnce(&mut Connection<Server>) -> T) -> T {
        let result = work(&mut self.core.borrow_mut());
        self.wakes.wake_driver();
        result
    }

    /// Forgets a stream whose request has ended; it is reset with `code` unless both messages are complete.
    pub(super) fn close(&self, stream: StreamId, code: ErrorCode) {
        self.command(|core| core.close(stream, code));
    }

    /// Adds a piece of a body to what is to be sent; windows allow it.
    ///
    /// # Errors
    /// The stream is closed.
    pub(super) fn send_data(
        &self,
        stream: StreamId,
        bytes: Bytes,
        ends: bool,
    ) -> Result<(), SendError> {
        self.bodies.borrow_mut().send(&mut self.core.borrow_mut(), stream, bytes, ends)
    }

    /// Whether so much waits to be sent that nothing is pulled and nothing is read until it is.
    pub(super) fn is_full(&self) -> bool {
        let core = self.core.borrow();
        core.output_is_full() || self.bodies.borrow().is_full(core.output().len())
    }

    /// Whether all is sent.
    pub(super) fn is_sent(&self) -> bool {
        self.core.borrow().output().is_empty() && self.bodies.borrow().is_empty()
    }

    /// Sends what waits; returns the bytes taken, 0 where nothing waits.
    pub(super) fn poll_send(&self, io: &Io, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.bodies.borrow_mut().poll_send(&mut self.core.borrow_mut(), io, context)
    }

    /// Drops what waits: nothing can be sent any more.
    pub(super) fn discard(&self) {
        let mut core = self.core.borrow_mut();
        core.abort(ErrorCode::NO_ERROR);
        self.bodies.take();
    }

    /// Whether nothing is in progress, so that the connection may wait without a task.
    pub(crate) fn is_quiet(&self) -> bool {
        self.core.borrow().is_quiet() && self.bodies.borrow().is_empty()
    }

    /// Takes buffers for as long as the driver runs.
    pub(super) fn lend(&self, buffers: Box<Buffers>) {
        self.core.borrow_mut().lend(buffers);
    }

    /// Returns the buffers, for another connection, if nothing is in progress.
    pub(super) fn take_back(&self) -> Option<Box<Buffers>> {
        self.core.borrow_mut().take_back()
    }

    /// Gives memory back that a quiet connection needs not: that of tables beyond their contents.
    pub(crate) fn rest(&self) {
        if self.is_quiet() {
            self.core.borrow_mut().release_memory();
            *self.bodies.borrow_mut() = Bodies::default();
            self.wakes.release();
        }
    }

    /// Says goodbye before an idle connection is closed, as far as the socket takes it at once (RFC 9113 section 6.8).
    pub(crate) fn say_goodbye(&self, io: &Io) {
        let mut context = Context::from_waker(Waker::noop());
        let mut core = self.core.borrow_mut();
        core.go_away(ErrorCode::NO_ERROR);
        let _ = io.poll_write(&mut context, core.output());
        let _ = io.poll_flush(&mut context);
    }
}
