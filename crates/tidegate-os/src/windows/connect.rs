//! Outgoing connections that do not wait: `proxy_bind`, `proxy_socket_keepalive`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket};

use super::OwnedSocket;
use crate::sockets;
use crate::types::{ConnectOptions, ListenAddr};

/// Begins to connect. The flag is whether the connection is already established; otherwise wait until the socket is
/// writable and call `socket::take_error`.
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
    let kind = sockets::kind(options.transport);
    let socket = Socket::new(Domain::for_address(*address), kind, None)?;
    socket.set_nonblocking(true)?;
    sockets::prepare_connect(&socket, options)?;
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

/// Unix sockets are not used on this system.
///
/// # Errors
/// Always.
pub fn connect_unix(_path: &Path, _timeout: Option<Duration>) -> io::Result<File> {
    Err(super::unsupported(super::socket::NO_UNIX))
}
