//! One stream: the client of its request, and what waits in each direction.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::LocalFuture;
use tidegate_core::client::{CancelCode, Client};
use tidegate_h2::{ErrorCode, StreamId};

use super::connection::Multiplexer;
use crate::link::Link;
use crate::serve::stream_body::Incoming;
use crate::serve::streams::{Inbox, StreamState, remember};

/// A request's access to its stream. Its memory is reused by other requests ([`crate::serve::scratch`]) unless a
/// reference to it outlives the request.
#[derive(Default)]
pub(crate) struct Stream {
    /// `None` while the memory is spare.
    place: RefCell<Option<Place>>,
    state: Cell<StreamState>,
    pub(super) inbox: RefCell<Inbox>,
    pub(super) outbox: RefCell<Outbox>,
    /// Wakes the task that waits for the client's leaving.
    watcher: RefCell<Option<Waker>>,
    /// See [`Client::body_bytes`].
    body_bytes: Cell<u64>,
    /// The request is an extended CONNECT.
    extended: Cell<bool>,
}

/// Where a stream is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) link: Rc<Link>,
    pub(super) multiplexer: Rc<Multiplexer>,
    pub(super) id: StreamId,
}

/// What is to be sent of a response's body: one piece, which leaves by the order of priorities as the windows allow.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) piece: Piece,
    /// `http2_chunk_size`.
    pub(super) chunk_bytes: u32,
    /// When bytes of it left last (`send_timeout`).
    pub(super) progress: Option<Instant>,
    /// Bytes that have left, in all, without those of their frames.
    pub(super) sent: u64,
    /// Their frames.
    pub(super) frames: u64,
    pub(super) sender: Option<Waker>,
}

/// ```text
///          wants room            the order reaches it
///   None ─────────────▶ Hungry ───────────────────────▶ None, the sender is woken and may pull
///     │ a piece
///     └───────────────▶ Bytes ─── all of it left ─────▶ None, the sender is woken
/// ```
#[derive(Default)]
pub(super) enum Piece {
    #[default]
    None,
    /// A window is shut: nothing is pulled before there is room.
    Hungry,
    /// A piece, with whether it ends the message.
    Bytes(Bytes, bool),
}

impl Stream {
    /// Attaches it to a new stream.
    pub(crate) fn attach(&self, link: Rc<Link>, multiplexer: Rc<Multiplexer>, id: StreamId) {
        self.place.replace(Some(Place { link, multiplexer, id }));
    }

    /// Makes it spare: its request has ended.
    pub(crate) fn detach(&self) {
        let Stream { place, state, inbox, outbox, watcher, body_bytes, extended } = self;
        place.replace(None);
        state.set(StreamState::Open);
        body_bytes.set(0);
        extended.set(false);
        watcher.take();
        let mut inbox = inbox.borrow_mut();
        *inbox = Inbox::default();
        outbox.replace(Outbox::default());
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.place.borrow().clone()
    }

    pub(super) fn state(&self) -> StreamState {
        self.state.get()
    }

    /// Whether the request is an extended CONNECT (RFC 8441).
    pub(super) fn is_extended(&self) -> bool {
        self.extended.get()
    }

    pub(super) fn set_extended(&self, extended: bool) {
        self.extended.set(extended);
    }

    /// The client has left, by a reset or with its connection.
    pub(super) fn leave(&self) {
        if self.state.get() == StreamState::Open {
            self.state.set(StreamState::Left);
        }
        let wakers = [
            self.watcher.take(),
            self.inbox.borrow_mut().reader.take(),
            self.outbox.borrow_mut().sender.take(),
        ];
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Returns the code of the stream's reset, should it not be complete at the end of its request.
    pub(super) fn end_code(&self) -> ErrorCode {
        match self.state.get() {
            StreamState::Cancelled(CancelCode::Reset) | StreamState::Left => ErrorCode::CANCEL,
            StreamState::Open | StreamState::Cancelled(CancelCode::Close) => {
                ErrorCode::INTERNAL_ERROR
            }
        }
    }

    /// Puts a piece into the empty outbox.
    pub(super) fn put(&self, piece: Piece) {
        let mut outbox = self.outbox.borrow_mut();
        outbox.piece = piece;
        outbox.progress = None;
    }

    /// Keeps a piece of the body that was received.
    pub(super) fn received(&self, bytes: &[u8], end: bool) {
        self.body_bytes.update(|count| count + bytes.len() as u64);
        self.inbox.borrow_mut().received(bytes, end);
    }
}

impl Outbox {
    /// A frame with this number of bytes has left.
    pub(super) fn count(&mut self, bytes: u64) {
        self.sent += bytes;
        self.frames += 1;
    }
}

impl Client for Stream {
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.place.borrow().is_none() || self.state.get() == StreamState::Left {
            return Poll::Ready(());
        }
        remember(&mut self.watcher.borrow_mut(), context);
        Poll::Pending
    }

    fn cancel(&self, code: CancelCode) {
        if !matches!(self.state.get(), StreamState::Cancelled(_)) {
            self.state.set(StreamState::Cancelled(code));
        }
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }

    fn send_interim<'a>(
        &'a self,
        status: u16,
        headers: &'a Headers,
    ) -> LocalFuture<'a, io::Result<()>> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        Box::pin(async move {
            let place = self.place().ok_or_else(gone)?;
            let send = |core: &mut tidegate_h2::Connection<tidegate_h2::Server>| {
                core.respond_interim(place.id, status, |fields| fields.push_all(headers))
            };
            place.multiplexer.command(send).map(drop).map_err(|_| gone())
        })
    }

    fn tcp_info(&self) -> Option<[u32; 4]> {
        self.place()?.link.tcp_info()
    }
}

impl Incoming for Stream {
    fn inbox(&self) -> &RefCell<Inbox> {
        &self.inbox
    }

    fn state(&self) -> StreamState {
        self.state.get()
    }

    fn fill(&self) {}

    fn taken(&self, bytes: usize) {
        if let Some(place) = self.place() {
            place.multiplexer.command(|core| core.consumed(place.id, bytes as u32));
        }
    }

    fn send_continue(&self) {
        if let Some(place) = self.place() {
            let _ = place.multiplexer.command(|core| core.respond_interim(place.id, 100, |_| {}));
        }
    }
}
