//! Sessions kept by the server (`ssl_session_cache`): shared by all threads, and over reloads by name.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::server::StoresServerSessions;

use crate::observed;
use crate::tickets::SKEW_SECONDS;

/// Bytes counted for a session, about the value of nginx's manual: 4000 sessions in a megabyte.
const SESSION_BYTES: u64 = 256;
/// As of tickets.
const SKEW_MILLIS: u64 = SKEW_SECONDS * 1000;
/// Parts with a lock each, so that threads seldom contend.
const SHARDS: usize = 16;

/// Sessions by key; the oldest is replaced when there is no room. Servers share a cache by its name; each
/// finds only sessions of servers with the same certificates. It lives as long as a server uses it, over
/// reloads, and takes no more memory than its given size. A lock is held for a copy of a session, by one
/// handshake at a time in each part.
pub struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    shard_entries_max: usize,
}

#[derive(Default)]
struct Shard {
    sessions: HashMap<Box<[u8]>, Session>,
    /// Keys by age. It may contain keys of removed sessions.
    order: VecDeque<Box<[u8]>>,
}

struct Session {
    value: Box<[u8]>,
    stored_unix_millis: u64,
}

impl SessionCache {
    /// Makes a cache for this number of sessions.
    pub fn with_entries(entries: usize) -> SessionCache {
        let shard_entries_max = entries.div_ceil(SHARDS).max(1);
        SessionCache { shards: Default::default(), shard_entries_max }
    }

    /// Makes the cache of `shared:name:size`, with the size in bytes.
    pub fn with_bytes(bytes: u64) -> SessionCache {
        SessionCache::with_entries(usize::try_from(bytes / SESSION_BYTES).unwrap_or(usize::MAX))
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        // Session ids are random, so their last byte is as good as a hash.
        let index = usize::from(key.last().copied().unwrap_or(0)) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, key: Vec<u8>, value: Vec<u8>, now_unix_millis: u64) {
        let mut shard = self.shard(&key);
        let key: Box<[u8]> = key.into();
        let value = value.into();
        let session = Session { value, stored_unix_millis: now_unix_millis };
        // One that is replaced keeps its place.
        if shard.sessions.insert(key.clone(), session).is_none() {
            shard.order.push_back(key);
        }
        while shard.sessions.len() > self.shard_entries_max {
            let Some(oldest) = shard.order.pop_front() else { break };
            shard.sessions.remove(&oldest);
        }
        if shard.order.len() > 2 * self.shard_entries_max {
            let Shard { sessions, order } = &mut *shard;
            order.retain(|key| sessions.contains_key(key));
        }
    }

    pub(crate) fn find(
        &self,
        key: &[u8],
        remove: bool,
        timeout: Duration,
        now_unix_millis: u64,
    ) -> Option<Vec<u8>> {
        let mut shard = self.shard(key);
        let session = shard.sessions.get(key)?;
        let age = now_unix_millis.saturating_sub(session.stored_unix_millis);
        let is_past = session.stored_unix_millis <= now_unix_millis.saturating_add(SKEW_MILLIS);
        let fresh = is_past && u128::from(age) <= timeout.as_millis();
        let value = fresh.then(|| session.value.to_vec());
        if remove || !fresh {
            shard.sessions.remove(key);
        }
        value
    }
}

/// One server's view of a cache: its own timeout, and no sessions of servers with other certificates.
pub(crate) struct ServerSessions {
    pub(crate) cache: Arc<SessionCache>,
    pub(crate) timeout: Duration,
    /// The bytes that separate servers' sessions.
    pub(crate) context: [u8; 16],
}

impl ServerSessions {
    fn key(&self, id: &[u8]) -> Vec<u8> {
        [&self.context, id].concat()
    }
}

impl StoresServerSessions for ServerSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        observed::note(|observed| observed.stored.clone_from(&key));
        self.cache.put(self.key(&key), value, tidegate_rt::clock::unix_millis());
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.find(&self.key(key), false, self.timeout, tidegate_rt::clock::unix_millis())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.find(&self.key(key), true, self.timeout, tidegate_rt::clock::unix_millis())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries_max = self.shard_entries_max.saturating_mul(SHARDS);
        f.debug_struct("SessionCache").field("entries_max", &entries_max).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSessions").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
