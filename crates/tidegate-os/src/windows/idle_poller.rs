//! Watching many sockets with one, which is not supported on this system: each connection has a task.

use std::io;

use super::{AsSocket, OwnedSocket};

/// Most members reported by one call.
pub const BATCH: usize = 1;

/// An event of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyEvent {
    /// The key that the member was added with.
    pub key: u64,
    /// The peer sends nothing more, or the connection broke: the end follows the bytes that may be there.
    pub ended: bool,
}

/// Fails: there are no idle pollers on this system.
///
/// # Errors
/// Always `Unsupported`.
pub fn create() -> io::Result<OwnedSocket> {
    Err(super::unsupported("no polling of idle sockets"))
}

/// Fails as [`create`].
///
/// # Errors
/// Always `Unsupported`.
pub fn add(_poller: impl AsSocket, _member: impl AsSocket, _key: u64) -> io::Result<()> {
    create().map(drop)
}

/// Fails as [`create`].
///
/// # Errors
/// Always `Unsupported`.
pub fn remove(_poller: impl AsSocket, _member: impl AsSocket) -> io::Result<()> {
    create().map(drop)
}

/// Fails as [`create`].
///
/// # Errors
/// Always `Unsupported`.
pub fn ready(_poller: impl AsSocket, _events: &mut Vec<ReadyEvent>) -> io::Result<usize> {
    create().map(|_| 0)
}
