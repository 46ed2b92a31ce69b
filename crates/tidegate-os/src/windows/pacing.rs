//! Pacing of connections: Windows has no congestion control that a connection could choose.

use std::net::IpAddr;

use super::AsSocket;

/// Does nothing.
pub fn disable_if_local(_socket: impl AsSocket, _peer: IpAddr, _local: Option<IpAddr>) {}
