//! Calls on an open socket: options, its state, reads and writes that do not wait.

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use socket2::SockRef;

use super::{check, retry};
pub use crate::sockets::{
    has_ipv6, is_datagram, peer_addr, set_keepalive, set_linger_reset, set_nodelay,
    set_nonblocking, set_receive_buffer, set_send_buffer, shutdown_write, take_error,
};
use crate::types::{ListenAddr, Peek, TcpInfo};

/// Whether there are sockets with `unix:` addresses.
pub const HAS_UNIX: bool = true;

/// The error text for `unix:` addresses where there are none.
pub const NO_UNIX: &str = "the unix domain sockets are not supported on this platform";

/// Borrows a socket.
#[inline]
pub fn borrow(fd: &OwnedFd) -> BorrowedFd<'_> {
    fd.as_fd()
}

/// Returns a number that a socket and its duplicates have in common; 0 where the system has none.
pub fn identity(fd: impl AsFd) -> u64 {
    super::file::fstat(fd).map_or(0, |stat| stat.inode)
}

/// Checks the receive queue without taking anything from it and without waiting.
pub fn peek(fd: impl AsFd) -> Peek {
    let mut byte = [0_u8; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match retry(|| rustix::net::recv(fd.as_fd(), &mut byte[..], flags)) {
        Ok((0, _)) => Peek::Closed,
        Ok(_) => Peek::Data,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Peek::Quiet,
        Err(_) => Peek::Closed,
    }
}

/// Whether an idle connection must not be used again: the peer closed it, it broke, or unexpected bytes arrived.
pub fn peek_closed(fd: impl AsFd) -> bool {
    peek(fd) != Peek::Quiet
}

/// Returns the address that the socket is bound to.
///
/// # Errors
/// A family that is neither IPv4, IPv6 nor Unix; an unnamed Unix socket gives an empty path.
pub fn local_addr(fd: impl AsFd) -> io::Result<ListenAddr> {
    let address = SockRef::from(&fd.as_fd()).local_addr()?;
    if let Some(inet) = address.as_socket() {
        return Ok(ListenAddr::Inet(inet));
    }
    if address.is_unix() {
        return Ok(ListenAddr::Unix(address.as_pathname().unwrap_or("".as_ref()).to_path_buf()));
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "socket of an unknown address family"))
}

/// Makes a connected pair of blocking, close-on-exec Unix stream sockets.
///
/// # Errors
/// No descriptors left.
pub fn socketpair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::STREAM;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Reads the kernel's figures of a TCP connection for `$tcpinfo_*`.
///
/// # Errors
/// The socket is not TCP.
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has `length` writable bytes, and the kernel writes at most that many; the
    // descriptor is open while it is borrowed.
    check(unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    // SAFETY: tcp_info consists of integers only, for which the zeroes and whatever the kernel
    // wrote over them are valid.
    let info = unsafe { info.assume_init() };
    Ok(TcpInfo {
        rtt: info.tcpi_rtt,
        rttvar: info.tcpi_rttvar,
        snd_cwnd: info.tcpi_snd_cwnd,
        rcv_space: info.tcpi_rcv_space,
    })
}

/// Reads what has arrived, up to the length of the buffer; 0 is the end of the stream.
///
/// # Errors
/// `WouldBlock` when nothing has arrived, else the connection's error.
#[inline]
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::net::recv(fd.as_fd(), &mut *buffer, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            other => return Ok(other?.0),
        }
    }
}

/// Reads into the spare capacity of a vector, which need not be initialised, and lengthens it; 0 is
/// the end of the stream, or a vector without spare capacity.
///
/// # Errors
/// As [`read`].
#[inline]
pub fn read_append(fd: impl AsFd, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let flags = RecvFlags::empty();
    retry(|| rustix::net::recv(fd.as_fd(), rustix::buffer::spare_capacity(buffer), flags))
        .map(|(count, _)| count)
}

/// Writes as much as the send buffer takes. A closed peer is an error, never SIGPIPE.
///
/// # Errors
/// `WouldBlock` when the send buffer is full, else the connection's error.
#[inline]
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    retry(|| rustix::net::send(fd.as_fd(), bytes, SendFlags::NOSIGNAL))
}

/// Writes several pieces in one call (at most 1024), as much as the send buffer takes.
///
/// # Errors
/// As [`write()`]. The process must ignore SIGPIPE (`process::ignore_sigpipe`).
#[inline]
pub fn write_vectored(fd: impl AsFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // IOV_MAX: more pieces would be refused as a whole.
    let pieces = &pieces[..pieces.len().min(1024)];
    retry(|| rustix::io::writev(fd.as_fd(), pieces))
}

/// Receives one datagram from a connected or bound socket, with its sender.
///
/// # Errors
/// `WouldBlock` when no datagram waits.
pub fn receive_from(
    fd: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<std::net::SocketAddr>)> {
    let (length, _, sender) =
        retry(|| rustix::net::recvfrom(fd.as_fd(), &mut *buffer, RecvFlags::DONTWAIT))?;
    Ok((length, sender.and_then(|address| address.try_into().ok())))
}

/// Sends one datagram to an address.
///
/// # Errors
/// `WouldBlock` when the send buffer is full.
pub fn send_to(fd: impl AsFd, bytes: &[u8], to: &std::net::SocketAddr) -> io::Result<usize> {
    retry(|| rustix::net::sendto(fd.as_fd(), bytes, SendFlags::DONTWAIT, to))
}

/// Sets an integer socket option that no library names.
pub(super) fn set_option(
    fd: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer is to one int that lives over the call, and `length` is its size; the
    // descriptor is open while it is borrowed.
    check(unsafe {
        libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), length)
    })?;
    Ok(())
}

/// Writes as much as the send buffer takes and announces that more follows at once (MSG_MORE).
///
/// # Errors
/// `WouldBlock` when the buffer is full, else the connection's error.
pub fn write_more(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = rustix::net::SendFlags::MORE | rustix::net::SendFlags::NOSIGNAL;
    Ok(rustix::net::send(fd.as_fd(), bytes, flags)?)
}
