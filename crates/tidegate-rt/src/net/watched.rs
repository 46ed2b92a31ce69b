//! Putting a descriptor under the watch of the loop.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has this thread's loop watch a descriptor.
///
/// # Errors
/// The limit of watched descriptors is reached (`fs.epoll.max_user_watches`), or the descriptor is
/// a regular file.
pub(super) fn watched<T: AsRawFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // Tokio deprecated the safe constructor since a type of ours could return a descriptor that it
    // does not own or that changes. `OwnedFd` can do neither; a `Number` is that of a descriptor which
    // its owner keeps open as long as the watch. So the conditions of the unsafe replacement hold, and
    // this crate stays free of unsafe code.
    #[allow(deprecated)]
    AsyncFd::with_interest(fd, interest)
}

/// The number of a descriptor that the owner of the watch owns, and closes after the watch.
#[derive(Debug)]
pub(super) struct Number(pub(super) RawFd);

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}
