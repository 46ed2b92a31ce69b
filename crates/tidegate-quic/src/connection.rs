//! One connection, for what serves it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{ReadError, Transmit, VarInt, WriteError};
use tidegate_rt::{clock, share};
use tidegate_tls::quic::QuicNegotiated;

use crate::address::{PeerAddress, Sent};
use crate::due::Due;
use crate::event::{Closed, ClosedBy, Direction, Event, Served, StreamId};
use crate::waiting::Waiting;

/// A connection. Its methods never wait: events say when to try again. What they change is sent at the end of the
/// endpoint's turn.
pub struct Connection {
    /// The library's state. Borrowed within one method here at a time, and never while [`Served::event`] runs.
    pub(crate) inner: RefCell<quinn_proto::Connection>,
    /// Its number in the endpoint's table.
    pub(crate) handle: usize,
    /// Whether it is in the queue of those that are to be served, or is being served.
    pub(crate) queued: Cell<bool>,
    served: RefCell<Option<Rc<dyn Served>>>,
    address: Cell<PeerAddress>,
    /// Streams on which less was written than wanted.
    pub(crate) waiting: RefCell<Waiting>,
    /// [`Connection::note_vain`] since its service began.
    vain: Cell<u32>,
    /// Streams that the peer has opened wait for the next service.
    accepts_later: Cell<bool>,
    ignored_until: Cell<Option<Instant>>,
    due: Rc<Due>,
}

/// Work in vain that a connection may cause in one service: as much as HTTP/2's in one run.
const VAIN_MAX: u32 = 16;

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes.
    Bytes(Bytes),
    /// The last bytes: the stream has ended, and is not read again.
    Last(Bytes),
    /// Nothing has arrived; [`Event::Readable`](crate::Event::Readable) follows.
    Blocked,
    /// The end of the stream.
    End,
}

/// The reason why a stream takes no bytes, or has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnded {
    /// The peer has reset it, or stopped it where it is written; its error code.
    ByPeer(u64),
    /// It is finished, reset or stopped already, or the connection has ended.
    Closed,
}

impl Connection {
    pub(crate) fn new(
        inner: quinn_proto::Connection,
        handle: usize,
        due: Rc<Due>,
    ) -> Rc<Connection> {
        let address = Cell::new(PeerAddress::new(inner.remote_address()));
        Rc::new(Connection {
            inner: RefCell::new(inner),
            handle,
            queued: Cell::new(false),
            served: RefCell::default(),
            address,
            waiting: RefCell::default(),
            vain: Cell::new(0),
            accepts_later: Cell::new(false),
            ignored_until: Cell::new(None),
            due,
        })
    }

    pub(crate) fn serve(&self, served: Rc<dyn Served>) {
        self.served.replace(Some(served));
    }

    pub(crate) fn served(&self) -> Option<Rc<dyn Served>> {
        self.served.borrow().clone()
    }

    /// Drops what serves it, behind its last event: the two hold each other.
    pub(crate) fn forget_served(&self) {
        self.served.replace(None);
    }

    /// Reports the end, unless that was done.
    pub(crate) fn end(self: &Rc<Self>) {
        if let Some(served) = self.served() {
            let closed = Closed { by: ClosedBy::Us, reason: "closed".to_owned() };
            served.event(self, Event::Closed(closed));
            self.forget_served();
        }
    }

    /// A service begins. Returns whether streams that the peer has opened wait for it.
    pub(crate) fn begin_service(&self) -> bool {
        self.vain.set(0);
        self.accepts_later.take()
    }

    /// Whether streams that the peer has opened wait for the next service.
    pub(crate) fn accepts_later(&self) -> bool {
        self.accepts_later.get()
    }

    /// Whether what the peer sends is dropped unread.
    pub(crate) fn is_ignored(&self, now: Instant) -> bool {
        let is_ignored = self.ignored_until.get().is_some_and(|until| now < until);
        if !is_ignored {
            self.ignored_until.set(None);
        }
        is_ignored
    }

    pub(crate) fn observe_address(&self, now: Instant) {
        let inner = self.inner.borrow();
        let mut address = self.address.get();
        address.observe(inner.remote_address(), now, inner.rtt());
        self.address.set(address);
    }

    /// Whether the peer may have moved to an address that is not validated.
    pub(crate) fn is_moving(&self) -> bool {
        self.address.get().is_moving()
    }

    /// Returns what has been sent so far, for [`Connection::note_sent`].
    pub(crate) fn sent(&self) -> Sent {
        let stats = self.inner.borrow().stats();
        let frames = &stats.frame_tx;
        Sent {
            frames: frames.acks + frames.ping + frames.stream,
            challenges: frames.path_challenge,
            probes: stats.path.sent_plpmtud_probes,
        }
    }

    /// Notes what was sent to an address that was not validated.
    pub(crate) fn note_sent(&self, before: Sent) {
        if self.inner.borrow().is_closed() {
            return;
        }
        let mut address = self.address.get();
        address.sent(before, self.sent());
        self.address.set(address);
    }

    /// Returns the peer's address: the last one at which it was found to receive (RFC 9000 section 8).
    pub fn peer_address(&self) -> SocketAddr {
        self.address.get().valid()
    }

    /// Returns the local address, where the system reports it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.inner.borrow().local_ip()
    }

    /// Returns the result of the handshake as far as it is; `None` before [`Event::Handshake`](crate::Event::Handshake),
    /// and for a client.
    pub fn handshake(&self) -> Option<QuicNegotiated> {
        let data = self.inner.borrow().crypto_session().handshake_data()?;
        data.downcast().ok().map(|negotiated| *negotiated)
    }

    /// Whether the handshake is incomplete: what arrives is early data, which may be a repetition (RFC 9001 section 9.2).
    pub fn is_handshaking(&self) -> bool {
        self.inner.borrow().is_handshaking()
    }

    /// Returns the smoothed round trip time.
    pub fn round_trip(&self) -> Duration {
        self.inner.borrow().rtt()
    }

    /// Returns the next stream that the peer has opened.
    pub fn accept(&self, direction: Direction) -> Option<StreamId> {
        let id = self.inner.borrow_mut().streams().accept(direction.into())?;
        // The peer's limit of streams follows.
        self.due.add(self);
        Some(id.into())
    }

    /// Leaves streams that the peer has opened to the next event-loop iteration: [`Event::Opened`](crate::Event::Opened)
    /// is repeated then.
    pub fn accept_later(&self) {
        self.accepts_later.set(true);
        self.due.add(self);
    }

    /// Notes work that leads nowhere, such as a request that is reset at once. It costs the peer next to nothing, and others
    /// wait for it: after some of it they are served first.
    pub fn note_vain(&self) {
        self.vain.update(|count| count + 1);
        if self.vain.get() >= VAIN_MAX {
            share::end();
        }
    }

    /// Drops the packets of the peer that arrive before `until`, as if they were lost on the way: they cost next to nothing.
    pub fn ignore_until(&self, until: Instant) {
        self.ignored_until.set(Some(until));
    }

    /// Opens a stream; `None` as long as the peer allows no more.
    pub fn open(&self, direction: Direction) -> Option<StreamId> {
        self.inner.borrow_mut().streams().open(direction.into()).map(StreamId::from)
    }

    /// Reads at most `most` bytes of a stream.
    ///
    /// # Errors
    /// The stream was reset or is closed.
    pub fn read(&self, stream: StreamId, most: usize) -> Result<Read, StreamEnded> {
        let mut inner = self.inner.borrow_mut();
        let mut stream = inner.recv_stream(stream.library());
        let mut chunks = stream.read(true).map_err(|_| StreamEnded::Closed)?;
        let read = match chunks.next(most) {
            // Nothing is taken out by the second call, which finds the end: a call of its own would search for the stream
            // once more.
            Ok(Some(chunk)) => match chunks.next(0) {
                Ok(None) => Ok(Read::Last(chunk.bytes)),
                Ok(Some(_)) | Err(ReadError::Blocked) => Ok(Read::Bytes(chunk.bytes)),
                Err(ReadError::Reset(code)) => Err(StreamEnded::ByPeer(code.into_inner())),
            },
            Ok(None) => Ok(Read::End),
            Err(ReadError::Blocked) => Ok(Read::Blocked),
            Err(ReadError::Reset(code)) => Err(StreamEnded::ByPeer(code.into_inner())),
        };
        if chunks.finalize().should_transmit() {
            self.due.add(self);
        }
        read
    }

    /// Writes bytes to a stream, and takes those away that were written; returns their number. Fewer than given, none
    /// included: [`Event::Writable`](crate::Event::Writable) follows.
    ///
    /// # Errors
    /// The peer has stopped the stream, or it is closed.
    pub fn write(&self, stream: StreamId, bytes: &mut Bytes) -> Result<usize, StreamEnded> {
        self.write_pieces(stream, std::slice::from_mut(bytes))
    }

    /// Writes pieces one behind the other, as [`Connection::write`] does: those that were written are empty then, and of one
    /// that was written in part the rest is left.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub fn write_pieces(
        &self,
        stream: StreamId,
        pieces: &mut [Bytes],
    ) -> Result<usize, StreamEnded> {
        let mut inner = self.inner.borrow_mut();
        let mut sending = inner.send_stream(stream.library());
        let written = match sending.write_chunks(pieces) {
            Ok(written) => Ok(written.bytes),
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(code)) => Err(StreamEnded::ByPeer(code.into_inner())),
            Err(WriteError::ClosedStream) => Err(StreamEnded::Closed),
        };
        let mut waiting = self.waiting.borrow_mut();
        let is_new = match written.is_ok() && pieces.iter().any(|piece| !piece.is_empty()) {
            true => waiting.add(stream, sending.priority().unwrap_or_default()),
            false => {
                waiting.remove(stream);
                false
            }
        };
        // A frame tells the peer that more is wanted, once: a stream that waits is tried again in each turn.
        if is_new || matches!(written, Ok(1..)) {
            self.due.add(self);
        }
        written
    }

    /// Ends a stream behind what was written.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub fn finish(&self, stream: StreamId) -> Result<(), StreamEnded> {
        use quinn_proto::FinishError;
        let finished = self.inner.borrow_mut().send_stream(stream.library()).finish();
        self.due.add(self);
        finished.map_err(|error| match error {
            FinishError::Stopped(code) => StreamEnded::ByPeer(code.into_inner()),
            FinishError::ClosedStream => StreamEnded::Closed,
        })
    }

    /// Gives up a stream that is written, with an error code. What was not sent is lost.
    pub fn reset(&self, stream: StreamId, code: u64) {
        self.waiting.borrow_mut().remove(stream);
        // It may have ended already.
        let _ = self.inner.borrow_mut().send_stream(stream.library()).reset(library_code(code));
        self.due.add(self);
    }

    /// Gives up a stream that is read, with an error code.
    pub fn stop(&self, stream: StreamId, code: u64) {
        let _ = self.inner.borrow_mut().recv_stream(stream.library()).stop(library_code(code));
        self.due.add(self);
    }

    /// Sends a PING, which keeps the connection from its idle timeout while a request waits.
    pub fn ping(&self) {
        self.inner.borrow_mut().ping();
        self.due.add(self);
    }

    /// Sets a stream's priority: one of a higher number gets room first, and what is written to it is sent first. Zero at
    /// first.
    pub fn set_priority(&self, stream: StreamId, priority: i32) {
        self.waiting.borrow_mut().move_to(stream, priority);
        let _ = self.inner.borrow_mut().send_stream(stream.library()).set_priority(priority);
    }

    /// Ends the connection with an application's error code. Streams end; nothing that was written is sent any more.
    /// [`Event::Closed`](crate::Event::Closed) follows when the peer has had time to repeat its packets.
    pub fn close(&self, code: u64, reason: &'static str) {
        let reason = Bytes::from_static(reason.as_bytes());
        self.inner.borrow_mut().close(clock::exact_now(), library_code(code), reason);
        self.due.add(self);
    }

    /// Ends the connection, unless it has ended, and returns the packet that says so: nothing follows it.
    pub(crate) fn close_at_once(
        &self,
        code: u64,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut inner = self.inner.try_borrow_mut().ok()?;
        inner.close(now, library_code(code), Bytes::new());
        buffer.clear();
        inner.poll_transmit(now, 1, buffer)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer_address()).finish_non_exhaustive()
    }
}

fn library_code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
