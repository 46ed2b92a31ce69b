//! A decrypted byte stream from an origin.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rt::net::Stream;
use tidegate_rt::sync::{AsyncBufRead, AsyncWrite, StreamIo};
use tokio_rustls::client;

/// Room made when a caller has none.
const ROOM_BYTES: usize = 4096;

type Session = client::TlsStream<StreamIo>;

/// TLS over an origin's socket. Decrypted bytes wait in the library only until they are read,
/// encrypted ones until the socket takes them: behind writes comes a flush.
pub struct TlsStream {
    stream: Rc<Stream>,
    session: RefCell<Box<Session>>,
}

impl TlsStream {
    pub(crate) fn new(stream: Rc<Stream>, session: Box<Session>) -> TlsStream {
        TlsStream { stream, session: RefCell::new(session) }
    }

    /// The socket below.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether a read would tell something without the socket: decrypted bytes, the end, or an error.
    pub fn has_news(&self) -> bool {
        match self.session.borrow_mut().get_mut().1.process_new_packets() {
            Ok(state) => state.plaintext_bytes_to_read() > 0 || state.peer_has_closed(),
            Err(_) => true,
        }
    }

    /// Reads what has arrived; 0 is the end. A connection closed without close_notify has ended like
    /// any other: HTTP knows by itself where messages end.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_take(context, buffer.len(), |bytes| buffer[..bytes.len()].copy_from_slice(bytes))
    }

    /// Reads into a vector's spare capacity, as much as there is; 0 is the end.
    pub fn poll_read_append(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if buffer.len() == buffer.capacity() {
            buffer.reserve(ROOM_BYTES);
        }
        let start = buffer.len();
        while buffer.len() < buffer.capacity() {
            let room = buffer.capacity() - buffer.len();
            match self.poll_take(context, room, |bytes| buffer.extend_from_slice(bytes)) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(_)) => {}
                // An error behind bytes comes again at the next read.
                _ if buffer.len() > start => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(buffer.len() - start))
    }

    /// Encrypts bytes and hands them to the socket, as much as is taken.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self.session.borrow_mut()).poll_write(context, bytes)
    }

    /// Encrypts several pieces, as much as is taken.
    pub fn poll_write_vectored(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self.session.borrow_mut()).poll_write_vectored(context, pieces)
    }

    /// Hands what is encrypted to the socket.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut **self.session.borrow_mut()).poll_flush(context)
    }

    /// Sends close_notify and ends the sending side.
    pub fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut **self.session.borrow_mut()).poll_shutdown(context)
    }

    /// Gives at most `room` decrypted bytes away.
    fn poll_take(
        &self,
        context: &mut Context<'_>,
        room: usize,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        let mut session = Pin::new(&mut **session);
        let count = match session.as_mut().poll_fill_buf(context) {
            Poll::Ready(Ok(bytes)) => {
                let bytes = &bytes[..bytes.len().min(room)];
                take(bytes);
                bytes.len()
            }
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        session.consume(count);
        Poll::Ready(Ok(count))
    }
}

impl Drop for TlsStream {
    /// Tells the origin that nothing is missing, as far as its window has room: some servers forget
    /// sessions that end without it.
    fn drop(&mut self) {
        let connection = self.session.get_mut().get_mut().1;
        connection.send_close_notify();
        let mut last = Vec::new();
        while connection.wants_write() {
            if connection.write_tls(&mut last).is_err() {
                return;
            }
        }
        let _ = self.stream.try_write(&last);
    }
}
