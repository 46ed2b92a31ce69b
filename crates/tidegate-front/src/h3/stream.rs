//! One stream: the client of its request, and what waits in each direction.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use tidegate_codec::Headers;
use tidegate_core::LocalFuture;
use tidegate_core::client::{CancelCode, Client};
use tidegate_h3::ErrorCode;
use tidegate_quic::{StreamEnded, StreamId};
use tidegate_rt::clock;

use super::connection::QuicLink;
use crate::serve::stream_body::Incoming;
use crate::serve::streams::{Inbox, StreamState, remember};

/// Bytes of a body that are kept before a module takes them; QUIC holds back what is beyond.
const INBOX_BYTES: usize = 16 * 1024;

/// A request's access to its stream.
pub(crate) struct Stream {
    /// `None` behind the request.
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
    pub(super) link: Rc<QuicLink>,
    pub(super) id: u64,
}

/// What is to be sent and QUIC had no room for.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Bytes>,
    /// The stream ends behind them.
    ends: bool,
    has_ended: bool,
    /// Bytes that QUIC has taken, in all.
    pub(super) taken: u64,
    /// Bytes of heads and of frames' headers, in all.
    pub(super) overhead: u64,
    /// When QUIC took bytes last (`send_timeout`).
    pub(super) progress: Option<Instant>,
    pub(super) sender: Option<Waker>,
}

impl Outbox {
    /// Whether QUIC has taken all, the end included.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && (self.has_ended || !self.ends)
    }

    /// Gives QUIC pieces before which nothing waits, and the end behind them. What it takes is empty then.
    ///
    /// # Errors
    /// The stream takes no more.
    fn give(&mut self, place: &Place, pieces: &mut [Bytes]) -> Result<(), StreamEnded> {
        let (quic, id) = (&place.link.quic, StreamId(place.id));
        if pieces.iter().any(|piece| !piece.is_empty()) {
            let count = quic.write_pieces(id, pieces)?;
            if count > 0 {
                self.taken += count as u64;
                self.progress = Some(clock::now());
            }
        }
        if self.ends && !self.has_ended && pieces.iter().all(Bytes::is_empty) {
            quic.finish(id)?;
            self.has_ended = true;
            place.link.finished(place.id);
        }
        Ok(())
    }
}

impl Stream {
    /// Makes the client of a request.
    pub(super) fn new(link: Rc<QuicLink>, id: u64) -> Rc<Stream> {
        Rc::new(Stream {
            place: RefCell::new(Some(Place { link, id })),
            state: Cell::default(),
            inbox: RefCell::default(),
            outbox: RefCell::default(),
            watcher: RefCell::default(),
            body_bytes: Cell::default(),
            extended: Cell::default(),
        })
    }

    /// Releases the connection: the request has ended.
    pub(super) fn detach(&self) {
        self.place.replace(None);
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.place.borrow().clone()
    }

    /// Whether the request is an extended CONNECT (RFC 9220).
    pub(super) fn is_extended(&self) -> bool {
        self.extended.get()
    }

    pub(super) fn set_extended(&self, extended: bool) {
        self.extended.set(extended);
    }

    pub(super) fn state(&self) -> StreamState {
        self.state.get()
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

    /// Returns the code by which the stream is given up, should it not be complete at the end of its request.
    pub(super) fn end_code(&self) -> ErrorCode {
        match self.state.get() {
            StreamState::Cancelled(CancelCode::Reset) | StreamState::Left => {
                ErrorCode::REQUEST_CANCELLED
            }
            StreamState::Open | StreamState::Cancelled(CancelCode::Close) => {
                ErrorCode::INTERNAL_ERROR
            }
        }
    }

    /// Keeps a piece of the body that was received.
    pub(super) fn received(&self, bytes: &[u8], end: bool) {
        self.body_bytes.update(|count| count + bytes.len() as u64);
        self.inbox.borrow_mut().received(bytes, end);
    }

    /// Whether more of the body may be read from QUIC.
    pub(super) fn has_room(&self) -> bool {
        self.inbox.borrow().bytes.len() < INBOX_BYTES
    }

    /// Sends bytes, as far as QUIC has room; the rest waits for it. `overhead` of them are no bytes of a body.
    pub(super) fn send(&self, place: &Place, bytes: Bytes, overhead: usize) {
        self.send_all(place, [bytes, Bytes::new()], overhead, false);
    }

    /// The same with two pieces, and the end of the stream behind them if `ends` is set.
    pub(super) fn send_all(
        &self,
        place: &Place,
        mut pieces: [Bytes; 2],
        overhead: usize,
        ends: bool,
    ) {
        let mut outbox = self.outbox.borrow_mut();
        outbox.overhead += overhead as u64;
        outbox.ends |= ends;
        // Mostly nothing waits, and QUIC takes all at once.
        let is_behind = !outbox.waiting.is_empty();
        let result = match is_behind {
            true => Ok(()),
            false => outbox.give(place, &mut pieces),
        };
        outbox.waiting.extend(pieces.into_iter().filter(|bytes| !bytes.is_empty()));
        drop(outbox);
        match result {
            Ok(()) if is_behind => self.pump(place),
            Ok(()) => {}
            Err(_) => self.leave(),
        }
    }

    /// Ends the stream behind what waits.
    pub(super) fn end(&self, place: &Place) {
        self.send_all(place, Default::default(), 0, true);
    }

    /// Gives QUIC what waits, as far as it has room.
    pub(super) fn pump(&self, place: &Place) {
        let mut outbox = self.outbox.borrow_mut();
        let mut waiting = std::mem::take(&mut outbox.waiting);
        let result = outbox.give(place, waiting.make_contiguous());
        waiting.retain(|bytes| !bytes.is_empty());
        outbox.waiting = waiting;
        let sender = if outbox.is_empty() { outbox.sender.take() } else { None };
        drop(outbox);
        if let Some(sender) = sender {
            sender.wake();
        }
        if result.is_err() {
            self.leave();
        }
    }

    /// Writes an interim head.
    pub(super) fn interim(&self, status: u16, headers: &Headers) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let place = self.place().ok_or_else(gone)?;
        let mut out = Vec::new();
        let written = place.link.with_core(|core| {
            core.respond_interim(place.id, status, &mut out, |fields| fields.push_all(headers))
        });
        if !matches!(written, Some(Ok(_))) {
            return Err(gone());
        }
        place.link.send_own();
        let length = out.len();
        self.send(&place, Bytes::from(out), length);
        Ok(())
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
        Box::pin(std::future::ready(self.interim(status, headers)))
    }
}

impl Incoming for Stream {
    fn inbox(&self) -> &RefCell<Inbox> {
        &self.inbox
    }

    fn state(&self) -> StreamState {
        self.state.get()
    }

    fn fill(&self) {
        let wants = {
            let inbox = self.inbox.borrow();
            inbox.bytes.is_empty() && !inbox.ended && inbox.fault.is_none()
        };
        if wants && let Some(place) = self.place() {
            place.link.read(place.id);
        }
    }

    fn taken(&self, _: usize) {}

    fn send_continue(&self) {
        let _ = self.interim(100, &Headers::default());
    }
}
