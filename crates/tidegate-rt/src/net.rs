//! Sockets on the event loop: connections, listeners and datagrams.

mod datagram;
mod idle_poller;
mod listener;
mod packets;
mod stream;
mod watched;
mod write_part;

pub use datagram::Datagram;
pub use idle_poller::{IdlePoller, ReadyEvent};
pub use listener::Listener;
pub use packets::{Outgoing, PacketMemory, Packets, Received, StopReceiving};
pub use stream::{SENDFILE_CHUNK, Stream};
pub use tidegate_os::{
    ConnectOptions, Keepalive, ListenAddr as Addr, ListenAddr, ListenOptions, PeerAddr, TcpInfo,
    Transport,
};
