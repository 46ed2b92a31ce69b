//! Sessions of `sticky learn` with their routes. They survive reloads.

pub(super) mod shared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The sessions of one zone.
pub(crate) struct Sessions(Mutex<SessionTable>);

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
    /// Sessions that were created or used and not sent, with the time that they last; `None`: they are not shared.
    changed: Option<HashMap<Box<[u8]>, Duration>>,
}

struct Session {
    route: Box<[u8]>,
    expiry: (Instant, u64),
}

/// Bytes of a session: a megabyte holds about 4000 (directive `sticky`).
const SESSION_BYTES: u64 = 256;

impl Sessions {
    /// Makes a zone of this number of bytes; see [`Sessions::configure`].
    pub(super) fn new(bytes: u64, is_shared: bool) -> Sessions {
        let sessions = Sessions(Mutex::default());
        sessions.configure(bytes, is_shared);
        sessions
    }

    /// Takes over the settings of a plan. What changes is noted from now on where it is shared, to be sent to others.
    pub(super) fn configure(&self, bytes: u64, is_shared: bool) {
        let mut kept = self.lock();
        kept.count_max = usize::try_from(bytes / SESSION_BYTES).unwrap_or(usize::MAX);
        match is_shared {
            true => _ = kept.changed.get_or_insert_default(),
            false => kept.changed = None,
        }
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
        kept.note_changed(session, time);
        kept.order.insert(expiry, session.into());
        kept.sessions.insert(session.into(), Session { route: route.into(), expiry });
    }

    /// Prolongs a session that is in use.
    pub(super) fn touch(&self, session: &[u8], time: Duration, now: Instant) {
        if let Some(route) = self.find(session, now) {
            self.put(session, &route, time, now);
        }
    }

    /// Takes some of the changed sessions.
    fn take_changed(&self, most: usize) -> Vec<(Box<[u8]>, Duration)> {
        let mut kept = self.lock();
        let Some(changed) = &mut kept.changed else { return Vec::new() };
        if changed.len() <= most {
            return changed.drain().collect();
        }
        let some: Vec<Box<[u8]>> = changed.keys().take(most).cloned().collect();
        some.iter().filter_map(|session| changed.remove_entry(session)).collect()
    }

    /// Notes sessions again that could not be sent.
    fn put_back(&self, sessions: impl Iterator<Item = (Box<[u8]>, Duration)>) {
        let mut kept = self.lock();
        for (session, time) in sessions {
            kept.note_changed(&session, time);
        }
    }

    /// Returns the number of sessions, and of those that were not sent.
    fn counts(&self) -> (u64, u64) {
        let kept = self.lock();
        let pending = kept.changed.as_ref().map_or(0, HashMap::len);
        (kept.sessions.len() as u64, pending as u64)
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

    /// Notes a change, where they are noted and there is room: no more than the zone may have sessions.
    fn note_changed(&mut self, session: &[u8], time: Duration) {
        let most = self.count_max;
        if let Some(changed) = &mut self.changed
            && (changed.len() < most || changed.contains_key(session))
        {
            changed.insert(session.into(), time);
        }
    }

    fn forget(&mut self, session: &[u8]) {
        if let Some(before) = self.sessions.remove(session) {
            self.order.remove(&before.expiry);
        }
    }
}
