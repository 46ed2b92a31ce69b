//! Socket calls that are the same on all systems; each system's `socket.rs` has the rest.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use socket2::{SockRef, Socket, TcpKeepalive, Type};

use crate::AsSocket;
use crate::types::{ConnectOptions, Keepalive, ListenOptions, PeerAddr, Transport};

/// Whether the machine has IPv6: a socket can be bound to its unspecified address.
pub fn has_ipv6() -> bool {
    std::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// Sets or clears TCP_NODELAY (`tcp_nodelay`).
///
/// # Errors
/// The socket is not TCP.
pub fn set_nodelay(socket: impl AsSocket, on: bool) -> io::Result<()> {
    SockRef::from(&socket).set_tcp_nodelay(on)
}

/// Makes the following close send RST and free the socket at once (`reset_timedout_connection`).
///
/// # Errors
/// Those of setsockopt.
pub fn set_linger_reset(socket: impl AsSocket) -> io::Result<()> {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO))
}

/// Applies `so_keepalive`.
///
/// # Errors
/// Those of setsockopt; times are rounded down to seconds and zero is refused by the system.
pub fn set_keepalive(socket: impl AsSocket, keepalive: &Keepalive) -> io::Result<()> {
    let socket = SockRef::from(&socket);
    socket.set_keepalive(keepalive.on)?;
    let Keepalive { on, idle, interval, count } = *keepalive;
    if !on || (idle.is_none() && interval.is_none() && count.is_none()) {
        return Ok(());
    }
    let mut times = TcpKeepalive::new();
    if let Some(idle) = idle {
        times = times.with_time(idle);
    }
    if let Some(interval) = interval {
        times = times.with_interval(interval);
    }
    if let Some(count) = count {
        times = times.with_retries(count);
    }
    socket.set_tcp_keepalive(&times)
}

/// Sets SO_RCVBUF in bytes; Linux doubles it for its own needs.
///
/// # Errors
/// Those of setsockopt.
pub fn set_receive_buffer(socket: impl AsSocket, bytes: usize) -> io::Result<()> {
    SockRef::from(&socket).set_recv_buffer_size(bytes)
}

/// Sets SO_SNDBUF in bytes; Linux doubles it for its own needs.
///
/// # Errors
/// Those of setsockopt.
pub fn set_send_buffer(socket: impl AsSocket, bytes: usize) -> io::Result<()> {
    SockRef::from(&socket).set_send_buffer_size(bytes)
}

/// Makes the socket non-blocking (or blocking again).
///
/// # Errors
/// Those of fcntl or ioctlsocket.
pub fn set_nonblocking(socket: impl AsSocket, on: bool) -> io::Result<()> {
    SockRef::from(&socket).set_nonblocking(on)
}

/// Closes this side for sending: the peer reads the end of the stream.
///
/// # Errors
/// The socket is not connected.
pub fn shutdown_write(socket: impl AsSocket) -> io::Result<()> {
    SockRef::from(&socket).shutdown(Shutdown::Write)
}

/// Takes the pending error of the socket (SO_ERROR), as after a non-blocking connect.
///
/// # Errors
/// Those of getsockopt.
pub fn take_error(socket: impl AsSocket) -> io::Result<Option<io::Error>> {
    SockRef::from(&socket).take_error()
}

/// Whether the socket sends and receives datagrams.
///
/// # Errors
/// Not a socket.
pub fn is_datagram(socket: impl AsSocket) -> io::Result<bool> {
    Ok(SockRef::from(&socket).r#type()? == Type::DGRAM)
}

/// Returns the address of the peer.
///
/// # Errors
/// The socket is not connected.
pub fn peer_addr(socket: impl AsSocket) -> io::Result<PeerAddr> {
    let address = SockRef::from(&socket).peer_addr()?;
    Ok(address.as_socket().map_or(PeerAddr::Unix, PeerAddr::Inet))
}

/// Returns the type of socket for a transport.
pub(crate) fn kind(transport: Transport) -> Type {
    match transport {
        Transport::Stream => Type::STREAM,
        Transport::Datagram => Type::DGRAM,
    }
}

/// Sets the options of a connection that has not begun yet.
pub(crate) fn prepare_connect(socket: &Socket, options: &ConnectOptions) -> io::Result<()> {
    if options.keepalive {
        socket.set_keepalive(true)?;
    }
    set_buffers(socket, options.rcvbuf, options.sndbuf)
}

/// Sets the options that every listening socket may have; the queue's length is set last, by [`listen`].
pub(crate) fn prepare_listen(socket: &Socket, options: &ListenOptions) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    set_buffers(socket, options.rcvbuf, options.sndbuf)
}

/// Begins to listen, with the requested queue length.
pub(crate) fn listen(socket: &Socket, options: &ListenOptions) -> io::Result<()> {
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))
}

fn set_buffers(socket: &Socket, receive: Option<usize>, send: Option<usize>) -> io::Result<()> {
    if let Some(bytes) = receive {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = send {
        socket.set_send_buffer_size(bytes)?;
    }
    Ok(())
}
