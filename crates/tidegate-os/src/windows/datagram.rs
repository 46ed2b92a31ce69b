//! Datagrams with the local address that they were sent to, which is not supported on this system: responses leave from
//! the address that the system chooses.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::AsSocket;
use super::socket::{receive_from, send_to};

/// Does nothing.
///
/// # Errors
/// None.
pub fn set_packet_info(_socket: impl AsSocket, _is_ipv6: bool) -> io::Result<()> {
    Ok(())
}

/// Receives one datagram: returns its length and its sender.
///
/// # Errors
/// `WouldBlock` when no datagram waits.
pub fn receive_with_local(
    socket: impl AsSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>, Option<IpAddr>)> {
    let (length, sender) = receive_from(socket, buffer)?;
    Ok((length, sender, None))
}

/// Sends one datagram.
///
/// # Errors
/// `WouldBlock` when the send buffer is full.
pub fn send_from(
    socket: impl AsSocket,
    bytes: &[u8],
    to: &SocketAddr,
    _from: IpAddr,
) -> io::Result<usize> {
    send_to(socket, bytes, to)
}
