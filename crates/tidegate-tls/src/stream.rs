//! A decrypted byte stream over a socket, the same for both sides.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rt::net::Stream;
use tidegate_rt::sync::{AsyncBufRead, AsyncWrite};

use crate::side::Side;

/// The room made for a caller without any, in bytes.
const ROOM_BYTES: usize = 4096;

/// TLS over a socket, after a finished handshake. It has no buffer of its own: decrypted bytes wait in the
/// library only until they are read, encrypted ones until the socket accepts them, so a flush follows writes.
///
/// All calls take `&self`: one task may read while another writes. None of them calls back, so none finds the
/// session in use.
pub struct TlsStream<S: Side> {
    stream: Rc<Stream>,
    session: RefCell<S::Session>,
}

impl<S: Side> TlsStream<S> {
    /// Makes a stream of `session`, which is over `stream`.
    pub(crate) fn new(stream: Rc<Stream>, session: S::Session) -> TlsStream<S> {
        TlsStream { stream, session: RefCell::new(session) }
    }

    /// Returns the socket below.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.stream
    }

    /// Returns whether a read would return something without a system call: decrypted bytes, the end, or an
    /// error.
    pub fn is_read_ready(&self) -> bool {
        S::is_read_ready(&mut self.session.borrow_mut())
    }

    /// Reads the bytes that have arrived; 0 is the end. As in nginx, a connection closed without close_notify
    /// has ended like any other: HTTP itself has the ends of messages.
    ///
    /// # Errors
    /// Errors of the socket, or the peer's bytes are no TLS.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        let take = |bytes: &[u8]| buffer[..bytes.len()].copy_from_slice(bytes);
        poll_take(Pin::new(&mut *self.session.borrow_mut()), context, room, take)
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
        let start = buffer.len();
        let mut session = self.session.borrow_mut();
        while buffer.len() < buffer.capacity() {
            let room = buffer.capacity() - buffer.len();
            let take = |bytes: &[u8]| buffer.extend_from_slice(bytes);
            match poll_take(Pin::new(&mut *session), context, room, take) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(_)) => {}
                _ if buffer.len() > start => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(buffer.len() - start))
    }

    /// Encrypts bytes and passes them to the socket, as many as are accepted.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.session.borrow_mut()).poll_write(context, bytes)
    }

    /// Encrypts several pieces, as many bytes as are accepted.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.session.borrow_mut()).poll_write_vectored(context, pieces)
    }

    /// Passes the encrypted bytes to the socket.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.session.borrow_mut()).poll_flush(context)
    }

    /// Sends close_notify and ends the sending side.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.session.borrow_mut()).poll_shutdown(context)
    }
}

/// Passes at most `room` decrypted bytes to `take`, and returns their number.
fn poll_take(
    mut session: Pin<&mut impl AsyncBufRead>,
    context: &mut Context<'_>,
    room: usize,
    take: impl FnOnce(&[u8]),
) -> Poll<io::Result<usize>> {
    let count = match session.as_mut().poll_fill_buf(context) {
        Poll::Ready(Ok(bytes)) => {
            let bytes = &bytes[..bytes.len().min(room)];
            take(bytes);
            bytes.len()
        }
        // The peer closed without close_notify.
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
        Poll::Pending => return Poll::Pending,
    };
    session.consume(count);
    Poll::Ready(Ok(count))
}

impl<S: Side> Drop for TlsStream<S> {
    fn drop(&mut self) {
        S::drop_session(self.session.get_mut(), &self.stream);
    }
}

impl<S: Side> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}
