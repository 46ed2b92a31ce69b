//! Windows has no congestion control that a connection could choose: nothing to be spared.

use std::net::IpAddr;

use super::AsSocket;

/// Nothing.
pub fn spare_if_local(_socket: impl AsSocket, _peer: IpAddr, _local: Option<IpAddr>) {}
