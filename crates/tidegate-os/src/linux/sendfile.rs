//! Sending file contents to a socket without copying them through this process.

use std::io;
use std::os::fd::AsFd;

/// The kernel moves at most this number of bytes per call.
const MAX_LENGTH: usize = 0x7fff_f000;

/// Sends up to `length` bytes of `file` from `offset` on; the file's own position is not used.
/// Returns the bytes sent: 0 means that the file ends before `offset`. The process must ignore
/// SIGPIPE (`process::ignore_sigpipe`).
///
/// # Errors
/// `WouldBlock` when the send buffer is full, else the connection's or the disk's error.
pub fn sendfile(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    length: usize,
) -> io::Result<usize> {
    let length = length.min(MAX_LENGTH);
    super::retry(|| {
        let mut position = offset;
        rustix::fs::sendfile(socket.as_fd(), file.as_fd(), Some(&mut position), length)
    })
}
