//! Listening sockets and accepting from them: the `listen` directive.

use std::io;

use socket2::{Domain, SockAddr, SockRef, Socket};

use super::socket::{NO_UNIX, set_keepalive};
use super::{AsSocket, OwnedSocket, unsupported};
use crate::sockets;
use crate::types::{Acceptance, ListenAddr, ListenOptions, PeerAddr, Transport};

/// Whether several sockets can listen on one address (`reuseport`). Else all threads accept from one.
pub const HAS_REUSEPORT: bool = false;

/// Opens a non-blocking socket that listens on `address`. No other program can take the address as long as it is open:
/// SO_REUSEADDR would allow that on this system, and is not set.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and others of bind and setsockopt; `Unsupported` for Unix
/// sockets, `fastopen`, `deferred` and `transparent`.
pub fn listen_socket(address: &ListenAddr, options: &ListenOptions) -> io::Result<OwnedSocket> {
    let ListenAddr::Inet(address) = address else { return Err(unsupported(NO_UNIX)) };
    for (asked, what) in [
        (options.fastopen.is_some(), "\"fastopen\" is not supported on this platform"),
        (options.deferred, "\"deferred\" is not supported on this platform"),
        (options.transparent, "\"transparent\" is not supported on this platform"),
    ] {
        if asked {
            return Err(unsupported(what));
        }
    }
    let kind = sockets::kind(options.transport);
    let socket = Socket::new(Domain::for_address(*address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(options.ipv6only)?;
    }
    socket.bind(&SockAddr::from(*address))?;
    let socket = OwnedSocket::from(socket);
    apply_listen_options(&socket, options)?;
    Ok(socket)
}

/// Applies the options that may change while a socket listens (backlog, buffers, keepalive).
///
/// # Errors
/// Those of setsockopt and listen.
pub fn apply_listen_options(socket: impl AsSocket, options: &ListenOptions) -> io::Result<()> {
    let borrowed = socket.as_socket();
    let socket = SockRef::from(&borrowed);
    sockets::prepare_listen(&socket, options)?;
    if options.transport == Transport::Datagram {
        return Ok(());
    }
    if let Some(keepalive) = &options.keepalive {
        set_keepalive(borrowed, keepalive)?;
    }
    sockets::listen(&socket, options)
}

/// Accepts one connection, non-blocking and not inherited; `None` when the queue is empty. Connections that were given
/// up before they were accepted are skipped.
///
/// # Errors
/// No sockets or memory left: the caller should wait before it tries again.
pub fn accept_nonblocking(socket: impl AsSocket) -> io::Result<Option<Acceptance>> {
    let borrowed = socket.as_socket();
    let listener = SockRef::from(&borrowed);
    loop {
        match listener.accept() {
            Ok((socket, peer)) => {
                socket.set_nonblocking(true)?;
                let peer = peer.as_socket().map_or(PeerAddr::Unix, PeerAddr::Inet);
                return Ok(Some((socket.into(), peer)));
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::NotConnected => {}
                _ => return Err(error),
            },
        }
    }
}

/// Whether a connection may be in the queue: always, since the system has no check without accepting.
///
/// # Errors
/// None.
pub fn has_waiting(_socket: impl AsSocket) -> io::Result<bool> {
    Ok(true)
}
