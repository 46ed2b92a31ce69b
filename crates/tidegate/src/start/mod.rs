//! From a checked configuration to the running server: by a master and its worker where processes can hand
//! sockets over, else in this process.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{WORKER_ARGUMENT, start, worker};
#[cfg(windows)]
pub use windows::{start, worker};
