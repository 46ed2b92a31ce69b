//! A group of servers (`upstream`, or one address of `proxy_pass`) and the choice among them.
//!
//! The state of a group is shared by all threads: a small lock held for a few comparisons. Groups of
//! one server take no lock.

mod choose;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_rt::net::Addr;

use crate::pool::Keepalive;
use choose::State;

/// Parameters of `server` in an `upstream` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    pub weight: u32,
    /// Most requests at once; 0 for no limit.
    pub max_conns: u32,
    /// Failures within `fail_timeout` that make it unavailable; 0 never.
    pub max_fails: u32,
    /// Span in which failures are counted, and for which the server then is unavailable.
    pub fail_timeout: Duration,
    pub backup: bool,
    pub down: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            weight: 1,
            max_conns: 0,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            backup: false,
            down: false,
        }
    }
}

/// One address that requests can go to.
#[derive(Debug)]
pub struct Peer {
    pub address: Addr,
    /// As `$upstream_addr` shows it: `127.0.0.1:80`, `unix:/path`.
    pub text: Box<str>,
    pub options: ServerOptions,
    connections: AtomicU32,
}

impl Peer {
    /// Requests in progress, where the group counts them.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }
}

/// How a group chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Smooth weighted round robin.
    #[default]
    RoundRobin,
    /// Fewest requests in progress by weight.
    LeastConnections,
    /// By the client's address: the first three bytes of IPv4, all of IPv6.
    IpHash,
    /// By a key.
    Hash,
    /// By a key on a ring (ketama).
    HashConsistent,
    /// At random by weight.
    Random,
    /// The less busy of two random ones.
    RandomTwo,
}

/// What became of a peer's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure,
    /// Neither (a 404 that made another server be asked).
    Neutral,
}

/// Servers among which requests are spread.
pub struct Group {
    /// Number of this group in the process, from 1; 0 for one whose connections are not kept.
    pub id: u64,
    /// The `upstream`'s name, or the address as written.
    pub name: Box<str>,
    pub method: Method,
    pub keepalive: Keepalive,
    peers: Box<[Peer]>,
    /// Points of the ring for `hash … consistent`: hash and the server's number.
    ring: Box<[(u32, u32)]>,
    state: Mutex<State>,
    counts: bool,
    attempts_max: u32,
}

/// A server in use; its connection count goes down when this is dropped.
pub struct Lease {
    group: Arc<Group>,
    index: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.group.counter(self.index).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which servers a request has tried, and what else decides its choice.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    tried: Vec<bool>,
    /// The value of the `hash` key, or the client's address for `ip_hash`.
    pub key: Vec<u8>,
    rehash: u32,
    in_backup: bool,
}

impl Group {
    /// A group of servers with their names as written.
    pub fn new(
        name: &str,
        method: Method,
        keepalive: Keepalive,
        servers: Vec<(String, Addr, ServerOptions)>,
    ) -> Group {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let ring = match method {
            Method::HashConsistent => choose::ring(&servers),
            _ => Box::default(),
        };
        let peers: Box<[Peer]> = servers
            .into_iter()
            .map(|(_, address, options)| Peer {
                text: address_text(&address).into(),
                address,
                options,
                connections: AtomicU32::new(0),
            })
            .collect();
        let busy_matters = matches!(method, Method::LeastConnections | Method::RandomTwo);
        let counts = busy_matters || peers.iter().any(|peer| peer.options.max_conns > 0);
        let attempts_max = peers.iter().filter(|peer| !peer.options.down).count() as u32;
        let state = Mutex::new(State::new(&peers));
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Group { id, name: name.into(), method, keepalive, peers, ring, state, counts, attempts_max }
    }

    /// One server whose connections are not kept: for addresses that are known per request only.
    pub fn transient(name: &str, addresses: Vec<Addr>) -> Group {
        let servers = addresses
            .into_iter()
            .map(|address| (address_text(&address), address, ServerOptions::default()))
            .collect();
        let mut group = Group::new(name, Method::RoundRobin, Keepalive::OFF, servers);
        group.id = 0;
        group
    }

    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    pub fn peer(&self, index: usize) -> &Peer {
        &self.peers[index.min(self.peers.len() - 1)]
    }

    /// Servers that a request may try at most: those that are not `down`.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// Chooses a server that was not tried yet; `None` when none is available.
    pub fn choose(&self, choice: &mut Choice, now: Instant) -> Option<usize> {
        if let [only] = &*self.peers {
            // A lone server is never considered unavailable (directive `server`, max_fails).
            let again = choice.tried.first().copied().unwrap_or(false);
            let free = only.options.max_conns == 0 || only.connections() < only.options.max_conns;
            let usable = !only.options.down && !again && free;
            return usable.then_some(0);
        }
        choice.tried.resize(self.peers.len(), false);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = choose::choose(self, &mut state, choice, now)?;
        choice.tried[found] = true;
        Some(found)
    }

    /// Counts a request in progress at a server, where the group needs that.
    pub fn lease(self: &Arc<Self>, index: usize) -> Option<Lease> {
        if !self.counts {
            return None;
        }
        self.counter(index).fetch_add(1, Ordering::Relaxed);
        Some(Lease { group: self.clone(), index })
    }

    /// Reports what became of an attempt.
    pub fn report(&self, index: usize, outcome: Outcome, now: Instant) {
        if self.peers.len() == 1 || outcome == Outcome::Neutral {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.report(&self.peers, index, outcome, now);
    }

    fn counter(&self, index: usize) -> &AtomicU32 {
        &self.peers[index].connections
    }

    fn is_busy(&self, index: usize) -> bool {
        let most = self.peers[index].options.max_conns;
        most > 0 && self.counter(index).load(Ordering::Relaxed) >= most
    }
}

impl Choice {
    /// A choice by a key (`hash`, `ip_hash`).
    pub fn by_key(key: Vec<u8>) -> Choice {
        Choice { key, ..Choice::default() }
    }

    /// Marks a lone server as tried.
    pub fn mark(&mut self, index: usize) {
        if self.tried.len() <= index {
            self.tried.resize(index + 1, false);
        }
        self.tried[index] = true;
    }
}

/// An address as logs and variables show it.
pub fn address_text(address: &Addr) -> String {
    match address {
        Addr::Inet(address) => address.to_string(),
        Addr::Unix(path) => format!("unix:{}", path.display()),
    }
}
