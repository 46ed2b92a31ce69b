//! Linux: system calls behind safe functions, one file per subject.

pub mod affinity;
pub mod connect;
pub mod daemon;
pub mod datagram;
pub mod error;
pub mod file;
pub mod held_signals;
pub mod holder;
pub mod identity;
pub mod idle_poller;
pub mod inherit;
pub mod listen;
pub mod memory;
pub mod notify;
pub mod open;
pub mod pacing;
pub mod pass;
pub mod path;
pub mod path_stamp;
pub mod platform;
pub mod process;
pub mod sendfile;
pub mod socket;
pub mod steer;
pub mod time;
pub mod title;
pub mod watch;

#[cfg(test)]
mod tests;

use std::io;

/// The traits of open files and of sockets: one kind of object on this system.
pub use std::os::fd::{
    AsFd as AsFile, AsFd as AsSocket, BorrowedFd as BorrowedFile, BorrowedFd as BorrowedSocket,
    OwnedFd as OwnedSocket,
};

/// Converts the result of a C call (`-1` and `errno`) into a `Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
