//! A zone that servers share by a store (`sync`).
//!
//! The engine has a theoretical arrival time (GCRA) for each key: the time at which its bucket will be empty. This server
//! decides at once by its own bucket, and notes the requests that it has counted. In each interval a script adds them:
//! `TAT = max(TAT, now) + n * T`, with the engine's clock, where `T` is the time of one request; the bucket takes over
//! `TAT - now`. So the requests of all servers are in one sum, and the rate is exact over time: what was admitted in excess
//! before the servers knew of each other is a debt that all of them wait for. The excess itself is bounded, for each key and
//! burst, by `(servers - 1) * (burst + 1 + rate * interval)`.
//!
//! A key that was refused is sent with no requests, to learn when it is allowed again.
//!
//! Errors: the contents of a bucket are late by a round trip; a round whose reply is lost may be counted twice, at most once
//! for a lost connection; of requests that were counted while the engine was unavailable, those that have not leaked are sent
//! later; buckets that a zone has no room for take their requests along.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tidegate_gateway::zone_sync::{Member, MemberFigures, SyncStore};
use tidegate_rt::clock;
use tidegate_store::{CallError, Command, Script, Value, write_key};

use super::Zone;
use super::buckets::Buckets;
use super::conf::SyncFailure;
use super::logic::{MICROS_MAX, REQUEST, Share, WHOLE, level_of, micros_of};
use super::together::{Found, Term, Together};
use crate::http::limits::Stored;

/// A shared zone of one configuration.
pub(super) struct Shared {
    zone: Arc<Zone>,
    pub(super) store: Arc<SyncStore>,
    failure: SyncFailure,
    /// Where requests await the store.
    pub(super) together: Option<Arc<Together>>,
    /// The largest burst of a rule with this zone, in thousandths of a request.
    burst: AtomicU64,
    sent: Mutex<Vec<Sent>>,
}

/// A key that was sent.
struct Sent {
    place: u32,
    key: Arc<[u8]>,
    requests: u64,
}

/// Keys of one call of the script, which holds up the engine for a few milliseconds.
const KEYS_OF_CALL: usize = 256;
/// Keys that are handled under one hold of the zone's lock, for which requests wait.
const KEYS_AT_ONCE: usize = 64;

/// Adds requests to the arrival times of keys. ARGV: how far in the future one may be; for each key the time of its requests
/// and their number. A time that is further away is of another engine, or of its clock before it was set back: it is replaced
/// also where no request is added, or the key would be refused until that time comes. The reply has, for each key, the time until
/// its bucket is empty, and the number of all requests of the key.
pub(super) static ADD: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local out = {}
for i, key in ipairs(KEYS) do
  local tat, total = now, 0
  local known = redis.pcall('GET', key)
  if type(known) == 'string' then
    local a, b = string.match(known, '^(%d+):(%d+)$')
    if a then tat, total = tonumber(a), tonumber(b) end
  end
  local most = now + ARGV[1]
  local is_wrong = tat > most
  tat = math.min(math.max(tat, now), most)
  local n = tonumber(ARGV[i * 2 + 1])
  if n > 0 or is_wrong then
    tat = tat + ARGV[i * 2]
    total = total + n
    local value = string.format('%.0f:%.0f', tat, total)
    redis.call('SET', key, value, 'PX', string.format('%.0f', (tat - now) / 1000 + 1000))
  end
  out[i * 2 - 1] = tat - now
  out[i * 2] = total
end
return out",
);

/// How this server decides about a key.
pub(super) enum Terms {
    /// With the other servers.
    Together,
    /// By its share of the requests, while the store is not available.
    Alone(Share),
    /// Not at all: `sync_failure=reject`, and the store is not available.
    Refuse,
}

impl Shared {
    pub(super) fn new(
        zone: Arc<Zone>,
        store: Arc<SyncStore>,
        failure: SyncFailure,
        together: Option<Arc<Together>>,
    ) -> Shared {
        let (burst, sent) = (AtomicU64::new(0), Mutex::default());
        Shared { zone, store, failure, together, burst, sent }
    }

    /// Notes the burst of a rule.
    pub(super) fn allow_burst(&self, burst: u64) {
        self.burst.fetch_max(burst, Ordering::Relaxed);
    }

    /// Returns the terms for a key: this server is alone while the store is not available, or was not `reached` by the request.
    pub(super) fn terms(&self, buckets: &Buckets, key: &[u8], reached: bool) -> Terms {
        if reached && self.store.is_available() {
            return Terms::Together;
        }
        match self.failure {
            SyncFailure::Local => Terms::Alone(WHOLE),
            SyncFailure::Reject => Terms::Refuse,
            SyncFailure::Share => Terms::Alone(buckets.recent(key).share(self.store.nodes())),
        }
    }

    /// Returns what is asked about a key, for a rule with this burst.
    pub(super) fn term(&self, key: &[u8], burst: u64) -> Term {
        let mut name = Vec::new();
        write_key(&mut name, self.store.prefix(), "r", &self.zone.name, key);
        let request = micros_of(REQUEST, self.zone.settings.rate);
        // Of whole requests, as the arrival times are.
        let most = (burst / REQUEST).saturating_mul(request).min(MICROS_MAX);
        Term { name, request, most, farthest: self.farthest() }
    }

    /// Takes over what the store has decided about a request. Returns the excess that the request had.
    pub(super) fn learn(&self, key: &[u8], found: Found, passed: bool, now: Instant) -> u64 {
        let (zone, excess) = (&self.zone, level_of(found.micros, self.zone.settings.rate));
        let counted = u64::from(passed);
        let level = excess.saturating_add(counted * REQUEST);
        let counts = (counted, found.total.saturating_add(counted));
        // Without room nothing is known here while the store is not available.
        let _ =
            zone.states.lock().learn(key, level, counts, (zone.settings.rate, now, zone.bytes_max));
        excess
    }

    /// Returns how far in the future an arrival time may be, in microseconds: after a burst and an interval of each server.
    fn farthest(&self) -> u64 {
        let rate = self.zone.settings.rate;
        let burst = self.burst.load(Ordering::Relaxed).saturating_add(REQUEST);
        let interval = self.store.interval().as_micros() as u64;
        let of_server = micros_of(burst, rate).saturating_add(interval);
        of_server.saturating_mul(u64::from(self.store.nodes())).min(MICROS_MAX)
    }

    /// Takes what has changed, in parts.
    fn take(&self) -> Vec<Sent> {
        let (rate, now) = (self.zone.settings.rate, clock::now());
        let places = self.zone.states.lock().take_changed(self.store.keys_max());
        self.store.note_keys(places.len());
        let mut sent = Vec::with_capacity(places.len());
        for places in places.chunks(KEYS_AT_ONCE) {
            let mut buckets = self.zone.states.lock();
            for place in places.iter().copied() {
                if let Some((key, requests)) = buckets.send(place, rate, now) {
                    sent.push(Sent { place, key, requests });
                }
            }
        }
        sent
    }

    fn command(&self, keys: &[Sent]) -> Command {
        let (rate, mut name) = (self.zone.settings.rate, Vec::new());
        let mut command = Command::script(&ADD, keys.len());
        for sent in keys {
            name.clear();
            write_key(&mut name, self.store.prefix(), "r", &self.zone.name, &sent.key);
            command.push(&name);
        }
        command.push_number(self.farthest());
        for sent in keys {
            command.push_number(micros_of(sent.requests.saturating_mul(REQUEST), rate));
            command.push_number(sent.requests);
        }
        command
    }

    /// Takes over the reply of a call, or puts back what was sent.
    fn take_over(&self, keys: &[Sent], reply: Option<&[Value]>, now: Instant) {
        let farthest = self.farthest().saturating_mul(2);
        let reply = reply.filter(|values| values.len() == 2 * keys.len());
        for (at, keys) in keys.chunks(KEYS_AT_ONCE).enumerate() {
            let mut buckets = self.zone.states.lock();
            for (index, sent) in keys.iter().enumerate() {
                let at = 2 * (at * KEYS_AT_ONCE + index);
                let number = |at: usize| u64::try_from(reply?.get(at)?.as_integer()?).ok();
                let (Some(micros), Some(total)) = (number(at), number(at + 1)) else {
                    buckets.put_back(sent.place, &sent.key, sent.requests);
                    continue;
                };
                let level = level_of(micros.min(farthest), self.zone.settings.rate);
                let counts = (sent.requests, total);
                buckets.adopt((sent.place, &sent.key), level, counts, now);
            }
        }
    }
}

impl Member for Shared {
    fn name(&self) -> &str {
        &self.zone.name
    }

    fn begin(&self, _store: &SyncStore) -> Vec<Command> {
        let sent = self.take();
        let commands = sent.chunks(KEYS_OF_CALL).map(|keys| self.command(keys)).collect();
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = sent;
        commands
    }

    fn end(&self, _store: &SyncStore, results: Vec<Result<Value, CallError>>, now: Instant) {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner));
        for (keys, result) in sent.chunks(KEYS_OF_CALL).zip(&results) {
            let reply = result.as_ref().ok().and_then(Value::as_list);
            self.take_over(keys, reply, now);
        }
    }

    fn figures(&self) -> MemberFigures {
        let buckets = self.zone.states.lock();
        MemberFigures { records: buckets.used().entries, pending: buckets.pending() as u64 }
    }
}
