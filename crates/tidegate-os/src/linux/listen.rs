//! Listening sockets and accepting from them: the `listen` directive.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket};

use super::pacing;
use super::socket::{set_keepalive, set_option};
use crate::sockets;
use crate::types::{Acceptance, ListenAddr, ListenOptions, PeerAddr, Transport};

/// Whether several sockets can listen on one address (`reuseport`). Else all threads accept from one.
pub const HAS_REUSEPORT: bool = true;

/// Opens a non-blocking, close-on-exec socket that listens on `address`, with SO_REUSEADDR. A port of the system's choice
/// belongs to no other socket, unless both have `reuseport`. A Unix socket is made accessible to every user, as nginx
/// does; a leftover socket file is not removed. With `unix_mode` it has these permissions before a client can connect,
/// and a file that a dead process left is replaced.
///
/// # Errors
/// `AddrInUse`, `PermissionDenied`, `AddrNotAvailable` and others of bind and setsockopt.
pub fn listen_socket(address: &ListenAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let (domain, bind_to) = match address {
        ListenAddr::Inet(inet) => (Domain::for_address(*inet), SockAddr::from(*inet)),
        ListenAddr::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
    };
    let kind = sockets::kind(options.transport);
    let protocol = options.multipath.then_some(Protocol::MPTCP);
    let socket = Socket::new(domain, kind.nonblocking().cloexec(), protocol)?;
    if let ListenAddr::Inet(inet) = address {
        prepare_inet(&socket, *inet, options)?;
    }
    match (socket.bind(&bind_to), address) {
        (Err(error), ListenAddr::Unix(path))
            if error.kind() == io::ErrorKind::AddrInUse
                && options.unix_mode.is_some()
                && is_abandoned(path, &bind_to) =>
        {
            std::fs::remove_file(path)?;
            socket.bind(&bind_to)?;
        }
        (bound, _) => bound?,
    }
    if let ListenAddr::Unix(path) = address {
        let mode = options.unix_mode.unwrap_or(0o666);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    let fd = OwnedFd::from(socket);
    apply_listen_options(&fd, options)?;
    Ok(fd)
}

/// Whether a path is the file of a Unix socket that no process listens on.
fn is_abandoned(path: &Path, address: &SockAddr) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return false;
    }
    // A full queue of one that listens is another error.
    let trial = Socket::new(Domain::UNIX, socket2::Type::STREAM.nonblocking().cloexec(), None)
        .and_then(|trial| trial.connect(address));
    trial.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Applies the options that may change while a socket listens (backlog, buffers, keepalive, fast
/// open, deferred accept), for instance to one inherited from an older process.
///
/// # Errors
/// Those of setsockopt and listen.
pub fn apply_listen_options(fd: impl AsFd, options: &ListenOptions) -> io::Result<()> {
    let fd = fd.as_fd();
    let socket = SockRef::from(&fd);
    sockets::prepare_listen(&socket, options)?;
    if options.transport == Transport::Datagram {
        // Other sockets may follow at the address of one that had it for itself.
        return if options.reuseport { socket.set_reuse_port(true) } else { Ok(()) };
    }
    let address = socket.local_addr()?;
    let Some(local) = address.as_socket() else {
        if let (Some(mode), Some(path)) = (options.unix_mode, address.as_pathname()) {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        }
        return sockets::listen(&socket, options);
    };
    if local.ip().is_loopback() {
        pacing::disable(fd);
    }
    if let Some(keepalive) = &options.keepalive {
        set_keepalive(fd, keepalive)?;
    }
    if let Some(length) = options.fastopen {
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, length)?;
    }
    // Seconds for which the kernel holds a connection without data back; 0 turns it off.
    let deferred = i32::from(options.deferred);
    match set_option(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, deferred) {
        // Sockets of Multipath TCP have the option in newer kernels alone.
        Err(_) if options.multipath && !options.deferred => {}
        done => done?,
    }
    sockets::listen(&socket, options)
}

/// Accepts one connection, non-blocking and close-on-exec; `None` when the queue is empty. Connections that were given
/// up before they were accepted are skipped.
///
/// # Errors
/// EMFILE, ENFILE, ENOBUFS and ENOMEM: the caller should wait before it tries again.
pub fn accept_nonblocking(fd: impl AsFd) -> io::Result<Option<Acceptance>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    loop {
        match rustix::net::acceptfrom_with(fd.as_fd(), flags) {
            Ok((socket, peer)) => {
                let inet = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                return Ok(Some((socket, inet.map_or(PeerAddr::Unix, PeerAddr::Inet))));
            }
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a connection is in the queue. Accepts none and does not wait.
///
/// # Errors
/// Those of poll.
pub fn has_waiting(fd: impl AsFd) -> io::Result<bool> {
    let fd = fd.as_fd();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    super::retry(|| poll(&mut polled, Some(&Timespec::default()))).map(|count| count > 0)
}

fn prepare_inet(socket: &Socket, address: SocketAddr, options: &ListenOptions) -> io::Result<()> {
    // With it datagram sockets share an address: a port of the system's choice could be that of another one.
    let is_datagram = options.transport == Transport::Datagram;
    if !(is_datagram && (options.exclusive || address.port() == 0)) {
        socket.set_reuse_address(true)?;
    }
    if options.reuseport {
        socket.set_reuse_port(true)?;
    }
    match address {
        SocketAddr::V4(_) if options.transparent => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) if options.transparent => socket.set_ip_transparent_v6(true)?,
        _ => {}
    }
    if address.is_ipv6() {
        socket.set_only_v6(options.ipv6only)?;
    }
    Ok(())
}
