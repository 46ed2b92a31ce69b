//! A zone of pairs that servers share by a store (`sync`).
//!
//! The engine has the pairs in a hash, which is the truth, and the changes in a stream, with numbers without gaps. Each server
//! has a full copy: it reads the hash once, then follows the stream in each interval. Reads never leave the server, so they
//! go on without the engine. Changes by the API go to the engine first (`write`), in one script with their condition.
//!
//! ```text
//!            there are pairs                   all are read
//!   Unknown ────────────────→ Reading(number) ────────────→ Following(number)
//!    ↑   │ there is nothing: an engine that has lost its data, or a new one          │
//!    │   └──────→ Giving: it gets the pairs of this server ──→ Unknown               │
//!    └─ another epoch or connection, a lower number, changes that are no longer there ┘
//! ```
//!
//! A server without pairs waits for a moment ([`EMPTY_PAUSE`]) before it gives none: others may have some. Pairs are given in
//! several rounds, and taken over by a script when all are there. Behind a new connection they are read again: the engine may
//! be another one, which has not got the last changes of the one before.
//!
//! Reading takes the number of the last change first and the pairs then, so that changes meanwhile are applied twice, in their
//! order: the result is the same. An epoch is a random text that the pairs get when they are given to an engine: two engines,
//! or one before and after a loss, differ in it.
//!
//! Invariant: `copy` changes by `begin` and `end` alone, on the thread of background work; a reload begins with `Unknown`, and
//! the pairs stay meanwhile. Time limits of pairs are kept by the engine's clock, and sent as what is left of them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_core::Level;
use tidegate_core::error_log::ErrorLog;
use tidegate_rt::sync::watch;
use tidegate_rt::{clock, random};
use tidegate_store::{CallError, Command, Lines, Value, write_key};

use super::scripts::{CHANGES, GIVE};
use super::store::Store;
use super::table::{Record, Table, TableError};
use crate::zone_sync::{Member, MemberFigures, SyncStore};

/// A shared zone of one configuration.
pub(crate) struct SharedPairs {
    name: String,
    pub(super) store: Arc<SyncStore>,
    pairs: Arc<Store>,
    bytes_max: usize,
    copy: Mutex<Copy>,
    /// The number of the engine's connection that `copy` is of.
    connection: AtomicU64,
    /// How many pairs are read in a round: by their size, and fewer where a round has failed.
    pairs_read: AtomicUsize,
    /// The number of the last change that this server has applied.
    applied: watch::Sender<u64>,
    log: ErrorLog,
    lines: Mutex<Lines>,
}

/// How far this server's copy is.
enum Copy {
    /// Since when the engine has been seen to have nothing, where it has.
    Unknown {
        empty_since: Option<Instant>,
    },
    Giving(Given),
    Reading {
        at: Position,
        cursor: Vec<u8>,
        table: Box<Table>,
    },
    Following(Position),
}

/// How far the pairs were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Given {
    /// The place in the table where the rest begins.
    from: usize,
    pairs: usize,
    /// The script that takes them over was sent.
    is_last: bool,
}

/// A number of changes in an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    epoch: Vec<u8>,
    number: u64,
}

/// Changes that are read at once.
const CHANGES_AT_ONCE: u64 = 512;
/// Bytes of pairs that are given by one command, or one pair more.
const COMMAND_BYTES: usize = 32 << 10;
/// Bytes of pairs that are given or read in a round, or little more: they have to arrive within the timeout of a command.
const ROUND_BYTES: usize = 256 << 10;
/// Pairs that are read in the first round, and the fewest and most of the others.
const PAIRS_READ: usize = 128;
const PAIRS_READ_MIN: usize = 16;
const PAIRS_READ_MAX: usize = 4096;
/// How long a server without pairs waits for another one to give its own to an engine that has none: they try to connect
/// twice in this time, and more often where the engine refuses at once.
pub(super) const EMPTY_PAUSE: Duration = Duration::from_secs(2);
/// Milliseconds after which pairs that were given in part are dropped.
const GIVING_MILLIS: u64 = 60_000;

/// The names of a zone's records in the engine.
pub(super) struct Names {
    /// Epoch and number.
    pub(super) meta: Vec<u8>,
    pub(super) changes: Vec<u8>,
    pub(super) pairs: Vec<u8>,
    /// Keys by the time at which they expire.
    pub(super) expiries: Vec<u8>,
}

/// A reply that is not of our scripts.
struct Foreign;

impl Copy {
    const UNKNOWN: Copy = Copy::Unknown { empty_since: None };
}

impl SharedPairs {
    pub(super) fn new(
        name: &str,
        store: Arc<SyncStore>,
        (pairs, bytes_max): (Arc<Store>, usize),
        log: ErrorLog,
    ) -> SharedPairs {
        let (name, copy) = (name.to_owned(), Mutex::new(Copy::UNKNOWN));
        let (applied, lines) = (watch::Sender::new(0), Mutex::default());
        let (connection, pairs_read) = (AtomicU64::new(0), AtomicUsize::new(PAIRS_READ));
        SharedPairs {
            name,
            store,
            pairs,
            bytes_max,
            copy,
            connection,
            pairs_read,
            applied,
            log,
            lines,
        }
    }

    pub(super) fn names(&self) -> Names {
        let name = |kind: &str| {
            let mut name = Vec::new();
            write_key(&mut name, self.store.prefix(), kind, &self.name, b"");
            name
        };
        Names { meta: name("k"), changes: name("kc"), pairs: name("kp"), expiries: name("ke") }
    }

    /// Waits until this server has applied the change of this number. The caller sets the time limit.
    pub(super) async fn applied(&self, number: u64) {
        let mut applied = self.applied.subscribe();
        while *applied.borrow_and_update() < number {
            if applied.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Copy> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, reason: &dyn std::fmt::Display) {
        let (name, reason) = (&self.name, Arc::from(reason.to_string()));
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.allow(&reason, clock::exact_now()) {
            self.log.say(Level::Error, format_args!("keyval zone \"{name}\": {reason}"));
        }
    }

    /// Returns the command that asks for the changes behind a number.
    fn ask(&self, number: u64) -> Command {
        let names = self.names();
        let mut command = Command::script(&CHANGES, 2).arg(&names.meta).arg(&names.changes);
        command.push_number(number);
        command.push_number(CHANGES_AT_ONCE);
        command
    }

    /// Returns the commands that give the next pairs to an engine that has none, and with the last of them the script that
    /// takes all over.
    fn give(&self, given: &mut Given, now: Instant) -> Vec<Command> {
        let names = self.names();
        let part = [&names.pairs[..], b":", self.store.engine().node().as_bytes()].concat();
        let mut commands = Vec::new();
        if *given == Given::default() {
            commands.push(Command::new("DEL").arg(&part));
        }
        let table = self.pairs.table();
        let mut records = table.records(given.from, now).peekable();
        let mut bytes = 0;
        while records.peek().is_some() && bytes < ROUND_BYTES {
            let mut command = Command::new("HSET").arg(&part);
            while command.bytes() < COMMAND_BYTES
                && let Some((place, record)) = records.next()
            {
                command.push(record.key.as_bytes());
                // What is left of its time: the script makes a moment of it.
                let left = record.expires.map(|expires| expires.saturating_duration_since(now));
                let left = left.map_or(0, |left| (left.as_millis() as u64).max(1));
                command.push(format!("{left}:{}", record.value).as_bytes());
                *given = Given { from: place + 1, pairs: given.pairs + 1, is_last: false };
            }
            bytes += command.bytes();
            commands.push(command);
        }
        let expire = Command::new("PEXPIRE").arg(&part);
        commands.push(expire.arg(GIVING_MILLIS.to_string().as_bytes()));
        if records.peek().is_none() {
            given.is_last = true;
            let mut give = Command::script(&GIVE, 5).arg(&names.meta).arg(&names.changes);
            give = give.arg(&names.pairs).arg(&names.expiries).arg(&part);
            give.push(format!("{:016x}", random::next_u64()).as_bytes());
            give.push_number(given.pairs as u64);
            commands.push(give);
        }
        commands
    }

    /// Returns the next step where the engine has nothing.
    fn empty(&self, copy: &Copy, now: Instant) -> Copy {
        let since = match copy {
            Copy::Unknown { empty_since: Some(since) } => *since,
            _ => now,
        };
        let has_pairs = !self.pairs.table().is_empty(now);
        match has_pairs || now.saturating_duration_since(since) >= EMPTY_PAUSE {
            true => Copy::Giving(Given::default()),
            false => Copy::Unknown { empty_since: Some(since) },
        }
    }

    /// Decides about the next step by the reply to [`SharedPairs::ask`].
    fn follow(&self, copy: Copy, reply: &Value, now: Instant) -> Result<Copy, Foreign> {
        let [epoch, number, clock, changes] = reply.as_list().ok_or(Foreign)? else {
            return Err(Foreign);
        };
        let epoch = epoch.as_text().ok_or(Foreign)?.to_vec();
        let number = u64::try_from(number.as_integer().ok_or(Foreign)?).map_err(|_| Foreign)?;
        let clock = u64::try_from(clock.as_integer().ok_or(Foreign)?).map_err(|_| Foreign)?;
        if epoch.is_empty() {
            return Ok(self.empty(&copy, now));
        }
        let Copy::Following(mut at) = copy else {
            let (at, table) = (Position { epoch, number }, Table::new(self.pairs.matching()));
            return Ok(Copy::Reading { at, cursor: b"0".to_vec(), table: Box::new(table) });
        };
        if at.epoch != epoch || number < at.number {
            return Ok(Copy::UNKNOWN);
        }
        for change in changes.as_list().ok_or(Foreign)? {
            let [id, fields] = change.as_list().ok_or(Foreign)? else { return Err(Foreign) };
            if number_of(id.as_text().ok_or(Foreign)?) != Some(at.number + 1) {
                return Ok(Copy::UNKNOWN);
            }
            self.apply(fields.as_list().ok_or(Foreign)?, clock, now)?;
            at.number += 1;
        }
        // There is a change that is not in the stream any more.
        if at.number < number && changes.as_list().is_some_and(<[Value]>::is_empty) {
            return Ok(Copy::UNKNOWN);
        }
        self.applied.send_replace(at.number);
        Ok(Copy::Following(at))
    }

    /// Applies a change: fields and their values.
    fn apply(&self, fields: &[Value], clock: u64, now: Instant) -> Result<(), Foreign> {
        let fields: Option<Vec<&[u8]>> = fields.iter().map(Value::as_text).collect();
        let done = match fields.ok_or(Foreign)?[..] {
            [b"set", key, b"to", value] => match record(key, value, clock, now)? {
                Some(record) => self.pairs.change().put(record, self.bytes_max, now),
                // It has expired on its way, and what it has replaced is over as well.
                None => self.remove(key, now)?,
            },
            [b"remove", key] => self.remove(key, now)?,
            [b"clear", _] => {
                self.replace(Table::new(self.pairs.matching()));
                Ok(())
            }
            _ => return Err(Foreign),
        };
        if let Err(error) = done {
            self.say(&error);
        }
        Ok(())
    }

    /// Reads fewer pairs in a round, as one has failed: its reply may have been too long.
    fn read_fewer(&self) {
        let count = self.pairs_read.load(Ordering::Relaxed) / 2;
        self.pairs_read.store(count.max(PAIRS_READ_MIN), Ordering::Relaxed);
    }

    fn remove(&self, key: &[u8], now: Instant) -> Result<Result<(), TableError>, Foreign> {
        let key = std::str::from_utf8(key).map_err(|_| Foreign)?;
        Ok(match self.pairs.change().remove(key, now) {
            Err(TableError::Missing(_)) => Ok(()),
            done => done,
        })
    }

    /// Replaces all pairs. Those from before are dropped when lookups go on.
    fn replace(&self, table: Table) {
        let before = self.pairs.change().replace(table);
        drop(before);
    }

    /// Takes over a part of the pairs; with the last one the copy is complete.
    fn read(
        &self,
        (at, mut table): (Position, Box<Table>),
        reply: &Value,
        clock: &Value,
        now: Instant,
    ) -> Result<Copy, Foreign> {
        let clock = u64::try_from(clock.as_integer().ok_or(Foreign)?).map_err(|_| Foreign)?;
        let [cursor, pairs] = reply.as_list().ok_or(Foreign)? else { return Err(Foreign) };
        let cursor = cursor.as_text().ok_or(Foreign)?.to_vec();
        let pairs = pairs.as_list().ok_or(Foreign)?;
        let bytes: usize = pairs.iter().filter_map(Value::as_text).map(<[u8]>::len).sum();
        if let Some(each) = bytes.checked_div(pairs.len() / 2) {
            let count = ROUND_BYTES / each.max(1);
            let most = 2 * self.pairs_read.load(Ordering::Relaxed);
            let count = count.min(most).clamp(PAIRS_READ_MIN, PAIRS_READ_MAX);
            self.pairs_read.store(count, Ordering::Relaxed);
        }
        for pair in pairs.chunks(2) {
            let [key, value] = pair else { return Err(Foreign) };
            let (key, value) = (key.as_text().ok_or(Foreign)?, value.as_text().ok_or(Foreign)?);
            if let Some(record) = record(key, value, clock, now)?
                && let Err(error) = table.put(record, self.bytes_max, now)
            {
                self.say(&error);
            }
        }
        if cursor != b"0" {
            return Ok(Copy::Reading { at, cursor, table });
        }
        self.replace(*table);
        self.applied.send_replace(at.number);
        Ok(Copy::Following(at))
    }
}

impl Member for SharedPairs {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self, _store: &SyncStore) -> Vec<Command> {
        let mut copy = self.lock();
        let connection = self.store.engine().figures().connections;
        let before = self.connection.swap(connection, Ordering::Relaxed);
        if before != connection {
            if let Copy::Reading { .. } = *copy {
                self.read_fewer();
            }
            *copy = Copy::UNKNOWN;
        }
        match &mut *copy {
            Copy::Unknown { .. } => vec![self.ask(u64::from(u32::MAX))],
            Copy::Giving(given) => self.give(given, clock::exact_now()),
            Copy::Following(at) => vec![self.ask(at.number)],
            Copy::Reading { cursor, .. } => {
                let scan = Command::new("HSCAN").arg(&self.names().pairs).arg(cursor);
                let count = self.pairs_read.load(Ordering::Relaxed).to_string();
                vec![self.ask(u64::from(u32::MAX)), scan.arg(b"COUNT").arg(count.as_bytes())]
            }
        }
    }

    fn end(&self, _store: &SyncStore, results: Vec<Result<Value, CallError>>, now: Instant) {
        let mut copy = self.lock();
        let results: Result<Vec<Value>, CallError> = results.into_iter().collect();
        // What could not be asked is asked again; but pairs are given from the beginning.
        let Ok(results) = results else {
            match &*copy {
                Copy::Giving(_) => *copy = Copy::UNKNOWN,
                Copy::Reading { .. } => self.read_fewer(),
                _ => {}
            }
            return;
        };
        let before = std::mem::replace(&mut *copy, Copy::UNKNOWN);
        let after = match (before, &results[..]) {
            (Copy::Giving(given), _) if !given.is_last => Ok(Copy::Giving(given)),
            (Copy::Giving(_), _) => Ok(Copy::UNKNOWN),
            (Copy::Reading { at, table, .. }, [head, pairs]) => match head.as_list() {
                Some([epoch, number, clock, _])
                    if epoch.as_text() == Some(&at.epoch[..])
                        && number.as_integer().is_some_and(|number| number >= at.number as i64) =>
                {
                    self.read((at, table), pairs, clock, now)
                }
                _ => Ok(Copy::UNKNOWN),
            },
            (copy, [reply]) => self.follow(copy, reply, now),
            _ => Err(Foreign),
        };
        *copy = after.unwrap_or_else(|Foreign| {
            self.say(&"the store has records of another kind");
            Copy::UNKNOWN
        });
    }

    fn figures(&self) -> MemberFigures {
        let used = self.pairs.table().used();
        let follows = matches!(*self.lock(), Copy::Following(_));
        MemberFigures { records: used.entries, pending: u64::from(!follows) }
    }
}

/// Makes a record of what the engine has: the moment at which it expires (0: never), a colon, and the value. `None`: it has
/// expired.
fn record(key: &[u8], value: &[u8], clock: u64, now: Instant) -> Result<Option<Record>, Foreign> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Foreign);
    let (expires, value) = text(value)?.split_once(':').ok_or(Foreign)?;
    let expires: u64 = expires.parse().map_err(|_| Foreign)?;
    let expires = match expires {
        0 => None,
        expires if expires <= clock => return Ok(None),
        expires => now.checked_add(Duration::from_millis(expires - clock)),
    };
    Ok(Some(Record { key: text(key)?.into(), value: value.into(), expires }))
}

/// Returns the number of a change, which its id in the stream begins with.
fn number_of(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id).ok()?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests;
