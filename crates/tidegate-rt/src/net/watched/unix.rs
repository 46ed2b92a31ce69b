//! Watches by descriptor (epoll).

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use tidegate_os::OwnedSocket;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// A descriptor with its watch. Other event loops may have the same one: it is closed after the last watch has ended.
pub(crate) type Watched = AsyncFd<Arc<OwnedSocket>>;
/// The watch of a socket that has another owner, which closes it after the watch.
pub(crate) type Watch = AsyncFd<Number>;
/// Readiness that a watch reported.
pub(crate) type WatchGuard<'a> = AsyncFdReadyGuard<'a, Number>;

/// Registers a descriptor with this thread's event loop.
///
/// # Errors
/// The limit of watched descriptors is reached (`fs.epoll.max_user_watches`), or the descriptor is a regular file.
pub(crate) fn watched(fd: impl Into<Arc<OwnedSocket>>, interest: Interest) -> io::Result<Watched> {
    register(fd.into(), interest)
}

fn register<T: AsRawFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // Tokio deprecated the safe constructor since a type of ours could return a descriptor that it
    // does not own or that changes. `OwnedFd` can do neither; a `Number` is that of a descriptor which
    // its owner keeps open as long as the watch. So the conditions of the unsafe replacement hold, and
    // this crate stays free of unsafe code.
    #[allow(deprecated)]
    AsyncFd::with_interest(fd, interest)
}

/// Watches a socket, which is closed after the watch has ended.
///
/// # Errors
/// As [`watched`].
pub(crate) fn watch(socket: &OwnedSocket) -> io::Result<Watch> {
    register(Number(socket.as_raw_fd()), Interest::READABLE | Interest::WRITABLE)
}

/// Waits until the peer closes its sending side or the connection breaks.
pub(crate) async fn closed(watch: &Watch) {
    // Readiness "priority" includes "read side closed" and nothing else here, since urgent data is not watched. An
    // error of the event loop itself means that it is ending.
    let _ = watch.ready(Interest::PRIORITY | Interest::ERROR).await;
}

/// The number of a descriptor that the owner of the watch owns, and closes after the watch.
#[derive(Debug)]
pub(crate) struct Number(RawFd);

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}
