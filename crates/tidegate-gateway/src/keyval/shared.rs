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
//!    └──────────── another epoch, a lower number, changes that are no longer there ──┘
//! ```
//!
//! Reading takes the number of the last change first and the pairs then, so that changes meanwhile are applied twice, in their
//! order: the result is the same. An epoch is a random text that the pairs get when they are given to an engine: two engines,
//! or one before and after a loss, differ in it.
//!
//! Invariant: `copy` changes by `end` alone, on the thread of background work; a reload begins with `Unknown`, and the pairs
//! stay meanwhile. Time limits of pairs are kept by the engine's clock, and sent as what is left of them.

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
    /// The number of the last change that this server has applied.
    applied: watch::Sender<u64>,
    log: ErrorLog,
    lines: Mutex<Lines>,
}

/// How far this server's copy is.
enum Copy {
    Unknown,
    Giving,
    Reading { at: Position, cursor: Vec<u8>, table: Box<Table> },
    Following(Position),
}

/// A number of changes in an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    epoch: Vec<u8>,
    number: u64,
}

/// Changes that are read at once.
const CHANGES_AT_ONCE: u64 = 512;
/// Pairs that are read or given at once.
const PAIRS_AT_ONCE: usize = 512;
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

impl SharedPairs {
    pub(super) fn new(
        name: &str,
        store: Arc<SyncStore>,
        (pairs, bytes_max): (Arc<Store>, usize),
        log: ErrorLog,
    ) -> SharedPairs {
        let (name, copy) = (name.to_owned(), Mutex::new(Copy::Unknown));
        let (applied, lines) = (watch::Sender::new(0), Mutex::default());
        SharedPairs { name, store, pairs, bytes_max, copy, applied, log, lines }
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

    /// Returns the commands that give the pairs to an engine that has none.
    fn give(&self, now: Instant) -> Vec<Command> {
        let names = self.names();
        let part = [&names.pairs[..], b":", self.store.engine().node().as_bytes()].concat();
        let table = self.pairs.table();
        let records: Vec<&Record> = table.records(0, now).map(|(_, record)| record).collect();
        let mut commands = vec![Command::new("DEL").arg(&part)];
        for records in records.chunks(PAIRS_AT_ONCE) {
            let mut command = Command::new("HSET").arg(&part);
            for record in records {
                command.push(record.key.as_bytes());
                // What is left of its time: the script makes a moment of it.
                let left = record.expires.map(|expires| expires.saturating_duration_since(now));
                let left = left.map_or(0, |left| (left.as_millis() as u64).max(1));
                command.push(format!("{left}:{}", record.value).as_bytes());
            }
            commands.push(command);
        }
        let expire = Command::new("PEXPIRE").arg(&part);
        commands.push(expire.arg(GIVING_MILLIS.to_string().as_bytes()));
        let mut give = Command::script(&GIVE, 5).arg(&names.meta).arg(&names.changes);
        give = give.arg(&names.pairs).arg(&names.expiries).arg(&part);
        commands.push(give.arg(format!("{:016x}", random::next_u64()).as_bytes()));
        commands
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
            return Ok(Copy::Giving);
        }
        let Copy::Following(mut at) = copy else {
            let (at, table) = (Position { epoch, number }, Table::new(self.pairs.matching()));
            return Ok(Copy::Reading { at, cursor: b"0".to_vec(), table: Box::new(table) });
        };
        if at.epoch != epoch || number < at.number {
            return Ok(Copy::Unknown);
        }
        for change in changes.as_list().ok_or(Foreign)? {
            let [id, fields] = change.as_list().ok_or(Foreign)? else { return Err(Foreign) };
            if number_of(id.as_text().ok_or(Foreign)?) != Some(at.number + 1) {
                return Ok(Copy::Unknown);
            }
            self.apply(fields.as_list().ok_or(Foreign)?, clock, now)?;
            at.number += 1;
        }
        // There is a change that is not in the stream any more.
        if at.number < number && changes.as_list().is_some_and(<[Value]>::is_empty) {
            return Ok(Copy::Unknown);
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
                None => Ok(()),
            },
            [b"remove", key] => {
                let key = std::str::from_utf8(key).map_err(|_| Foreign)?;
                match self.pairs.change().remove(key, now) {
                    Err(TableError::Missing(_)) => Ok(()),
                    done => done,
                }
            }
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
        for pair in pairs.as_list().ok_or(Foreign)?.chunks(2) {
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
        match &*self.lock() {
            Copy::Unknown => vec![self.ask(u64::from(u32::MAX))],
            Copy::Giving => self.give(clock::exact_now()),
            Copy::Following(at) => vec![self.ask(at.number)],
            Copy::Reading { cursor, .. } => {
                let scan = Command::new("HSCAN").arg(&self.names().pairs).arg(cursor);
                let count = PAIRS_AT_ONCE.to_string();
                vec![self.ask(u64::from(u32::MAX)), scan.arg(b"COUNT").arg(count.as_bytes())]
            }
        }
    }

    fn end(&self, _store: &SyncStore, results: Vec<Result<Value, CallError>>, now: Instant) {
        let mut copy = self.lock();
        let results: Result<Vec<Value>, CallError> = results.into_iter().collect();
        // What could not be asked is asked again; but pairs are read from the beginning.
        let Ok(results) = results else {
            if !matches!(*copy, Copy::Following(_)) {
                *copy = Copy::Unknown;
            }
            return;
        };
        let before = std::mem::replace(&mut *copy, Copy::Unknown);
        let after = match (before, &results[..]) {
            (Copy::Giving, _) => Ok(Copy::Unknown),
            (Copy::Reading { at, table, .. }, [head, pairs]) => match head.as_list() {
                Some([epoch, _, clock, _]) if epoch.as_text() == Some(&at.epoch[..]) => {
                    self.read((at, table), pairs, clock, now)
                }
                _ => Ok(Copy::Unknown),
            },
            (copy, [reply]) => self.follow(copy, reply, now),
            _ => Err(Foreign),
        };
        *copy = after.unwrap_or_else(|Foreign| {
            self.say(&"the store has records of another kind");
            Copy::Unknown
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
