//! The inputs of one request's choice.

use super::peer::Peer;

/// The servers that a request has tried, and the other inputs of its choice.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Ids of servers.
    tried: TriedPeers,
    /// The value of the `hash` key, or the client's address for `ip_hash`.
    pub key: Vec<u8>,
    /// Route of the server that the request is bound to (`sticky`).
    pub bound: Option<Box<[u8]>>,
    /// Id of the only server that may be chosen.
    pub(super) only: Option<u64>,
    pub(super) rehash: u32,
    pub(super) in_backup: bool,
}

/// Most requests try one server: that takes no allocation.
#[derive(Clone, Debug, Default)]
struct TriedPeers {
    first: Option<u64>,
    rest: Vec<u64>,
}

impl Choice {
    /// Makes a choice by a key (`hash`, `ip_hash`).
    pub fn by_key(key: Vec<u8>) -> Choice {
        Choice { key, ..Choice::default() }
    }

    /// Makes a choice of the server with a route, where it can be used (`sticky`).
    pub fn bound_to(route: &[u8]) -> Choice {
        Choice { bound: Some(route.into()), ..Choice::default() }
    }

    /// Makes a choice of one server, or of none where that one cannot be used now: it does not wait in the `queue`.
    pub fn only(peer: &Peer) -> Choice {
        Choice { only: Some(peer.id), ..Choice::default() }
    }

    /// Returns whether a server may be chosen: it was not tried, and no other one is wanted.
    pub(super) fn admits(&self, peer: &Peer) -> bool {
        !self.has_tried(peer) && self.only.is_none_or(|only| only == peer.id)
    }

    /// Excludes a server from further choices.
    pub fn exclude(&mut self, peer: &Peer) {
        if self.has_tried(peer) {
            return;
        }
        match self.tried.first {
            None => self.tried.first = Some(peer.id),
            Some(_) => self.tried.rest.push(peer.id),
        }
    }

    /// Returns whether a server was chosen before, or excluded.
    pub fn has_tried(&self, peer: &Peer) -> bool {
        self.tried.first == Some(peer.id) || self.tried.rest.contains(&peer.id)
    }

    /// Returns all that were chosen or excluded.
    pub(super) fn tried(&self) -> impl Iterator<Item = u64> {
        self.tried.first.into_iter().chain(self.tried.rest.iter().copied())
    }
}
