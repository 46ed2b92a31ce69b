//! Outgoing connections that do not wait: `proxy_bind`, `proxy_socket_keepalive`.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::pacing;
use super::socket::set_option;
use crate::sockets;
use crate::types::{ConnectOptions, ListenAddr, Transport};

/// Begins to connect. The flag is whether the connection is already established; otherwise wait until the socket is
/// writable and call `socket::take_error`.
///
/// # Errors
/// Refused at once (typical of Unix sockets and loopback), no route, no local address.
pub fn connect_nonblocking(
    address: &ListenAddr,
    options: &ConnectOptions,
) -> io::Result<(OwnedFd, bool)> {
    let (domain, target) = match address {
        ListenAddr::Inet(inet) => (Domain::for_address(*inet), SockAddr::from(*inet)),
        ListenAddr::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
    };
    let kind = sockets::kind(options.transport);
    let socket = Socket::new(domain, kind.nonblocking().cloexec(), None)?;
    sockets::prepare_connect(&socket, options)?;
    if let (Some(local), ListenAddr::Inet(_)) = (options.local, address) {
        bind_local(&socket, local, options.transparent)?;
    }
    if let (Transport::Stream, ListenAddr::Inet(inet)) = (options.transport, address) {
        pacing::disable_if_local(&socket, inet.ip(), options.local.map(|local| local.ip()));
    }
    let connected = match socket.connect(&target) {
        Ok(()) => true,
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => false,
        Err(error) => return Err(error),
    };
    Ok((socket.into(), connected))
}

/// Connects to a Unix socket and waits for it; reads and writes wait at most for these times (`None`: as long as it takes).
///
/// # Errors
/// Those of connect: no such file, no process that listens (`ConnectionRefused`), no permission.
pub fn connect_unix(path: &Path, timeout: Option<Duration>) -> io::Result<File> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    // The queue of the other side may be full: it counts as a write.
    socket.set_write_timeout(timeout)?;
    socket.set_read_timeout(timeout)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(File::from(OwnedFd::from(socket)))
}

fn bind_local(socket: &Socket, local: SocketAddr, transparent: bool) -> io::Result<()> {
    if transparent {
        match local {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
        }
    }
    if local.port() == 0 {
        // The port is chosen at connect, so that one port can serve several targets. Kernels without the option choose
        // at bind, which is correct as well.
        let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
    } else {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&SockAddr::from(local))
}
