//! Calls on an open socket: options, its state, reads and writes that do not wait.

use std::io::{self, IoSlice, Read};
use std::net::SocketAddr;

use socket2::{SockAddr, SockRef};

use super::{AsSocket, BorrowedSocket, OwnedSocket, unsupported};
pub use crate::sockets::{
    has_ipv6, is_datagram, peer_addr, set_keepalive, set_linger_reset, set_nodelay,
    set_nonblocking, set_receive_buffer, set_send_buffer, shutdown_write, take_error,
};
use crate::types::{ListenAddr, Peek, TcpInfo};

/// The error text for `unix:` addresses.
pub const NO_UNIX: &str = "the unix domain sockets are not supported on this platform";

/// Whether there are sockets with `unix:` addresses.
pub const HAS_UNIX: bool = false;

/// Checks the receive queue of a non-blocking socket without taking anything from it.
pub fn peek(socket: impl AsSocket) -> Peek {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    match SockRef::from(&socket.as_socket()).peek(&mut byte) {
        Ok(0) => Peek::Closed,
        Ok(_) => Peek::Data,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Peek::Quiet,
        Err(_) => Peek::Closed,
    }
}

/// Whether an idle connection must not be used again: the peer closed it, it broke, or unexpected bytes arrived.
pub fn peek_closed(socket: impl AsSocket) -> bool {
    peek(socket) != Peek::Quiet
}

/// Returns the address that the socket is bound to.
///
/// # Errors
/// A family that is neither IPv4 nor IPv6.
pub fn local_addr(socket: impl AsSocket) -> io::Result<ListenAddr> {
    let address = SockRef::from(&socket.as_socket()).local_addr()?;
    address.as_socket().map(ListenAddr::Inet).ok_or_else(|| unsupported("unknown address family"))
}

/// Borrows a socket.
pub fn borrow(socket: &OwnedSocket) -> BorrowedSocket<'_> {
    socket.as_socket()
}

/// Returns a number that a socket and its duplicates have in common; always 0, the system has none.
pub fn identity(_socket: impl AsSocket) -> u64 {
    0
}

/// Makes a connected pair of blocking sockets, over the loopback address.
///
/// # Errors
/// No sockets left.
pub fn socketpair() -> io::Result<(OwnedSocket, OwnedSocket)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let near = std::net::TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (far, peer) = listener.accept()?;
        // Another program may have connected first.
        if peer == near.local_addr()? {
            return Ok((near.into(), far.into()));
        }
    }
}

/// Fails: the figures for `$tcpinfo_*` do not exist on this system.
///
/// # Errors
/// Always `Unsupported`.
pub fn tcp_info(_socket: impl AsSocket) -> io::Result<TcpInfo> {
    Err(unsupported("no figures of connections on this platform"))
}

/// Reads what has arrived, up to the length of the buffer; 0 is the end of the stream.
///
/// # Errors
/// `WouldBlock` when nothing has arrived, else the connection's error.
pub fn read(socket: impl AsSocket, buffer: &mut [u8]) -> io::Result<usize> {
    (&*SockRef::from(&socket.as_socket())).read(buffer)
}

/// Reads into the spare capacity of a vector, which need not be initialised, and lengthens it; 0 is
/// the end of the stream, or a vector without spare capacity.
///
/// # Errors
/// As [`read`].
pub fn read_append(socket: impl AsSocket, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let count = SockRef::from(&socket.as_socket()).recv(buffer.spare_capacity_mut())?;
    // SAFETY: the call has filled the first `count` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Writes as much as the send buffer takes.
///
/// # Errors
/// `WouldBlock` when the send buffer is full, else the connection's error.
pub fn write(socket: impl AsSocket, bytes: &[u8]) -> io::Result<usize> {
    SockRef::from(&socket.as_socket()).send(bytes)
}

/// Writes several pieces in one call, as much as the send buffer takes.
///
/// # Errors
/// As [`write()`].
pub fn write_vectored(socket: impl AsSocket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let pieces = &pieces[..pieces.len().min(1024)];
    SockRef::from(&socket.as_socket()).send_vectored(pieces)
}

/// Writes as much as the send buffer takes. The system has no way to announce that more follows.
///
/// # Errors
/// As [`write()`].
pub fn write_more(socket: impl AsSocket, bytes: &[u8]) -> io::Result<usize> {
    write(socket, bytes)
}

/// Receives one datagram from a connected or bound socket, with its sender.
///
/// # Errors
/// `WouldBlock` when no datagram waits.
pub fn receive_from(
    socket: impl AsSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>)> {
    let mut room = Vec::with_capacity(buffer.len());
    let (count, sender) =
        SockRef::from(&socket.as_socket()).recv_from(room.spare_capacity_mut())?;
    // SAFETY: the call has filled the first `count` bytes of the spare capacity.
    unsafe { room.set_len(count) };
    if let Some(filled) = buffer.get_mut(..count) {
        filled.copy_from_slice(&room);
    }
    Ok((count, sender.as_socket()))
}

/// Sends one datagram to an address.
///
/// # Errors
/// `WouldBlock` when the send buffer is full.
pub fn send_to(socket: impl AsSocket, bytes: &[u8], to: &SocketAddr) -> io::Result<usize> {
    SockRef::from(&socket.as_socket()).send_to(bytes, &SockAddr::from(*to))
}
