//! What an endpoint sends: datagrams in groups that the kernel divides.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn_proto::Transmit;
use tidegate_rt::net::Outgoing;

use super::Endpoint;
use crate::application::Application;
use crate::connection::Connection;

/// Groups of datagrams that one connection sends in one turn.
pub(super) const TRANSMITS: usize = 8;
/// Datagrams of a group: the kernel divides at most 64 KiB.
const SEGMENTS_MAX: usize = 32;

/// What was sent of a connection's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// As many as one turn has.
    Share,
}

impl<A: Application> Endpoint<A> {
    /// Sends what a connection has, within its share of a turn. Pending when the socket has no room.
    pub(super) fn send(
        &self,
        connection: &Rc<Connection>,
        now: Instant,
        context: &mut Context<'_>,
    ) -> Poll<Sent> {
        let segments = self.socket.segments_max().clamp(1, SEGMENTS_MAX);
        for _ in 0..TRANSMITS {
            let mut state = self.state.borrow_mut();
            state.buffer.clear();
            let transmit =
                connection.inner.borrow_mut().poll_transmit(now, segments, &mut state.buffer);
            let Some(transmit) = transmit else { return Poll::Ready(Sent::All) };
            let sending = self.socket.poll_send(context, &outgoing(&transmit, &state.buffer));
            if sending.is_pending() {
                let bytes = std::mem::take(&mut state.buffer);
                state.unsent = Some((transmit, bytes));
                return Poll::Pending;
            }
            // A datagram that the system refuses is lost, as on the way: the path may be too narrow for it, or gone.
        }
        Poll::Ready(Sent::Share)
    }

    /// Sends what the socket had no room for.
    pub(super) fn send_unsent(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        let Some((transmit, bytes)) = &state.unsent else { return Poll::Ready(()) };
        if self.socket.poll_send(context, &outgoing(transmit, bytes)).is_pending() {
            return Poll::Pending;
        }
        if let Some((_, bytes)) = state.unsent.take() {
            state.buffer = bytes;
        }
        Poll::Ready(())
    }
}

/// Returns a group of datagrams as the socket takes it.
pub(super) fn outgoing<'b>(transmit: &Transmit, buffer: &'b [u8]) -> Outgoing<'b> {
    Outgoing {
        bytes: buffer.get(..transmit.size).unwrap_or(buffer),
        segment_bytes: transmit.segment_size,
        to: transmit.destination,
        from: transmit.src_ip,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
    }
}
