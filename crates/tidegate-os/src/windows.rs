//! Windows: the same safe functions as on Linux, one file per subject.
//!
//! Sockets and files are different kinds of objects on this system. Linux's own features (passing descriptors, daemons,
//! process titles) are absent; a function without a counterpart that is needed does nothing, and its documentation says
//! so.

pub mod affinity;
pub mod connect;
pub mod datagram;
pub mod error;
pub mod file;
pub mod held_signals;
pub mod holder;
pub mod identity;
pub mod idle_poller;
pub mod listen;
pub mod memory;
pub mod notify;
pub mod open;
pub mod pacing;
pub mod path;
pub mod path_stamp;
pub mod platform;
pub mod process;
#[cfg(feature = "name-rules")]
mod rules;
pub mod sendfile;
pub mod service;
pub mod socket;
pub mod steer;
pub mod time;
mod tree;
pub mod watch;

use std::io;

/// The traits of open files and of sockets.
pub use std::os::windows::io::{
    AsHandle as AsFile, AsSocket, BorrowedHandle as BorrowedFile, BorrowedSocket, OwnedSocket,
};

/// Converts the result of a system call (0 and `GetLastError`) into a `Result`.
fn check(result: windows_sys::core::BOOL) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Converts a text to the system's form: UTF-16 with a zero unit.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn unsupported(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, what)
}
