//! Settings of a fetch that depend on the configuration alone.

use std::net::SocketAddr;
use std::time::Duration;

use crate::retry::NextUpstream;

/// `proxy_bind`: the local side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// Port 0 lets the operating system choose one.
    pub address: SocketAddr,
    /// The address is not one of this machine (`transparent`): this takes privileges.
    pub transparent: bool,
}

/// Settings of a fetch that do not depend on the request.
#[derive(Clone, Debug)]
pub struct FetchSettings {
    /// Time for a connection, and again for its handshake (`*_connect_timeout`).
    pub connect_timeout: Duration,
    /// Longest time between two writes.
    pub send_timeout: Duration,
    /// Longest time between two reads.
    pub read_timeout: Duration,
    /// Longest time for the head behind a request or an interim head; `None`: as `read_timeout`.
    pub head_timeout: Option<Duration>,
    /// `proxy_buffer_size`: bytes of the largest response head.
    pub head_bytes_max: usize,
    /// `proxy_buffers` as bytes: the most of one read.
    pub read_bytes: usize,
    /// Cases in which another server is tried (`*_next_upstream`).
    pub next_upstream: NextUpstream,
    /// Number of tries; 0 for no limit.
    pub next_upstream_tries: u32,
    /// Time for all tries; zero for no limit.
    pub next_upstream_timeout: Duration,
    /// `*_socket_keepalive`: the operating system probes idle connections (SO_KEEPALIVE).
    pub socket_keepalive: bool,
    /// `*_socket_rcvbuf` in bytes; `None`: the operating system's default, as below.
    pub receive_buffer: Option<usize>,
    /// `*_socket_sndbuf` in bytes.
    pub send_buffer: Option<usize>,
    /// `proxy_pass_trailers`.
    pub pass_trailers: bool,
}

impl FetchSettings {
    /// Returns the longest time between two reads of a head.
    pub(crate) fn head_limit(&self) -> Duration {
        self.head_timeout.unwrap_or(self.read_timeout)
    }
}
