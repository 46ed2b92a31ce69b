//! Types shared by the directories of all operating systems.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::OwnedSocket;

/// An address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    /// IPv4 or IPv6 address with port.
    Inet(SocketAddr),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for ListenAddr {
    fn from(address: SocketAddr) -> Self {
        ListenAddr::Inet(address)
    }
}

/// The peer of a connection. Unix domain peers are practically always unnamed, so no name is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddr {
    /// IPv4 or IPv6 address with port.
    Inet(SocketAddr),
    /// A process on this machine; nginx writes `unix:`.
    Unix,
}

/// An accepted connection: its non-blocking, close-on-exec socket and its peer.
pub type Acceptance = (OwnedSocket, PeerAddr);

/// Stream (TCP, Unix) or datagram (UDP, Unix) sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A byte stream.
    #[default]
    Stream,
    /// Datagrams: `listen … udp` of the stream modules, QUIC.
    Datagram,
}

/// TCP keepalive as in `listen … so_keepalive=`. Absent times are the system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether probes are sent at all.
    pub on: bool,
    /// Silence before the first probe (TCP_KEEPIDLE, whole seconds).
    pub idle: Option<Duration>,
    /// Time between probes (TCP_KEEPINTVL, whole seconds).
    pub interval: Option<Duration>,
    /// Unanswered probes after which the connection is dropped (TCP_KEEPCNT).
    pub count: Option<u32>,
}

/// Parameters of nginx's `listen` directive that concern the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Stream or datagram.
    pub transport: Transport,
    /// `backlog=`: length of the queue of pending connections. nginx's default on Linux is 511.
    pub backlog: u32,
    /// `reuseport`: SO_REUSEPORT.
    pub reuseport: bool,
    /// A datagram socket without SO_REUSEADDR: without `reuseport` as well, no other one is open at the address.
    pub exclusive: bool,
    /// `deferred`: TCP_DEFER_ACCEPT.
    pub deferred: bool,
    /// `fastopen=`: length of the queue of TCP Fast Open connections.
    pub fastopen: Option<u32>,
    /// `rcvbuf=`: SO_RCVBUF in bytes.
    pub rcvbuf: Option<usize>,
    /// `sndbuf=`: SO_SNDBUF in bytes.
    pub sndbuf: Option<usize>,
    /// `so_keepalive=`.
    pub keepalive: Option<Keepalive>,
    /// `ipv6only=`: IPV6_V6ONLY; no meaning for other families. nginx's default is on.
    pub ipv6only: bool,
    /// `transparent`: IP_TRANSPARENT.
    pub transparent: bool,
    /// `multipath`: Multipath TCP (RFC 8684), on Linux.
    pub multipath: bool,
    /// `admin_socket`: permissions of the file of a Unix socket, in place of 0666. Such a file that no process listens
    /// on is replaced.
    pub unix_mode: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            transport: Transport::Stream,
            backlog: 511,
            reuseport: false,
            exclusive: false,
            deferred: false,
            fastopen: None,
            rcvbuf: None,
            sndbuf: None,
            keepalive: None,
            ipv6only: true,
            multipath: false,
            transparent: false,
            unix_mode: None,
        }
    }
}

/// Parameters of an outgoing connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Stream or datagram.
    pub transport: Transport,
    /// `proxy_bind`: local address; port 0 lets the system choose at connect time.
    pub local: Option<SocketAddr>,
    /// `proxy_bind … transparent`: IP_TRANSPARENT, for a local address that is not the machine's own.
    pub transparent: bool,
    /// `proxy_socket_keepalive`: SO_KEEPALIVE.
    pub keepalive: bool,
    /// SO_RCVBUF in bytes.
    pub rcvbuf: Option<usize>,
    /// SO_SNDBUF in bytes.
    pub sndbuf: Option<usize>,
}

/// The state of a socket's receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// Open, and no byte waits.
    Quiet,
    /// At least one byte waits.
    Data,
    /// The peer closed its sending side, or the connection is broken.
    Closed,
}

/// The figures of nginx's `$tcpinfo_*` variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip time in microseconds.
    pub rtt: u32,
    /// Variance of the round trip time in microseconds.
    pub rttvar: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Receive space in bytes.
    pub rcv_space: u32,
}

/// Kind of a file system object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link (only seen when links are not followed).
    Symlink,
    /// FIFO, socket or device: never served.
    Other,
}

/// The used part of a file's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Length in bytes.
    pub size: u64,
    /// Time of last modification, seconds since 1970.
    pub mtime_seconds: i64,
    /// Fraction of that time, 0 to 999 999 999.
    pub mtime_nanos: u32,
    /// Time of last change of content or metadata, nanoseconds since 1970.
    pub changed_nanos: i128,
    /// Inode number; with `device` it identifies the file.
    pub inode: u64,
    /// Device number.
    pub device: u64,
    /// Kind of the object.
    pub kind: FileKind,
    /// User id of the owner.
    pub uid: u32,
    /// Permission bits (0o7777).
    pub mode: u32,
    /// Space taken on the disk, in bytes.
    pub allocated: u64,
}

/// The result of comparing a path with a stamp; see `path_stamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The same object.
    Same,
    /// The same object, but directories above it may have been renamed since: the caller checks whether the name is
    /// still its own, and confirms it with this number.
    Renamed(u64),
    /// Another object, or unknown.
    Changed,
}

/// Result of a read that must not wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nowait {
    /// The number of bytes read; 0 is the end of the file.
    Read(usize),
    /// The data is not in the page cache: read it on a thread that may wait.
    WouldBlock,
}

/// A process that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spawned {
    /// Its process id.
    pub pid: u32,
}

/// A user and group to run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user, for the supplementary groups.
    pub user_name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}
