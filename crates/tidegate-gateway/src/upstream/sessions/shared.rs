//! Sessions that servers share by a store (`sticky learn … sync`).
//!
//! A session is used by this server's table at once. What was created or used is sent behind that, in the next interval, with
//! the time that it lasts. A session that this server does not know is asked for once, and the request waits for the reply for
//! [`LOOKUP_TIME_MAX`] at most; requests of one session wait for the same reply. While the engine is not available no request
//! waits, and the table decides alone.
//!
//! Errors: a session that was created within the last interval may be unknown to the others, and the first request there creates
//! another. A reply that is late counts as none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_rt::sync::Notify;
use tidegate_rt::{clock, timer};
use tidegate_store::{CallError, Command, Script, State, Value, write_key};

use super::Sessions;
use crate::zone_sync::{Member, MemberFigures, SyncStore};

/// The shared sessions of a zone, in one configuration.
pub(crate) struct SharedSessions {
    name: String,
    sessions: Arc<Sessions>,
    store: Arc<SyncStore>,
    /// What was sent and has no reply yet: sessions with the time that they last.
    sent: Mutex<Vec<(Box<[u8]>, Duration)>>,
    lookups: Mutex<Lookups>,
}

impl std::fmt::Debug for SharedSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedSessions").field(&self.name).finish()
    }
}

/// The sessions that are being asked for, and those that the engine did not have a moment ago.
#[derive(Default)]
struct Lookups {
    running: HashMap<Box<[u8]>, Arc<Notify>>,
    unknown: HashMap<Box<[u8]>, Instant>,
}

/// The longest time for which a request waits for the engine.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(5);
/// The time for which the engine is not asked again for a session that it did not have.
const UNKNOWN_TIME: Duration = Duration::from_secs(1);
/// The most such sessions that are remembered.
const UNKNOWN_MAX: usize = 4096;
/// The most sessions that are asked for at a time: the engine's queue is for others as well.
const RUNNING_MAX: usize = 256;
/// Sessions of one call of the script, which holds up the engine for a few milliseconds.
const SESSIONS_OF_CALL: usize = 256;
/// Bytes of the longest route that is believed: a hash, or `route=`.
const ROUTE_BYTES_MAX: usize = 64;

/// Writes sessions: for each key its route and its time in milliseconds.
static PUT: Script = Script::new(
    "for i, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[i * 2 - 1], 'PX', ARGV[i * 2])
end
return #KEYS",
);

impl SharedSessions {
    pub(crate) fn new(
        name: &str,
        sessions: Arc<Sessions>,
        store: Arc<SyncStore>,
    ) -> SharedSessions {
        let (sent, lookups) = (Mutex::default(), Mutex::default());
        SharedSessions { name: name.to_owned(), sessions, store, sent, lookups }
    }

    /// Asks the engine for a session that this server does not know, so that it is found then.
    ///
    /// Cancelling: dropped, those who wait for the same reply go on without it.
    pub(crate) async fn learn(&self, session: &[u8], time: Duration) {
        let now = clock::now();
        if session.is_empty() || self.sessions.find(session, now).is_some() {
            return;
        }
        if self.store.engine().state() != State::Ready {
            return;
        }
        match self.begin_lookup(session, now) {
            Turn::None => {}
            Turn::Wait(notify) => {
                // Registered before the lookup can end: its entry is removed under the lock that this was made under.
                let _ = timer::timeout(LOOKUP_TIME_MAX, notify).await;
            }
            Turn::Ask => {
                let asking = Asking { shared: self, session, is_unknown: false };
                asking.ask(time).await;
            }
        }
    }

    fn begin_lookup(&self, session: &[u8], now: Instant) -> Turn {
        let mut lookups = lock(&self.lookups);
        if let Some(running) = lookups.running.get(session) {
            let notified = running.clone().notified_owned();
            return Turn::Wait(notified);
        }
        let is_unknown =
            lookups.unknown.get(session).is_some_and(|since| now < *since + UNKNOWN_TIME);
        if is_unknown || lookups.running.len() >= RUNNING_MAX {
            return Turn::None;
        }
        lookups.running.insert(session.into(), Arc::default());
        Turn::Ask
    }

    fn key(&self, session: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        write_key(&mut key, self.store.prefix(), "s", &self.name, session);
        key
    }
}

/// A lookup in progress. Dropped, those who wait go on.
struct Asking<'a> {
    shared: &'a SharedSessions,
    session: &'a [u8],
    is_unknown: bool,
}

impl Asking<'_> {
    async fn ask(mut self, time: Duration) {
        let SharedSessions { store, sessions, .. } = self.shared;
        let command = Command::new("GET").arg(&self.shared.key(self.session));
        let reply = timer::timeout(LOOKUP_TIME_MAX, store.engine().begin(command).wait()).await;
        match reply {
            Ok(Ok(Value::Null)) => self.is_unknown = true,
            Ok(Ok(Value::Text(route))) if route.len() <= ROUTE_BYTES_MAX => {
                sessions.put(self.session, &route, time, clock::now());
            }
            _ => {}
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut lookups = lock(&self.shared.lookups);
        if self.is_unknown {
            if lookups.unknown.len() >= UNKNOWN_MAX {
                lookups.unknown.clear();
            }
            lookups.unknown.insert(self.session.into(), clock::now());
        }
        if let Some(notify) = lookups.running.remove(self.session) {
            notify.notify_waiters();
        }
    }
}

/// What a request does about a session that this server does not know.
enum Turn {
    /// Nothing.
    None,
    /// It waits for the reply to another request.
    Wait(tidegate_rt::sync::OwnedNotified),
    /// It asks.
    Ask,
}

impl Member for SharedSessions {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self, store: &SyncStore) -> Vec<Command> {
        let now = clock::exact_now();
        let changed = self.sessions.take_changed(store.keys_max());
        store.note_keys(changed.len());
        let mut commands = Vec::new();
        for part in changed.chunks(SESSIONS_OF_CALL) {
            let found = part.iter().filter_map(|(session, time)| {
                Some((self.key(session), self.sessions.find(session, now)?, *time))
            });
            let found: Vec<_> = found.collect();
            let mut command = Command::script(&PUT, found.len());
            found.iter().for_each(|(key, ..)| command.push(key));
            for (_, route, time) in &found {
                command.push(route);
                command.push_number(time.as_millis().max(1) as u64);
            }
            commands.push(command);
        }
        *lock(&self.sent) = changed;
        commands
    }

    fn end(&self, _store: &SyncStore, results: Vec<Result<Value, CallError>>, _now: Instant) {
        let sent = std::mem::take(&mut *lock(&self.sent));
        let failed =
            sent.chunks(SESSIONS_OF_CALL).zip(&results).filter(|(_, result)| result.is_err());
        self.sessions.put_back(failed.flat_map(|(part, _)| part.iter().cloned()));
    }

    fn figures(&self) -> MemberFigures {
        let (records, pending) = self.sessions.counts();
        MemberFigures { records, pending }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
