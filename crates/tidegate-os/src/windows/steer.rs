//! The choice among the UDP sockets of one address, which has a single socket on this system.

use std::io;
use std::num::NonZeroU16;

use super::{AsSocket, unsupported};

/// Fails: an address has one socket.
///
/// # Errors
/// Always `Unsupported`.
pub fn by_connection_number(_socket: impl AsSocket, _sockets: NonZeroU16) -> io::Result<()> {
    Err(unsupported("no choice among sockets on this platform"))
}
