//! What the servers that share a zone know of each other's requests in progress: it is beside the counts, so that a zone that
//! is not shared has none.
//!
//! A key is sent when its count has changed, when a request was refused because of it, and, while it has a count, again
//! before its lease ends. A key without a count is forgotten when its turn comes and nothing has happened.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use foldhash::quality::RandomState;

/// The counts of other servers.
#[derive(Default)]
pub(super) struct Others {
    by_key: HashMap<Arc<[u8]>, Known, RandomState>,
    /// Keys that have changed, each once.
    changed: Vec<Arc<[u8]>>,
    /// Keys that were sent, with the time of their next turn, each once.
    renewals: VecDeque<(Instant, Arc<[u8]>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Requests in progress on other servers.
    count: u32,
    /// Whether it is in `changed`.
    listed: bool,
    /// Whether it is in `renewals`.
    renewed: bool,
}

impl Others {
    /// Returns the requests of this key in progress on other servers, as far as it is known.
    pub(super) fn count(&self, key: &[u8]) -> u32 {
        self.by_key.get(key).map_or(0, |known| known.count)
    }

    /// Notes that a key is to be sent. One that has no count (`counted`) is not noted where there are `most` keys.
    pub(super) fn touch(&mut self, key: &[u8], counted: bool, most: usize) {
        if let Some(known) = self.by_key.get_mut(key) {
            if !std::mem::replace(&mut known.listed, true)
                && let Some((key, _)) = self.by_key.get_key_value(key)
            {
                self.changed.push(key.clone());
            }
            return;
        }
        if counted || self.by_key.len() < most {
            let key: Arc<[u8]> = key.into();
            self.by_key.insert(key.clone(), Known { listed: true, ..Known::default() });
            self.changed.push(key);
        }
    }

    /// Returns the number of keys that are to be sent.
    pub(super) fn pending(&self) -> usize {
        self.changed.len()
    }

    /// Takes up to `most` keys that have changed, and those whose turn it is; `next` is the time of their next turn.
    pub(super) fn take(&mut self, most: usize, now: Instant, next: Instant) -> Vec<Arc<[u8]>> {
        let mut keys: Vec<_> = self.changed.drain(..self.changed.len().min(most)).collect();
        for key in &keys {
            if let Some(known) = self.by_key.get_mut(key) {
                known.listed = false;
                if !std::mem::replace(&mut known.renewed, true) {
                    self.renewals.push_back((next, key.clone()));
                }
            }
        }
        while keys.len() < most
            && let Some((due, _)) = self.renewals.front()
            && *due <= now
            && let Some((_, key)) = self.renewals.pop_front()
        {
            // Forgotten; or forgotten and noted anew, which has a turn of its own.
            if !self.by_key.get_key_value(&key).is_some_and(|(known, _)| Arc::ptr_eq(known, &key)) {
                continue;
            }
            let Some(known) = self.by_key.get_mut(&key) else { continue };
            if known.listed {
                known.renewed = false;
                continue;
            }
            self.renewals.push_back((next, key.clone()));
            keys.push(key);
        }
        keys
    }

    /// Takes over the count of other servers. Where neither they nor this server (`own`) have one, the key is forgotten,
    /// unless it has changed meanwhile.
    pub(super) fn adopt(&mut self, key: &Arc<[u8]>, own: u32, count: u32) {
        let Some(known) = self.by_key.get_mut(key) else { return };
        known.count = count;
        if own == 0 && count == 0 && !known.listed {
            self.by_key.remove(key);
        }
    }

    /// Notes that a key was not sent after all.
    pub(super) fn put_back(&mut self, key: &Arc<[u8]>) {
        self.touch(key, true, usize::MAX);
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
