//! A decrypted byte stream over a socket, the same for both sides.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::{Error, HandshakeKind, InvalidMessage};
use tidegate_rt::net::Stream;

use crate::buffers::{self, INPUT_BYTES};
use crate::error::HandshakeError;
use crate::session::{Library, Progress, Session};
use crate::side::Side;

/// The room made for a caller without any, in bytes.
const ROOM_BYTES: usize = 4096;

/// TLS over a socket, after a finished handshake. It holds buffers only while bytes wait in them: decrypted bytes
/// until they are read, the first part of a record until its rest arrives, encrypted bytes until the socket accepts
/// them, so a flush follows writes.
///
/// All calls take `&self`: one task may read while another writes. None of them calls back, so none finds the
/// session in use.
pub struct TlsStream<S: Side> {
    stream: Rc<Stream>,
    state: RefCell<State<S::Connection>>,
}

struct State<C: Library> {
    session: Session<C>,
    /// The last read filled its buffer, so more may wait in the socket.
    is_more_likely: bool,
}

impl<S: Side> TlsStream<S> {
    /// Makes a stream of `session`, which is over `stream`.
    pub(crate) fn new(stream: Rc<Stream>, mut session: Session<S::Connection>) -> TlsStream<S> {
        session.input.rest();
        let state = RefCell::new(State { session, is_more_likely: false });
        TlsStream { stream, state }
    }

    /// Returns whether its session is that of an earlier connection.
    pub fn is_resumed(&self) -> bool {
        let state = self.state.borrow();
        state.session.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the socket below.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.stream
    }

    /// Returns whether a read would return something without a system call: decrypted bytes, the end, or an
    /// error.
    pub fn is_read_ready(&self) -> bool {
        self.state.borrow_mut().session.is_read_ready()
    }

    /// Returns whether more may be read before the socket reports an event: bytes that were decrypted, or that may
    /// wait in the socket.
    pub fn may_have_more(&self) -> bool {
        let state = self.state.borrow();
        state.is_more_likely || state.session.has_unread()
    }

    /// Returns whether encrypted bytes wait for the socket.
    pub fn has_unsent(&self) -> bool {
        !self.state.borrow().session.output.is_empty()
    }

    /// Returns whether nothing waits to be read or sent but what is in the socket, and neither side has failed or
    /// closed.
    pub fn is_idle(&self) -> bool {
        self.state.borrow().session.is_idle()
    }

    /// Frees what an idle connection does not need: expanded keys. They are expanded again when they are used.
    pub fn rest(&self) {
        self.state.borrow().session.rest();
    }

    /// Reads the bytes that have arrived; 0 is the end. As in nginx, a connection closed without close_notify
    /// has ended like any other, if no record is cut: HTTP itself has the ends of messages.
    ///
    /// # Errors
    /// Errors of the socket, or the peer's bytes are no TLS.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let fill = |state: &mut State<_>| self.poll_receive(state, context);
        self.read(|session| session.open_slice(buffer), fill)
    }

    /// Reads all available bytes into a vector's spare capacity, as [`TlsStream::poll_read`] does.
    ///
    /// # Errors
    /// As [`TlsStream::poll_read`]. An error after bytes is returned by the next call.
    pub fn poll_read_append(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if buffer.len() == buffer.capacity() {
            buffer.reserve(ROOM_BYTES);
        }
        let fill = |state: &mut State<_>| self.poll_receive(state, context);
        self.read(|session| session.open(buffer), fill)
    }

    /// As [`TlsStream::poll_read_append`], but neither waits nor remembers that nothing was there: for sockets that
    /// an `IdlePoller` reports.
    ///
    /// # Errors
    /// As [`TlsStream::poll_read_append`]; `WouldBlock` when no data has arrived.
    pub fn read_arrived(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let fill = |state: &mut State<S::Connection>| {
            let Some(input) = state.session.input.room() else { return too_long() };
            let room = input.capacity() - input.len();
            match self.stream.read_arrived(input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.is_more_likely = false;
                    Poll::Pending
                }
                read => Poll::Ready(read.map(|count| state.received(count, room))),
            }
        };
        match self.read(|session| session.open(buffer), fill) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Reads with `open`, and has `fill` receive further bytes as long as there is no data.
    fn read(
        &self,
        mut open: impl FnMut(&mut Session<S::Connection>) -> io::Result<usize>,
        mut fill: impl FnMut(&mut State<S::Connection>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.state.borrow_mut();
        let result = loop {
            let opened = open(&mut state.session);
            self.send_control(&mut state.session);
            match opened {
                Ok(0) if !state.session.is_peer_closed() => {}
                opened => break Poll::Ready(opened),
            }
            match fill(state) {
                Poll::Ready(Ok(0)) => {
                    let is_cut = !state.session.input.is_empty();
                    let end = if is_cut { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(0) };
                    break Poll::Ready(end);
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        state.session.input.rest();
        result
    }

    /// Receives bytes into the session's input; 0 is the end of the stream.
    fn poll_receive(
        &self,
        state: &mut State<S::Connection>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let (read, room) = if state.session.input.is_empty() {
            let (mut fresh, room) = (None, INPUT_BYTES);
            let read = self.stream.poll_read_fresh(context, &mut fresh, room, buffers::input);
            state.session.input.replace(fresh.unwrap_or_default());
            (read, room)
        } else {
            let Some(input) = state.session.input.room() else { return too_long() };
            let room = input.capacity() - input.len();
            (self.stream.poll_read_append(context, input), room)
        };
        if read.is_pending() {
            state.is_more_likely = false;
        }
        read.map_ok(|count| state.received(count, room))
    }

    /// Sends what the library has to say by itself (an alert), without waiting: the rest is sent with the next
    /// bytes.
    fn send_control(&self, session: &mut Session<S::Connection>) {
        if !session.output.is_empty()
            && let Ok(count) = self.stream.try_write(session.output.pending())
        {
            session.output.sent(count);
        }
    }

    /// Encrypts bytes and passes them to the socket, as many as are accepted.
    ///
    /// # Errors
    /// Errors of the socket; the session has failed or is closed.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    /// Encrypts several pieces, as many bytes as are accepted.
    ///
    /// # Errors
    /// As [`TlsStream::poll_write`].
    pub fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let session = &mut self.state.borrow_mut().session;
        ready!(self.poll_send(session, context))?;
        let sealed = session.seal(pieces)?;
        match self.poll_send(session, context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(sealed)),
        }
    }

    /// Passes the encrypted bytes to the socket.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(&mut self.state.borrow_mut().session, context)
    }

    /// Sends close_notify and ends the sending side.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = &mut self.state.borrow_mut().session;
        session.close();
        ready!(self.poll_send(session, context))?;
        match self.stream.shutdown_write() {
            // The peer closed first.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }

    /// Sends close_notify as far as the peer's window has room.
    pub fn close_now(&self) {
        let session = &mut self.state.borrow_mut().session;
        session.close();
        self.send_control(session);
    }

    fn poll_send(
        &self,
        session: &mut Session<S::Connection>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !session.output.is_empty() {
            let sent = ready!(self.stream.poll_write(context, session.output.pending()))?;
            session.output.sent(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<C: Library> State<C> {
    /// Notes that `count` bytes were received where `room` bytes would have fitted.
    fn received(&mut self, count: usize, room: usize) -> usize {
        self.session.received();
        self.is_more_likely = count == room;
        count
    }
}

fn too_long<T>() -> Poll<io::Result<T>> {
    let text = "a handshake message is too long";
    Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)))
}

/// Completes the handshake of a session over `stream`.
///
/// Cancelling: the session can only be dropped; so can the stream, which may have taken a part of a message.
///
/// # Errors
/// The handshake failed; the peer has been sent an alert where there is one for the reason.
pub(crate) async fn handshake<C: Library>(
    stream: &Stream,
    session: &mut Session<C>,
) -> Result<(), HandshakeError> {
    loop {
        let progress = session.handshake();
        let sent = stream.write_all(session.output.pending()).await;
        session.output.clear();
        let progress = progress.map_err(|error| HandshakeError::from(&error))?;
        sent.map_err(HandshakeError::Socket)?;
        if progress == Progress::Ready {
            return Ok(());
        }
        let Some(input) = session.input.room() else {
            let error = Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
            return Err(HandshakeError::from(&error));
        };
        if stream.read_append(input).await.map_err(HandshakeError::Socket)? == 0 {
            return Err(HandshakeError::Closed);
        }
        session.received();
    }
}

impl<S: Side> Drop for TlsStream<S> {
    fn drop(&mut self) {
        if S::CLOSES_ON_DROP {
            self.close_now();
        }
    }
}

impl<S: Side> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}
