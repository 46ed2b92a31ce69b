//! Watching many sockets with one is not to be had here: each connection has a task.

use std::io;

use super::{AsSocket, OwnedSocket};

/// Members reported by one call at most.
pub const BATCH: usize = 1;

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyEvent {
    pub key: u64,
    /// Its peer sends nothing more, or it broke: behind the bytes that it may have there is an end.
    pub ended: bool,
}

/// There are none.
///
/// # Errors
/// Always `Unsupported`.
pub fn create() -> io::Result<OwnedSocket> {
    Err(super::unsupported("no polling of idle sockets"))
}

/// As [`create`].
///
/// # Errors
/// Always `Unsupported`.
pub fn add(_poller: impl AsSocket, _member: impl AsSocket, _key: u64) -> io::Result<()> {
    create().map(drop)
}

/// As [`create`].
///
/// # Errors
/// Always `Unsupported`.
pub fn remove(_poller: impl AsSocket, _member: impl AsSocket) -> io::Result<()> {
    create().map(drop)
}

/// As [`create`].
///
/// # Errors
/// Always `Unsupported`.
pub fn ready(_poller: impl AsSocket, _events: &mut Vec<ReadyEvent>) -> io::Result<usize> {
    create().map(|_| 0)
}
