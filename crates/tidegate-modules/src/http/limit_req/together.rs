//! Decisions that await the store (`sync=wait`).
//!
//! The engine checks and counts a request in one step, for all of its rules with this store: it is counted by each, or by none.
//! So the requests of all servers pass one after the other, and never more than the rate and the burst allow. What is asked in
//! one turn of an event loop is one call of a script, so that the cost for the engine does not grow with the number of calls.
//!
//! Errors: without a reply within the time limit of the store nothing is known, and `sync_failure` decides; a request whose
//! reply is lost may be counted in the engine and here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_gateway::zone_sync::SyncStore;
use tidegate_rt::sync::oneshot;
use tidegate_rt::timer;
use tidegate_rt::worker::{spawn_local, yield_now};
use tidegate_store::{Command, Reply, Script, Value};

/// The requests that await a store.
pub(super) struct Together {
    pub(super) store: Arc<SyncStore>,
    waiting: Mutex<Vec<Ask>>,
    /// The number of requests that wait, to be sent or for a reply.
    held: Arc<AtomicUsize>,
}

/// A question that is held, until there is a reply or none can come, also of a request that has gone.
struct Held(Arc<AtomicUsize>);

impl Held {
    /// Counts a question, unless there are [`ASKS_MAX`].
    fn new(held: &Arc<AtomicUsize>) -> Option<Held> {
        let one = Held(held.clone());
        (held.fetch_add(1, Ordering::Relaxed) < ASKS_MAX).then_some(one)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is asked about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// The name of its record.
    pub(super) name: Vec<u8>,
    /// The time of one request, in microseconds, as all below.
    pub(super) request: u64,
    /// How far in the future the arrival time of a request that passes may be.
    pub(super) most: u64,
    /// How far in the future it may be at all.
    pub(super) farthest: u64,
}

/// What the engine has found about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// How far in the future the arrival time was, in microseconds.
    pub(super) micros: u64,
    /// The requests of the key so far.
    pub(super) total: u64,
}

/// The question of one request.
struct Ask {
    terms: Vec<Term>,
    reply: oneshot::Sender<Vec<Found>>,
    _held: Held,
}

/// Requests that may wait, to be sent or for a reply.
const ASKS_MAX: usize = 8192;
/// Keys of one call of the script, which holds up the engine for a few milliseconds. One request may have more.
const KEYS_OF_CALL: usize = 256;

/// Decides about requests one after the other. ARGV: for each request the number of its keys; for each key the time of a
/// request, the farthest arrival time that passes, and the farthest one that is believed, by which a later one is replaced. A
/// request is counted if all its keys pass. The reply has, for each key, how far its arrival time was, and the number of
/// requests before. Records are those of `shared::ADD`.
pub(super) static DECIDE: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function keep(key, tat, total)
  local value = string.format('%.0f:%.0f', tat, total)
  redis.call('SET', key, value, 'PX', string.format('%.0f', (tat - now) / 1000 + 1000))
end
local out, key, arg = {}, 0, 0
while key < #KEYS do
  local count = tonumber(ARGV[arg + 1])
  local tats, totals, passes = {}, {}, true
  for i = 1, count do
    local tat, total = now, 0
    local known = redis.pcall('GET', KEYS[key + i])
    if type(known) == 'string' then
      local a, b = string.match(known, '^(%d+):(%d+)$')
      if a then tat, total = tonumber(a), tonumber(b) end
    end
    local most = now + ARGV[arg + 3 * i + 1]
    if tat > most then
      tat = most
      keep(KEYS[key + i], tat, total)
    end
    tat = math.max(tat, now)
    if tat - now > tonumber(ARGV[arg + 3 * i]) then passes = false end
    tats[i], totals[i] = tat, total
    out[#out + 1] = tat - now
    out[#out + 1] = total
  end
  if passes then
    for i = 1, count do
      keep(KEYS[key + i], tats[i] + ARGV[arg + 3 * i - 1], totals[i] + 1)
    end
  end
  key = key + count
  arg = arg + 1 + 3 * count
end
return out",
);

impl Together {
    pub(super) fn new(store: Arc<SyncStore>) -> Together {
        Together { store, waiting: Mutex::default(), held: Arc::default() }
    }

    /// Asks about a request; `None`: there is no reply in time, or too many wait. Whether it was counted follows from what was
    /// found, see [`passes`].
    ///
    /// Cancelling: dropped before it was sent, the request is not counted; later, it is.
    pub(super) async fn ask(self: &Arc<Self>, terms: Vec<Term>) -> Option<Vec<Found>> {
        if !self.store.is_available() {
            return None;
        }
        let held = Held::new(&self.held)?;
        let (reply, receiver) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting();
            waiting.push(Ask { terms, reply, _held: held });
            waiting.len() == 1
        };
        if is_first {
            let sending = Sending { own: self.clone(), has_taken: false };
            // The handle is not kept: the task ends by itself, within the time limit.
            drop(spawn_local(sending.run()));
        }
        // The time limit of the command ends it before; this one is for a thread that ends.
        let limit = self.store.engine().timeout() * 2;
        timer::timeout(limit, receiver).await.ok()?.ok()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Ask>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends requests in parts, without waiting in between.
    fn send(&self, asks: Vec<Ask>) -> Vec<(Vec<Ask>, Reply)> {
        let mut sent = Vec::new();
        for part in parts(asks) {
            sent.push((command(&part), part));
        }
        let engine = self.store.engine();
        sent.into_iter().map(|(command, part)| (part, engine.begin(command))).collect()
    }
}

/// Returns whether a request with these terms was counted.
pub(super) fn passes(terms: &[Term], found: &[Found]) -> bool {
    terms.iter().zip(found).all(|(term, found)| found.micros <= term.most)
}

/// The sending of what has been asked in a turn of an event loop. Dropped before, with its thread, no request waits for it.
struct Sending {
    own: Arc<Together>,
    has_taken: bool,
}

impl Sending {
    async fn run(mut self) {
        // Other requests of this turn are decided before it goes on.
        yield_now().await;
        let mut asks = std::mem::take(&mut *self.own.waiting());
        self.has_taken = true;
        // What has no request any more is not counted.
        asks.retain(|ask| !ask.reply.is_closed());
        for (asks, reply) in self.own.send(asks) {
            // Without a reply the ends of those who wait are dropped, which tells them.
            let Ok(reply) = reply.wait().await else { continue };
            deliver(asks, &reply);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.has_taken {
            self.own.waiting().clear();
        }
    }
}

/// Divides requests into calls.
fn parts(asks: Vec<Ask>) -> Vec<Vec<Ask>> {
    let (mut parts, mut keys): (Vec<Vec<Ask>>, usize) = (Vec::new(), 0);
    for ask in asks {
        let more = ask.terms.len();
        match parts.last_mut() {
            Some(part) if keys + more <= KEYS_OF_CALL => {
                keys += more;
                part.push(ask);
            }
            _ => {
                keys = more;
                parts.push(vec![ask]);
            }
        }
    }
    parts
}

fn command(asks: &[Ask]) -> Command {
    let terms = || asks.iter().flat_map(|ask| &ask.terms);
    let mut command = Command::script(&DECIDE, terms().count());
    terms().for_each(|term| command.push(&term.name));
    for ask in asks {
        command.push_number(ask.terms.len() as u64);
        for term in &ask.terms {
            command.push_number(term.request);
            command.push_number(term.most);
            command.push_number(term.farthest);
        }
    }
    command
}

/// Passes what was found to those who wait. A reply of another form is none.
fn deliver(asks: Vec<Ask>, reply: &Value) {
    let number = |value: &Value| u64::try_from(value.as_integer()?).ok();
    let numbers: Option<Vec<u64>> =
        reply.as_list().and_then(|values| values.iter().map(number).collect());
    let terms: usize = asks.iter().map(|ask| ask.terms.len()).sum();
    let Some(numbers) = numbers.filter(|numbers| numbers.len() == 2 * terms) else { return };
    let mut pairs = numbers.chunks_exact(2);
    for ask in asks {
        let found = pairs.by_ref().take(ask.terms.len());
        let found = found.map(|pair| Found { micros: pair[0], total: pair[1] }).collect();
        // Who waited may have gone.
        let _ = ask.reply.send(found);
    }
}

#[cfg(test)]
mod tests;
