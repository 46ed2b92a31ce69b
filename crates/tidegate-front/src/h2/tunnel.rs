//! Tunnels over a stream (RFC 8441): an extended CONNECT is passed on as the upgrade that HTTP/1 has, and the bytes of
//! both directions are DATA frames.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_core::Exchange;
use tidegate_core::body::Tunnel;
use tidegate_core::client::{ByteStream, CancelCode, Client, ClientIo};

use super::respond;
use super::stream::{Piece, Place, Stream};
use crate::serve::deliver;
use crate::serve::streams::{StreamState, remember};

/// Bytes that one write takes.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// Responds to an extended CONNECT, and gives the stream to the tunnel until that ends.
///
/// A stream of another request has no tunnel: it is reset. Dropped at its await, the tunnel ends in the middle.
pub(super) async fn run(place: &Place, stream: &Rc<Stream>, x: &mut Exchange, tunnel: Tunnel) {
    if x.request.header(Known::Upgrade).is_none() || !stream.is_extended() {
        return stream.cancel(CancelCode::Close);
    }
    x.disposition.set_status(200);
    x.response.headers.remove_named(b"sec-websocket-accept");
    let Ok(head_bytes) = respond::head(place, x, None, false) else { return };
    x.outcome.bytes_sent = head_bytes;
    stream.outbox.borrow_mut().chunk_bytes = x.settings().http2_chunk_bytes;
    let sent = Rc::new(Cell::new(0));
    let io = Rc::new(StreamIo { stream: stream.clone(), place: place.clone(), sent: sent.clone() });
    deliver::tunnel(x, tunnel, ClientIo { io, prefetched: Bytes::new() }, sent).await;
    // An orderly end (RFC 8441 section 5), unless the tunnel broke off in the middle of a piece.
    if matches!(stream.outbox.borrow().piece, Piece::None) {
        let _ = place.multiplexer.command(|core| core.send_data(place.id, b"", true));
    }
}

/// The bytes of a stream in both directions.
struct StreamIo {
    stream: Rc<Stream>,
    place: Place,
    /// Bytes sent to the client.
    sent: Rc<Cell<u64>>,
}

impl StreamIo {
    /// Ready once the outbox is empty.
    fn poll_room(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        if self.stream.state() == StreamState::Left {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let mut outbox = self.stream.outbox.borrow_mut();
        if matches!(outbox.piece, Piece::None) {
            return Poll::Ready(Ok(()));
        }
        remember(&mut outbox.sender, context);
        Poll::Pending
    }
}

impl ByteStream for StreamIo {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let mut inbox = self.stream.inbox.borrow_mut();
        if inbox.bytes.is_empty() {
            if inbox.ended {
                return Poll::Ready(Ok(0));
            }
            if self.stream.state() == StreamState::Left {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            remember(&mut inbox.reader, context);
            return Poll::Pending;
        }
        let count = inbox.bytes.len().min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&inbox.bytes[..count]);
        inbox.bytes.drain(..count);
        drop(inbox);
        self.place.multiplexer.command(|core| core.consumed(self.place.id, count as u32));
        Poll::Ready(Ok(count))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(context))?;
        let count = bytes.len().min(PIECE_BYTES_MAX);
        if count > 0 {
            self.stream.put(Piece::Bytes(Bytes::copy_from_slice(&bytes[..count]), false));
            self.place.multiplexer.command(|core| core.want(self.place.id, true));
            self.sent.update(|sent| sent + count as u64);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_room(context)
    }

    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        if ready!(self.poll_room(context)).is_ok() {
            let _ = self.place.multiplexer.command(|core| core.send_data(self.place.id, b"", true));
        }
        Poll::Ready(())
    }
}
