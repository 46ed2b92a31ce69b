//! The owners of keys: the order in which the servers of a group are responsible for a key.
//!
//! It is the order of rendezvous hashing (Thaler and Ravishankar, 1998): each server has a number for each key, and the
//! highest one owns it. So all that know the same servers have the same order, whatever order they list them in; a server
//! that is lost leaves its keys to the others in equal parts, and no other key moves. Weights are those of `server`: the
//! numbers are spread so that twice the weight owns twice the keys.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use tidegate_rt::net::Addr;

use super::peer::Peer;

/// A server in the order of a key.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The server.
    pub peer: Arc<Peer>,
    /// Requests may be sent to it now: it is not `down`, draining, full, unhealthy or resting behind failures.
    pub is_ready: bool,
}

/// Returns the rank of a server for a key; the highest one owns it. `name` is what all know the server by, `key` a hash of
/// the key that is spread evenly. A server without weight owns nothing.
pub fn rank(name: &[u8], weight: u32, key: &[u8; 16]) -> f64 {
    let [low, high] = [0, 8].map(|at| {
        let mut half = [0; 8];
        half.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(half)
    });
    let mixed = mix(mix(fnv(name) ^ low) ^ high);
    // 53 bits, in the open interval from 0 to 1.
    let part = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    f64::from(weight) / -part.ln()
}

/// Returns FNV-1a of some bytes.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Mixes all bits (the last step of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns whether a server has this address, with any port.
pub(super) fn has_ip(peer: &Peer, ip: IpAddr) -> bool {
    matches!(&peer.address, Addr::Inet(address) if address.ip().to_canonical() == ip.to_canonical())
}
