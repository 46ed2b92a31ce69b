//! From a checked configuration to the running server: by a master and its worker where processes can pass sockets,
//! else in this process.

#[cfg(windows)]
mod service;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{WORKER_ARGUMENT, run_other_mode, start};
#[cfg(windows)]
pub(crate) use windows::{run_other_mode, start};
