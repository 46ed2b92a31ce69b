//! A zone of counts that servers share by a store (`sync`).
//!
//! The engine has a hash for each key: the count of each server, with the time at which it ends unless it is renewed (the
//! lease). In each interval a server sends the counts that have changed and gets the sum of the others', to which it adds its
//! own. A server that dies renews nothing, so its counts end with their leases: after 20 intervals.
//!
//! A request is decided at once, so servers may admit more than the limit until they know of each other: each other server up
//! to the limit, in an interval and a round trip. While the store is not available each server allows its even part of the
//! limit, at least one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_gateway::zone_sync::{Member, MemberFigures, SyncStore};
use tidegate_rt::clock;
use tidegate_store::{CallError, Command, Script, Value, write_key};

use super::Zone;
use crate::http::limits::Stored;

/// A shared zone of one configuration.
pub(super) struct Shared {
    zone: Arc<Zone>,
    pub(super) store: Arc<SyncStore>,
    sent: Mutex<Vec<Arc<[u8]>>>,
}

/// Keys of one call of the script, which holds up the engine for a few milliseconds.
const KEYS_OF_CALL: usize = 256;
/// Keys that are handled under one hold of the zone's lock, for which requests wait.
const KEYS_AT_ONCE: usize = 64;
/// Intervals of a lease, and between two renewals: a renewal for each interval would be most of the traffic.
const LEASE_INTERVALS: u32 = 20;
const RENEWAL_INTERVALS: u32 = 6;

/// Sets this server's counts, and returns the sums of the others'. ARGV: this server, the lease in milliseconds, and the count
/// for each key. A count whose lease ends far later than the longest one is of an engine with another clock.
static COUNT: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease = tonumber(ARGV[2])
local out = {}
for i, key in ipairs(KEYS) do
  local all = redis.pcall('HGETALL', key)
  if all.err then
    redis.call('DEL', key)
    all = {}
  end
  local others = 0
  for j = 1, #all, 2 do
    local count, till = string.match(all[j + 1], '^(%d+):(%d+)$')
    till = tonumber(till)
    if not till or till <= now or till > now + 600000 then
      redis.call('HDEL', key, all[j])
    elseif all[j] ~= ARGV[1] then
      others = others + tonumber(count)
    end
  end
  local own = tonumber(ARGV[i + 2])
  if own > 0 then
    redis.call('HSET', key, ARGV[1], string.format('%.0f:%.0f', own, now + lease))
    if redis.call('PTTL', key) < lease then redis.call('PEXPIRE', key, ARGV[2]) end
  else
    redis.call('HDEL', key, ARGV[1])
  end
  out[i] = others
end
return out",
);

impl Shared {
    pub(super) fn new(zone: Arc<Zone>, store: Arc<SyncStore>) -> Shared {
        Shared { zone, store, sent: Mutex::default() }
    }

    /// Returns the number of requests that may be in progress on all servers: the limit, or this server's part of it.
    pub(super) fn most(&self, most: u32) -> u32 {
        match self.store.is_available() {
            true => most,
            false => (most / self.store.nodes()).max(1),
        }
    }

    fn lease(&self) -> Duration {
        self.store.interval() * LEASE_INTERVALS
    }

    fn command(&self, keys: &[Arc<[u8]>], counts: &[u32]) -> Command {
        let mut command = Command::script(&COUNT, keys.len());
        let mut name = Vec::new();
        for key in keys {
            name.clear();
            write_key(&mut name, self.store.prefix(), "c", &self.zone.name, key);
            command.push(&name);
        }
        command.push(self.store.engine().node().as_bytes());
        command.push_number(self.lease().as_millis() as u64);
        for count in counts {
            command.push_number(u64::from(*count));
        }
        command
    }
}

impl Member for Shared {
    fn name(&self) -> &str {
        &self.zone.name
    }

    fn begin(&self, store: &SyncStore) -> Vec<Command> {
        let now = clock::exact_now();
        let next = now + store.interval() * RENEWAL_INTERVALS;
        let keys = match self.zone.states.lock().others() {
            Some(others) => others.take(store.keys_max(), now, next),
            None => Vec::new(),
        };
        store.note_keys(keys.len());
        let mut counts = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let own = self.zone.states.lock();
            counts.extend(keys.iter().map(|key| own.own(key)));
        }
        let calls = keys.chunks(KEYS_OF_CALL).zip(counts.chunks(KEYS_OF_CALL));
        let commands = calls.map(|(keys, counts)| self.command(keys, counts)).collect();
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = keys;
        commands
    }

    fn end(&self, _store: &SyncStore, results: Vec<Result<Value, CallError>>, _now: Instant) {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner));
        for (keys, result) in sent.chunks(KEYS_OF_CALL).zip(&results) {
            let reply = result.as_ref().ok().and_then(Value::as_list);
            let reply = reply.filter(|values| values.len() == keys.len());
            for (at, keys) in keys.chunks(KEYS_AT_ONCE).enumerate() {
                let mut counts = self.zone.states.lock();
                for (index, key) in keys.iter().enumerate() {
                    let value = reply.and_then(|values| values.get(at * KEYS_AT_ONCE + index));
                    let value = value.and_then(Value::as_integer);
                    let own = counts.own(key);
                    let Some(others) = counts.others() else { return };
                    match value {
                        None => others.put_back(key),
                        Some(count) => {
                            let count = count.clamp(0, i64::from(u32::MAX)) as u32;
                            others.adopt(key, own, count);
                        }
                    }
                }
            }
        }
    }

    fn figures(&self) -> MemberFigures {
        let counts = self.zone.states.lock();
        MemberFigures { records: counts.used().entries, pending: counts.pending() as u64 }
    }
}
