//! A UDP socket for QUIC: datagrams in batches, with their ECN marks (RFC 3168) and local addresses, joined and divided
//! by the kernel where it can (UDP GRO and GSO). A system that does not know the options for that (Wine, old ones of
//! Windows) gets them one by one.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tidegate_os::{ListenAddr, OwnedSocket, datagram, error, socket};
use tokio::io::Interest;

use super::watched::{Watched, watched};
use crate::share;

/// Receiving calls of the kernel that one call takes together.
const BATCH: usize = 8;
/// Bytes of one of them: the most that the kernel joins.
const JOINED_BYTES_MAX: usize = 64 * 1024;

/// A bound UDP socket. One task receives; the same one sends.
#[derive(Debug)]
pub struct Packets {
    io: Watched,
    /// What the library knows of the socket; `None` where it cannot use it.
    batches: Option<UdpSocketState>,
    stopped: StopReceiving,
}

/// Stops sockets of this thread from receiving, while they still send: another owner of the same socket receives
/// instead.
#[derive(Clone, Debug, Default)]
pub struct StopReceiving(Rc<Cell<bool>>);

impl StopReceiving {
    /// Stops them. The datagrams that have arrived are left to the other owner.
    pub fn stop(&self) {
        self.0.set(true);
    }
}

/// Memory for receiving: 512 KiB of addresses, of which the system provides what is used. One for each thread.
pub struct PacketMemory(Box<[u8]>);

/// A received datagram.
#[derive(Debug)]
pub struct Received<'b> {
    /// Its content.
    pub bytes: &'b [u8],
    /// The sender.
    pub from: SocketAddr,
    /// The local address that it was sent to, where the system reports it.
    pub to: Option<IpAddr>,
    /// The ECN field of its IP header, 0 to 3.
    pub ecn: u8,
}

/// One datagram to send, or several of the same size to one address.
#[derive(Debug)]
pub struct Outgoing<'b> {
    /// The content of all of them.
    pub bytes: &'b [u8],
    /// The size of each but the last, which may be shorter; `None` for one datagram. At most
    /// [`Packets::segments_max`] datagrams.
    pub segment_bytes: Option<usize>,
    /// The receiver.
    pub to: SocketAddr,
    /// The local address; `None` for the system's choice.
    pub from: Option<IpAddr>,
    /// The ECN field of the IP header, 0 to 3.
    pub ecn: u8,
}

impl Default for PacketMemory {
    fn default() -> PacketMemory {
        PacketMemory(vec![0; BATCH * JOINED_BYTES_MAX].into())
    }
}

impl std::fmt::Debug for PacketMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketMemory").finish_non_exhaustive()
    }
}

impl Packets {
    /// Takes over a bound UDP socket.
    ///
    /// # Errors
    /// The event loop cannot watch it, or it is no UDP socket.
    pub fn from_socket(owned: OwnedSocket) -> io::Result<Packets> {
        let batches = match UdpSocketState::new(UdpSockRef::from(&owned)) {
            Ok(state) => Some(state),
            Err(error) if error.raw_os_error().is_some_and(error::is_unknown_option) => None,
            Err(error) => return Err(error),
        };
        Packets::watching(owned, batches)
    }

    fn watching(owned: OwnedSocket, batches: Option<UdpSocketState>) -> io::Result<Packets> {
        if batches.is_none() {
            let local = socket::local_addr(&owned)?;
            let is_ipv6 = matches!(local, ListenAddr::Inet(address) if address.is_ipv6());
            datagram::set_packet_info(&owned, is_ipv6)?;
        }
        socket::set_nonblocking(&owned, true)?;
        let io = watched(owned, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Packets { io, batches, stopped: StopReceiving::default() })
    }

    /// Makes `stop` stop this socket as well.
    #[must_use]
    pub fn stopped_by(self, stop: &StopReceiving) -> Packets {
        Packets { stopped: stop.clone(), ..self }
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Those of getsockname.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        socket::local_addr(socket::borrow(self.io.get_ref()))
    }

    /// Returns the most datagrams that one call can send; 1 where the system does not divide.
    pub fn segments_max(&self) -> usize {
        self.batches.as_ref().map_or(1, UdpSocketState::max_gso_segments)
    }

    /// Whether datagrams may be divided on their way, so that the size of a path cannot be measured.
    pub fn may_fragment(&self) -> bool {
        self.batches.as_ref().is_none_or(UdpSocketState::may_fragment)
    }

    /// Receives the datagrams that have arrived, at most those of one call, and passes each to `each`. Ready without any
    /// when the call has failed for a reason that concerns one peer. Pending for ever once [`StopReceiving`] has stopped
    /// it.
    ///
    /// # Errors
    /// The event loop is ending, or the socket is of no use any more.
    pub fn poll_receive(
        &self,
        context: &mut Context<'_>,
        memory: &mut PacketMemory,
        each: &mut dyn FnMut(Received<'_>),
    ) -> Poll<io::Result<()>> {
        loop {
            if self.stopped.0.get() {
                return Poll::Pending;
            }
            let mut guard = ready!(self.io.poll_read_ready(context))?;
            match self.receive(memory, each) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                // An ICMP error about an earlier datagram.
                Err(error) if is_about_a_peer(&error) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Receives what one call gives.
    fn receive(
        &self,
        memory: &mut PacketMemory,
        each: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<()> {
        let Some(state) = &self.batches else { return self.receive_one(memory, each) };
        let mut metas = [RecvMeta::default(); BATCH];
        let count = {
            let mut slices = slices(&mut memory.0);
            state.recv(UdpSockRef::from(self.io.get_ref()), &mut slices, &mut metas)?
        };
        for (meta, bytes) in metas.iter().zip(memory.0.chunks(JOINED_BYTES_MAX)).take(count) {
            divide(meta, bytes, each);
        }
        Ok(())
    }

    fn receive_one(
        &self,
        memory: &mut PacketMemory,
        each: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<()> {
        let socket = socket::borrow(self.io.get_ref());
        let (length, from, to) = datagram::receive_with_local(socket, &mut memory.0)?;
        share::spend(length);
        if let (Some(from), Some(bytes)) = (from, memory.0.get(..length)) {
            each(Received { bytes, from, to, ecn: 0 });
        }
        Ok(())
    }

    /// Sends at once.
    ///
    /// # Errors
    /// `WouldBlock` when the send buffer is full; the peer cannot be reached; the datagram is too large for the path.
    pub fn try_send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let transmit = Transmit {
            destination: outgoing.to,
            ecn: EcnCodepoint::from_bits(outgoing.ecn),
            contents: outgoing.bytes,
            segment_size: outgoing.segment_bytes,
            src_ip: outgoing.from,
        };
        share::spend(outgoing.bytes.len());
        match &self.batches {
            Some(state) => state.try_send(UdpSockRef::from(self.io.get_ref()), &transmit),
            None => self.send_one(outgoing),
        }
    }

    fn send_one(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let socket = socket::borrow(self.io.get_ref());
        match outgoing.from {
            Some(from) => datagram::send_from(socket, outgoing.bytes, &outgoing.to, from)?,
            None => socket::send_to(socket, outgoing.bytes, &outgoing.to)?,
        };
        Ok(())
    }

    /// As [`Packets::try_send`], but pending while the send buffer is full.
    ///
    /// # Errors
    /// The peer cannot be reached; the datagram is too large for the path; the event loop is ending.
    pub fn poll_send(
        &self,
        context: &mut Context<'_>,
        outgoing: &Outgoing<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.try_send(outgoing) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.io.poll_write_ready(context))?.clear_ready();
                }
                other => return Poll::Ready(other),
            }
        }
    }
}

fn slices(memory: &mut [u8]) -> [IoSliceMut<'_>; BATCH] {
    let mut chunks = memory.chunks_mut(JOINED_BYTES_MAX);
    std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
}

/// Passes on the datagrams that the kernel has joined.
fn divide(meta: &RecvMeta, bytes: &[u8], each: &mut dyn FnMut(Received<'_>)) {
    let bytes = bytes.get(..meta.len).unwrap_or_default();
    for bytes in bytes.chunks(meta.stride.max(1)) {
        share::spend(bytes.len());
        each(Received {
            bytes,
            from: meta.addr,
            to: meta.dst_ip,
            ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
        });
    }
}

/// Whether a failure of the socket belongs to one peer's address (ICMP: the port is closed, the host is not reached).
fn is_about_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable
    )
}
