//! Putting a descriptor under the watch of the loop.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has this thread's loop watch a descriptor.
///
/// # Errors
/// The limit of watched descriptors is reached (`fs.epoll.max_user_watches`), or the descriptor is
/// a regular file.
pub(super) fn watched(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // Tokio deprecated the safe constructor since a type of ours could return a descriptor that it
    // does not own or that changes. `OwnedFd` can do neither, so the conditions of the unsafe
    // replacement hold, and this crate stays free of unsafe code.
    #[allow(deprecated)]
    AsyncFd::with_interest(fd, interest)
}
