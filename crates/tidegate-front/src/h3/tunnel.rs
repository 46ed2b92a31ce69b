//! Tunnels over a stream (RFC 9220): an extended CONNECT is passed on as the upgrade that HTTP/1 has, and the bytes of
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
use super::stream::{Place, Stream};
use crate::serve::deliver;
use crate::serve::stream_body::Incoming;
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
    if respond::head(place, stream, x, None, Bytes::new(), false).is_err() {
        return;
    }
    x.outcome.bytes_sent = stream.outbox.borrow().overhead;
    let sent = Rc::new(Cell::new(0));
    let io = Rc::new(StreamIo { stream: stream.clone(), place: place.clone(), sent: sent.clone() });
    deliver::tunnel(x, tunnel, ClientIo { io: io.clone(), prefetched: Bytes::new() }, sent).await;
    // An orderly end (RFC 9220 section 3), unless the tunnel broke off in the middle of a piece.
    if stream.outbox.borrow().is_empty() {
        io.end();
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
    /// Ready once QUIC has taken what was sent.
    fn poll_room(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        if self.stream.state() == StreamState::Left {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let mut outbox = self.stream.outbox.borrow_mut();
        if outbox.is_empty() {
            return Poll::Ready(Ok(()));
        }
        remember(&mut outbox.sender, context);
        Poll::Pending
    }

    fn end(&self) {
        let (place, mut out) = (&self.place, Vec::new());
        let ended = place.link.with_core(|core| core.send_data_header(place.id, 0, true, &mut out));
        if matches!(ended, Some(Ok(()))) {
            self.stream.end(place);
        }
    }
}

impl ByteStream for StreamIo {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        self.stream.fill();
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
        Poll::Ready(Ok(count))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(context))?;
        let piece = &bytes[..bytes.len().min(PIECE_BYTES_MAX)];
        if !piece.is_empty() {
            let (place, mut out, length) = (&self.place, Vec::new(), piece.len() as u64);
            let written = place
                .link
                .with_core(|core| core.send_data_header(place.id, length, false, &mut out));
            if !matches!(written, Some(Ok(()))) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let overhead = out.len();
            out.extend_from_slice(piece);
            self.stream.send(place, Bytes::from(out), overhead);
            self.sent.update(|sent| sent + length);
        }
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_room(context)
    }

    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<()> {
        if ready!(self.poll_room(context)).is_ok() {
            self.end();
        }
        Poll::Ready(())
    }
}
