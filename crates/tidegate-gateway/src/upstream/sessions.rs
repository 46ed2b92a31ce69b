//! Sessions of `sticky learn` with their routes. They survive reloads.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The sessions of one zone.
pub(super) struct Sessions(Mutex<SessionTable>);

/// Shows nothing: sessions outlive the settings that use them.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

#[derive(Default)]
struct SessionTable {
    sessions: HashMap<Box<[u8]>, Session>,
    /// In the order of expiry; a number tells those of one instant apart.
    order: BTreeMap<(Instant, u64), Box<[u8]>>,
    next: u64,
    count_max: usize,
}

struct Session {
    route: Box<[u8]>,
    expiry: (Instant, u64),
}

/// Bytes of a session: a megabyte holds about 4000 (directive `sticky`).
const SESSION_BYTES: u64 = 256;

impl Sessions {
    /// Makes a zone of this number of bytes.
    pub(super) fn new(bytes: u64) -> Sessions {
        let sessions = Sessions(Mutex::default());
        sessions.resize(bytes);
        sessions
    }

    pub(super) fn resize(&self, bytes: u64) {
        self.lock().count_max = usize::try_from(bytes / SESSION_BYTES).unwrap_or(usize::MAX);
    }

    /// Returns the route of a session that has not expired.
    pub(super) fn find(&self, session: &[u8], now: Instant) -> Option<Vec<u8>> {
        let kept = self.lock();
        let found = kept.sessions.get(session).filter(|session| session.expiry.0 > now)?;
        Some(found.route.to_vec())
    }

    /// Stores a session for a time; in a full zone the one that expires next is removed.
    pub(super) fn put(&self, session: &[u8], route: &[u8], time: Duration, now: Instant) {
        let Some(until) = now.checked_add(time) else { return };
        let mut kept = self.lock();
        kept.expire(now);
        kept.forget(session);
        if kept.sessions.len() >= kept.count_max
            && let Some((_, oldest)) = kept.order.pop_first()
        {
            kept.sessions.remove(&oldest);
        }
        kept.next += 1;
        let expiry = (until, kept.next);
        kept.order.insert(expiry, session.into());
        kept.sessions.insert(session.into(), Session { route: route.into(), expiry });
    }

    /// Prolongs a session that is in use.
    pub(super) fn touch(&self, session: &[u8], time: Duration, now: Instant) {
        if let Some(route) = self.find(session, now) {
            self.put(session, &route, time, now);
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.lock().sessions.len()
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Expired sessions removed with each new one: more than are added, so that the zone empties.
const EXPIRED_MAX: usize = 4;

impl SessionTable {
    fn expire(&mut self, now: Instant) {
        for _ in 0..EXPIRED_MAX {
            match self.order.first_key_value() {
                Some((expiry, _)) if expiry.0 <= now => {
                    if let Some((_, session)) = self.order.pop_first() {
                        self.sessions.remove(&session);
                    }
                }
                _ => return,
            }
        }
    }

    fn forget(&mut self, session: &[u8]) {
        if let Some(before) = self.sessions.remove(session) {
            self.order.remove(&before.expiry);
        }
    }
}
