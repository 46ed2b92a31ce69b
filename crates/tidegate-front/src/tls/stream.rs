//! A client's decrypted byte stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_rt::sync::{AsyncBufRead, AsyncWrite, StreamIo};
use tokio_rustls::server;

/// Room made when a caller has none.
const ROOM_BYTES: usize = 4096;

/// TLS over a client's socket. Keeps no buffer of its own: decrypted bytes wait in the library only
/// until they are read, encrypted ones until the socket takes them.
pub struct TlsStream(Box<server::TlsStream<StreamIo>>);

impl TlsStream {
    pub(super) fn new(stream: Box<server::TlsStream<StreamIo>>) -> TlsStream {
        TlsStream(stream)
    }

    /// Whether a read would tell something without the socket: decrypted bytes, the end, or an error.
    pub fn has_news(&mut self) -> bool {
        match self.0.get_mut().1.process_new_packets() {
            Ok(state) => state.plaintext_bytes_to_read() > 0 || state.peer_has_closed(),
            Err(_) => true,
        }
    }

    /// Reads into a vector's spare capacity; 0 is the end. As nginx takes it, a connection closed
    /// without close_notify has ended like any other: HTTP knows by itself where messages end.
    pub fn poll_read_append(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if buffer.len() == buffer.capacity() {
            buffer.reserve(ROOM_BYTES);
        }
        let start = buffer.len();
        while buffer.len() < buffer.capacity() {
            let room = buffer.capacity() - buffer.len();
            let count = match Pin::new(&mut *self.0).poll_fill_buf(context) {
                Poll::Ready(Ok(bytes)) => {
                    let count = bytes.len().min(room);
                    buffer.extend_from_slice(&bytes[..count]);
                    count
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                // An error behind bytes comes again at the next read.
                Poll::Ready(Err(_)) | Poll::Pending if buffer.len() > start => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            };
            if count == 0 {
                break;
            }
            Pin::new(&mut *self.0).consume(count);
        }
        Poll::Ready(Ok(buffer.len() - start))
    }

    /// Encrypts bytes and hands them to the socket, as much as is taken.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    /// Encrypts several pieces, as much as is taken.
    pub fn poll_write_vectored(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write_vectored(context, pieces)
    }

    /// Hands what is encrypted to the socket.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    /// Sends close_notify and ends the sending side.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut *self.0).poll_shutdown(context))?;
        Poll::Ready(Ok(()))
    }
}
