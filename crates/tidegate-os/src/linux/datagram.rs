//! Datagrams with the local address that they were sent to: a socket that is bound to all addresses of the machine must
//! respond from the address that the client used (`listen 53 udp`).

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockAddr;

use super::socket::set_option;

/// Room for one control message of either family, aligned as the kernel requires.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

const CONTROL_BYTES: usize = 64;

/// Enables local addresses with datagrams, for [`receive_with_local`].
///
/// # Errors
/// Those of setsockopt.
pub fn set_packet_info(fd: impl AsFd, is_ipv6: bool) -> io::Result<()> {
    let (level, name) = match is_ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    set_option(fd, level, name, 1)
}

/// Receives one datagram: returns its length, its sender, and the local address that it was sent to, if
/// [`set_packet_info`] enabled that.
///
/// # Errors
/// `WouldBlock` when no datagram waits.
pub fn receive_with_local(
    fd: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<SocketAddr>, Option<IpAddr>)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut length = 0;
    let mut local = None;
    // SAFETY: `try_init` gives room for an address and its length, which the kernel fills through the pointers in
    // `message`; those to `part`, `buffer` and `control` are valid for the call with the sizes beside them; the
    // descriptor is open while it is borrowed. The control message is read while `control` lives and within the length
    // that the kernel has set.
    let filled = unsafe {
        SockAddr::try_init(|storage, storage_length| {
            let mut message: libc::msghdr = zeroed();
            message.msg_name = storage.cast();
            message.msg_namelen = *storage_length;
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = CONTROL_BYTES as _;
            let flags = libc::MSG_DONTWAIT;
            length = moved(libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut message, flags))?;
            *storage_length = message.msg_namelen;
            local = local_of(&message);
            Ok(())
        })
    };
    let ((), sender) = filled?;
    Ok((length, sender.as_socket(), local))
}

/// Returns the local address in a received message's control data.
///
/// # Safety
/// The control data must be as the kernel has left it.
unsafe fn local_of(message: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the macros walk over the control data within its length, which the kernel has set.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: `header` points to a whole header within the control data.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        // SAFETY: the kernel puts these structures behind headers of these kinds; they may be unaligned.
        unsafe {
            let data = libc::CMSG_DATA(header);
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = data.cast::<libc::in_pktinfo>().read_unaligned();
                    return Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => header = libc::CMSG_NXTHDR(message, header),
            }
        }
    }
    None
}

/// Sends one datagram from a local address of the machine.
///
/// # Errors
/// `WouldBlock` when the send buffer is full.
pub fn send_from(fd: impl AsFd, bytes: &[u8], to: &SocketAddr, from: IpAddr) -> io::Result<usize> {
    let to = SockAddr::from(*to);
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: zeroes are a valid message header: no pointers and no lengths.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: `control` has room for one message of either kind (at most 16 + 20 bytes, rounded up), is
    // aligned for its header and lives over the call, as do `to`, `part` and `bytes`, which are only read;
    // the descriptor is open while it is borrowed.
    let sent = unsafe {
        match from {
            IpAddr::V4(ip) => {
                let mut info: libc::in_pktinfo = zeroed();
                info.ipi_spec_dst.s_addr = u32::from(ip).to_be();
                put(&mut message, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            IpAddr::V6(ip) => {
                let mut info: libc::in6_pktinfo = zeroed();
                info.ipi6_addr.s6_addr = ip.octets();
                put(&mut message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
        libc::sendmsg(fd.as_fd().as_raw_fd(), &raw const message, libc::MSG_DONTWAIT)
    };
    moved(sent)
}

/// Writes one control message.
///
/// # Safety
/// `message.msg_control` must point to aligned room for it.
unsafe fn put<T>(message: &mut libc::msghdr, level: libc::c_int, kind: libc::c_int, info: T) {
    let size = size_of::<T>() as libc::c_uint;
    // SAFETY: the caller gives room for a header and `info`; the length is set before it is looked at.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(info);
    }
}

/// Converts the result of a call that moves bytes: -1 and `errno`, or the number of bytes.
fn moved(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
