//! The choice among the UDP sockets of one address (`listen … quic`).

use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd};

use super::check;

/// Makes the kernel choose among the sockets of an address by the connection number that a QUIC packet is addressed to
/// (RFC 8999 section 5): the number's first byte modulo `sockets` is the index of the socket, in the order in which the
/// sockets were bound. `socket` is any one of them, bound with SO_REUSEPORT. Packets without such a byte go to the first
/// socket. Sockets beyond `sockets` receive nothing any more. Needs no privileges.
///
/// A program of classic BPF does it; its offsets count from the content of the datagram. A load beyond the end of the
/// packet ends it with 0.
///
/// # Errors
/// The system has no such programs for sockets, or the socket is not in a group.
pub fn by_connection_number(socket: impl AsFd, sockets: NonZeroU16) -> io::Result<()> {
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, offset);
    let mut instructions = [
        load(0),
        // Long headers have the first bit: version and length are in front of the number.
        libc::sock_filter {
            jt: 2,
            ..instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0x80)
        },
        load(1),
        instruction(libc::BPF_JMP | libc::BPF_JA, 1),
        load(6),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, u32::from(sockets.get())),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog {
        len: instructions.len() as libc::c_ushort,
        filter: instructions.as_mut_ptr(),
    };
    // SAFETY: `program` points to `len` instructions, which the kernel copies and checks within the call; the length is
    // that of the structure, and the descriptor is open while it is borrowed.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
