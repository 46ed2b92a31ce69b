//! Settings of a fetch: what the configuration says, whatever is asked.

use std::net::SocketAddr;
use std::time::Duration;

use crate::retry::NextUpstream;

/// `proxy_bind`: the local side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// Port 0 lets the system choose one.
    pub address: SocketAddr,
    /// The address is none of this machine (`transparent`): it takes privileges.
    pub transparent: bool,
}

/// Settings of a fetch that do not depend on the request.
#[derive(Clone, Debug)]
pub struct FetchSettings {
    /// For a connection, and once more for its handshake (`*_connect_timeout`).
    pub connect_timeout: Duration,
    /// Between two writes.
    pub send_timeout: Duration,
    /// Between two reads.
    pub read_timeout: Duration,
    /// `proxy_buffer_size`: the largest response head.
    pub head_bytes_max: usize,
    /// `proxy_buffers` as bytes: how much is read at once.
    pub read_bytes: usize,
    /// Cases in which another server is asked (`*_next_upstream`).
    pub next_upstream: NextUpstream,
    /// 0 for no limit.
    pub next_upstream_tries: u32,
    /// Zero for no limit.
    pub next_upstream_timeout: Duration,
    /// `*_socket_keepalive`: the system looks after idle connections (SO_KEEPALIVE).
    pub socket_keepalive: bool,
    /// `*_socket_rcvbuf` in bytes; the system's where there is none, as below.
    pub receive_buffer: Option<usize>,
    /// `*_socket_sndbuf` in bytes.
    pub send_buffer: Option<usize>,
    /// `proxy_pass_trailers`.
    pub pass_trailers: bool,
}
