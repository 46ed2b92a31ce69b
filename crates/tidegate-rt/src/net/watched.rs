//! Putting a socket under the watch of the event loop: by its descriptor where the runtime takes those, else as one of
//! the runtime's own sockets.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{Watch, WatchGuard, Watched, closed, watch, watched};
#[cfg(windows)]
pub(super) use windows::{Watch, WatchGuard, Watched, closed, watch, watched};
