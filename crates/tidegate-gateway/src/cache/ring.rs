//! `*_cache_peers`: the caches of several servers as one. Each key has an owner among them, and a miss asks the owner in
//! front of the origin.
//!
//! ```nginx
//! upstream ring { server 10.0.0.1:8080; server 10.0.0.2:8080; server 10.0.0.3:8080; }
//! proxy_cache_peers ring self=10.0.0.1:8080;
//! ```
//! ```text
//! client ── A: miss ── owner B: hit, or miss ── origin
//!            │             one fill for the requests of all servers
//!            └ streamed; stored on A as well once A has had enough requests for it
//! ```
//! The request to the owner is the client's own, with the field `Cache-Peer` that names the key. The owner handles it as any
//! request of a client, compares the key, and responds with what the origin has sent, which no filter and no directive has
//! changed, and the times that it is stored with, in `Cache-Peer`. A response without that field is none of a cache.
//!
//! A request with the field asks no further peer: there is no loop. The field counts from addresses of the group alone, and is
//! taken out of a request before anything else looks at it.
//!
//! | file | what |
//! |---|---|
//! | `config` | the directive |
//! | `field` | the text of `Cache-Peer` in both directions; no I/O |
//! | `remarks` | what it says besides about a response; no I/O |
//! | `ask` | a miss asks the owner |
//! | `peer_request` | the request to a peer |
//! | `enter` | the begin of a request: whether it is one of a peer |
//! | `serve` | requests of peers in a location, and their responses |
//! | `purged` | what was purged here lately, so that no peer brings it back |
//! | `figures` | what is counted |
//! | `fuzz` | the text of the field by any bytes |

pub(crate) mod ask;
pub(crate) mod config;
mod enter;
pub(crate) mod field;
mod figures;
mod fuzz;
mod peer_request;
pub(crate) mod purged;
pub(crate) mod remarks;
pub(crate) mod serve;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tidegate_cache::{Key, KeyHash};
use tidegate_core::Level;
use tidegate_rt::net::Addr;
use tidegate_store::Lines;
use tidegate_upstream::peers::Peer;
use tidegate_upstream::{Group, LogContext};

use super::counter::Figure;
pub(crate) use figures::{RING_FIGURES, RingFigures};
pub use fuzz::fuzz_peer_field;

/// Most peers that one miss asks, one after the other, before the origin.
const ASKED_MAX: usize = 2;

/// The rings of a plan, by the name of their group.
#[derive(Clone, Default)]
pub(crate) struct Rings(pub(crate) BTreeMap<String, Arc<RingKept>>);

/// The ring of a location.
pub(crate) struct Ring {
    group: Arc<Group>,
    /// This server, as written.
    own: Box<str>,
    own_address: Option<SocketAddr>,
    /// Requests for a key of another server until it is stored here as well.
    hot: u32,
    kept: Arc<RingKept>,
}

/// The part of a ring that outlives a reload.
#[derive(Default)]
pub(crate) struct RingKept {
    pub(crate) figures: RingFigures,
    lines: Mutex<Lines>,
    /// The keys that peers are being asked for, with the number of requests.
    asking: Mutex<HashMap<KeyHash, usize>>,
}

/// Shows what is written.
impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (&self.group, &self.own, self.hot).fmt(f)
    }
}

impl RingKept {
    fn asking(&self) -> MutexGuard<'_, HashMap<KeyHash, usize>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the figures.
    pub(crate) fn show(&self) -> Value {
        let figure = |figure: &Figure<RingFigures>| {
            (figure.name.to_owned(), (figure.of)(&self.figures).into())
        };
        Value::Object(RING_FIGURES.iter().map(figure).collect())
    }
}

impl Ring {
    /// Returns the servers that are asked for a key, in order; none where this server owns it.
    pub(crate) fn owners(&self, main: &Key, now: Instant) -> Vec<Arc<Peer>> {
        let ready = self.group.owners(&main.hash().0, now).into_iter().filter(|one| one.is_ready);
        let others = ready.map(|one| one.peer).take_while(|peer| !self.is_own(peer));
        others.take(ASKED_MAX).collect()
    }

    /// Returns whether a server of the group is this one.
    fn is_own(&self, peer: &Peer) -> bool {
        let is_address =
            |own: SocketAddr| matches!(&peer.address, Addr::Inet(address) if *address == own);
        self.own_address.is_some_and(is_address) || *peer.server == *self.own
    }

    /// Returns whether a key with this number of uses is stored here although another server owns it.
    pub(crate) fn is_hot(&self, uses: u32) -> bool {
        uses >= self.hot
    }

    /// Counts that a response of a peer was stored.
    pub(crate) fn copied(&self) {
        self.kept.figures.copies.add(1);
    }

    /// Returns whether this server asks a peer for a key. A request of a peer for it must not wait for that: where servers
    /// disagree about the owner, it could be the one that is asked.
    pub(crate) fn is_asking(&self, main: &Key) -> bool {
        self.kept.asking().contains_key(main.hash())
    }

    /// Logs that a peer was of no use. There may be many such requests: one line a second at most, and one in a minute for
    /// the same reason.
    fn complain(&self, log: &LogContext, peer: &Peer, what: &str, now: Instant) {
        let reason: Arc<str> = format!("cache peer {} {what}", peer.text).into();
        let mut lines = self.kept.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.allow(&reason, now) {
            drop(lines);
            log.write(Level::Warn, &reason, "asking a cache peer", "");
        }
    }
}

/// Notes, until it is dropped, that peers are being asked for a key.
struct AskingMark {
    kept: Arc<RingKept>,
    key: KeyHash,
}

impl AskingMark {
    fn new(kept: &Arc<RingKept>, key: &Key) -> AskingMark {
        let key = *key.hash();
        *kept.asking().entry(key).or_default() += 1;
        AskingMark { kept: kept.clone(), key }
    }
}

impl Drop for AskingMark {
    fn drop(&mut self) {
        let mut asking = self.kept.asking();
        if let Some(count) = asking.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                asking.remove(&self.key);
            }
        }
    }
}
