//! Outgoing connections that do not wait: `proxy_bind`, `proxy_socket_keepalive`.

use std::io;

use socket2::{Domain, SockAddr, Socket, Type};

use super::OwnedSocket;
use crate::types::{ConnectOptions, ListenAddr, Transport};

/// Begins to connect. The flag tells whether the connection stands already; otherwise wait until
/// the socket is writable and ask `socket::take_error`.
///
/// # Errors
/// No route, no local address, a Unix socket.
pub fn connect_nonblocking(
    address: &ListenAddr,
    options: &ConnectOptions,
) -> io::Result<(OwnedSocket, bool)> {
    let ListenAddr::Inet(address) = address else {
        return Err(super::unsupported(super::socket::NO_UNIX));
    };
    if options.transparent {
        return Err(super::unsupported("transparent proxying is not supported on this platform"));
    }
    let kind = match options.transport {
        Transport::Stream => Type::STREAM,
        Transport::Datagram => Type::DGRAM,
    };
    let socket = Socket::new(Domain::for_address(*address), kind, None)?;
    socket.set_nonblocking(true)?;
    if options.keepalive {
        socket.set_keepalive(true)?;
    }
    if let Some(bytes) = options.rcvbuf {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.sndbuf {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(local) = options.local {
        socket.bind(&SockAddr::from(local))?;
    }
    let connected = match socket.connect(&SockAddr::from(*address)) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(error) => return Err(error),
    };
    Ok((socket.into(), connected))
}
