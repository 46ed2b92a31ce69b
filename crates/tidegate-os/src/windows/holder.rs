//! The process that holds a taken address: unknown on this system.

use std::net::SocketAddr;

use crate::types::Transport;

/// Returns the process that listens on `address`: always `None` on this system.
pub fn holder(_address: SocketAddr, _transport: Transport) -> Option<(u32, String)> {
    None
}
