//! Messages with open descriptors over a Unix stream pair: the master passes listeners, logs and configuration to the
//! worker.
//!
//! A message is: length of the text (4 bytes, little endian), number of descriptors (4 bytes), one filler byte per
//! batch of descriptors, which carries them, then the text. So neither the size of a datagram nor the kernel's limit of
//! 253 descriptors per call bounds a message. The calls wait until the message is complete, also on a non-blocking
//! socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Descriptors sent with one filler byte; the kernel takes at most 253.
const BATCH: usize = 128;
/// Descriptors in one message: no process may open more by default (`fs.nr_open`).
const MAX_DESCRIPTORS: usize = 1 << 20;

/// A message that was received.
#[derive(Debug)]
pub struct Received {
    /// The text.
    pub bytes: Vec<u8>,
    /// The descriptors, close-on-exec; `None`: this process may not open as many, and has none of them.
    pub descriptors: Option<Vec<OwnedFd>>,
}

/// Sends one message. The descriptors stay open on this side.
///
/// # Errors
/// The peer has closed (`BrokenPipe`), or, `InvalidInput`, the message exceeds the framing (4 GiB, a million descriptors):
/// then nothing is sent.
pub fn send_with_fds(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let socket = socket.as_fd();
    let too_large = || io::Error::new(io::ErrorKind::InvalidInput, TOO_LARGE);
    let length = u32::try_from(bytes.len()).map_err(|_| too_large())?;
    let count = u32::try_from(descriptors.len()).map_err(|_| too_large())?;
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(too_large());
    }
    let mut header = [0_u8; 8];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..].copy_from_slice(&count.to_le_bytes());
    send_all(socket, &header, &[])?;
    for batch in descriptors.chunks(BATCH) {
        send_all(socket, &[0], batch)?;
    }
    send_all(socket, bytes, &[])
}

/// Receives one message with its descriptors. `None` when the peer closed between two messages. After a message without
/// its descriptors the next one can be received.
///
/// # Errors
/// `InvalidData` for a text longer than `max_length` or a malformed message, `UnexpectedEof` for a
/// peer that closed in the middle.
pub fn recv_with_fds(socket: impl AsFd, max_length: usize) -> io::Result<Option<Received>> {
    let socket = socket.as_fd();
    let mut header = [0_u8; 8];
    let mut descriptors = Vec::new();
    if !receive_all(socket, &mut header, &mut descriptors)? {
        return Ok(None);
    }
    let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let count = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
    if length > max_length || count > MAX_DESCRIPTORS {
        return Err(too_large());
    }
    for _ in 0..count.div_ceil(BATCH) {
        require(receive_all(socket, &mut [0], &mut descriptors)?)?;
    }
    let mut bytes = vec![0; length];
    require(length == 0 || receive_all(socket, &mut bytes, &mut descriptors)?)?;
    if descriptors.len() > count {
        let message = "a message carries more descriptors than it says";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    // The kernel leaves out those that the process has no room for.
    let descriptors = (descriptors.len() == count).then_some(descriptors);
    Ok(Some(Received { bytes, descriptors }))
}

fn send_all(
    socket: BorrowedFd<'_>,
    mut bytes: &[u8],
    mut descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(too_large());
        }
        let pieces = [IoSlice::new(bytes)];
        match rustix::net::sendmsg(socket, &pieces, &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                bytes = bytes.get(sent..).unwrap_or_default();
                descriptors = &[];
            }
            Err(Errno::AGAIN) => wait(socket, PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Fills the buffer; returns `false` when the stream ended before its first byte.
fn receive_all(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut buffer[filled..])];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut pieces, &mut control, flags) {
            Ok(message) if message.bytes == 0 && filled == 0 => return Ok(false),
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => {
                filled += message.bytes;
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(received) = part {
                        descriptors.extend(received);
                    }
                }
            }
            Err(Errno::AGAIN) => wait(socket, PollFlags::IN)?,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn wait(socket: BorrowedFd<'_>, what: PollFlags) -> io::Result<()> {
    let mut polled = [PollFd::from_borrowed_fd(socket, what)];
    super::retry(|| poll(&mut polled, None)).map(drop)
}

fn require(present: bool) -> io::Result<()> {
    if present { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, TOO_LARGE)
}

const TOO_LARGE: &str = "message larger than allowed";
