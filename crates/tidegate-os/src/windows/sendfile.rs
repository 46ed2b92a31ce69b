//! Sending file contents to a socket.

use std::cell::RefCell;
use std::io;

use super::{AsFile, AsSocket, file, socket};

/// Bytes read and sent by one call.
const PIECE: usize = 64 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends up to `length` bytes of `file` from `offset` on, through this process's memory. Returns the bytes sent: 0
/// means that the file ends before `offset`.
///
/// # Errors
/// `WouldBlock` when the send buffer is full, else the connection's or the disk's error.
pub fn sendfile(
    socket: impl AsSocket,
    file: impl AsFile,
    offset: u64,
    length: usize,
) -> io::Result<usize> {
    BUFFER.with(|buffer| {
        let mut buffer = buffer.borrow_mut();
        buffer.resize(PIECE, 0);
        let room = buffer.get_mut(..length.min(PIECE)).unwrap_or_default();
        let count = file::pread(file, room, offset)?;
        match room.get(..count) {
            None | Some([]) => Ok(0),
            Some(bytes) => socket::write(socket, bytes),
        }
    })
}
