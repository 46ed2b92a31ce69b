//! Everything unsafe or particular to an operating system, behind safe calls.
//!
//! This is the only crate that contains `unsafe` or checks the target system. Each system has one directory with the
//! same functions; the types that they share are in `types.rs`. What only one system's process model needs (passing
//! descriptors, becoming a daemon) exists on that system alone.
#![warn(missing_docs)]

#[cfg(feature = "mimalloc")]
pub mod allocator;
#[cfg(feature = "counted")]
pub mod counted;
pub mod layout;
mod messages;
pub mod names;
mod sockets;
mod types;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::{
    AsFile, AsSocket, BorrowedFile, BorrowedSocket, OwnedSocket, affinity, connect, daemon,
    datagram, error, file, held_signals, holder, identity, idle_poller, inherit, listen, memory,
    notify, open, pacing, pass, path, path_stamp, platform, process, sendfile, socket, steer, time,
    title, watch,
};
#[cfg(windows)]
pub use windows::{
    AsFile, AsSocket, BorrowedFile, BorrowedSocket, OwnedSocket, affinity, connect, datagram,
    error, file, held_signals, holder, identity, idle_poller, listen, memory, notify, open, pacing,
    path, path_stamp, platform, process, sendfile, service, socket, steer, time, watch,
};

/// Returns freed memory of the calling thread to the system, behind work that has needed much more than what is left of
/// it. Does nothing with the system's allocator.
pub fn return_free_memory() {
    #[cfg(feature = "mimalloc")]
    allocator::return_free_memory();
}

pub use messages::os_error;
pub use types::{
    Acceptance, ConnectOptions, Credentials, FileKind, Keepalive, ListenAddr, ListenOptions,
    Nowait, Peek, PeerAddr, Seen, Spawned, Stat, TcpInfo, Transport,
};
