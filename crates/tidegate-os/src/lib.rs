//! Everything unsafe or particular to an operating system, behind safe calls.
//!
//! This is the only crate that holds `unsafe` or asks for the target system. Each system has one
//! folder with the same functions; the types that they share are in `types.rs`. Today there is
//! `linux/`.

mod types;

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{
    affinity, connect, crowd, daemon, file, identity, inherit, listen, open, pass, process,
    sendfile, socket, time, title, usage, watch,
};
pub use types::{
    Acceptance, ConnectOptions, Credentials, FileKind, Keepalive, ListenAddr, ListenOptions,
    Nowait, OpenHow, Peek, PeerAddr, Spawned, Stat, TcpInfo, Transport,
};
