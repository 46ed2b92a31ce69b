//! The records of a zone: found by key, removed when they expire, bounded by the zone's size.
//!
//! There is neither a lock nor a clock here: each call gets the time. A record that has expired is not found, whether it
//! was removed or not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use std::{error, fmt};

use tidegate_core::figures::SlabUse;

use super::index::{Index, Matching};

/// The records of a zone.
pub(crate) struct Table {
    index: Index,
    /// A record keeps its place, so that a reader of all records can go on behind the last one it has seen.
    slots: Vec<Option<Record>>,
    free: Vec<u32>,
    /// Places of records by the time at which they expire.
    expiries: BTreeSet<(Instant, u32)>,
    bytes: usize,
    /// Increases with each change.
    version: u64,
}

/// A key with its value.
pub(crate) struct Record {
    pub(crate) key: Arc<str>,
    pub(crate) value: Box<str>,
    /// `None`: it stays.
    pub(crate) expires: Option<Instant>,
}

/// The reason why a change was refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableError {
    /// The key is no address or network, as the zone's type demands.
    InvalidKey(String),
    Exists(String),
    Missing(String),
    /// The zone's size is used up.
    NoRoom,
}

/// Expired records that a change removes: more than it adds, so that they do not pile up.
const SWEPT_BY_CHANGE: usize = 64;
/// Bytes that a record takes beside its key and its value: its place, its share of the index, and the allocator's.
const RECORD_BYTES: usize = 160;
/// Bytes that the index of networks or prefixes takes for a record.
const INDEX_BYTES: usize = 64;

impl Record {
    fn is_live(&self, now: Instant) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl Table {
    pub(crate) fn new(matching: Matching) -> Table {
        Table {
            index: Index::new(matching),
            slots: Vec::new(),
            free: Vec::new(),
            expiries: BTreeSet::new(),
            bytes: 0,
            version: 0,
        }
    }

    /// Returns the value for a key by the zone's rules of matching.
    pub(crate) fn find(&self, key: &[u8], now: Instant) -> Option<&str> {
        let live = |place| self.record(place).filter(|record| record.is_live(now));
        self.index.find(key, live).map(|record| &*record.value)
    }

    /// Returns the record of this very key.
    pub(crate) fn get(&self, key: &str, now: Instant) -> Option<&Record> {
        let place = self.index.place(key).ok().flatten()?;
        self.record(place).filter(|record| record.is_live(now))
    }

    /// Returns whether all records have expired.
    pub(crate) fn is_empty(&self, now: Instant) -> bool {
        let all = self.slots.len() - self.free.len();
        // The last to expire stands for all, where all do.
        self.expiries.len() == all && self.expiries.last().is_none_or(|(last, _)| *last <= now)
    }

    /// Returns how much of the zone is in use; records that have expired and were not removed yet are counted.
    pub(crate) fn used(&self) -> SlabUse {
        let entries = self.slots.len() - self.free.len();
        SlabUse { bytes: self.bytes as u64, entries: entries as u64 }
    }

    /// Returns the number of changes so far.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The key is invalid or there already, or the records would take more than `bytes_max`.
    pub(crate) fn add(
        &mut self,
        record: Record,
        bytes_max: usize,
        now: Instant,
    ) -> Result<(), TableError> {
        self.sweep(now, SWEPT_BY_CHANGE);
        match self.place(&record.key)? {
            Some(place) if self.record(place).is_some_and(|known| known.is_live(now)) => {
                return Err(TableError::Exists((*record.key).to_owned()));
            }
            Some(place) => self.free_place(place),
            None => {}
        }
        let cost = self.cost(&record.key, &record.value);
        let has_room = self.make_room(self.bytes.saturating_add(cost), bytes_max, now);
        if !has_room || self.slots.len() >= u32::MAX as usize {
            return Err(TableError::NoRoom);
        }
        self.bytes += cost;
        self.insert(record);
        self.version += 1;
        Ok(())
    }

    /// Makes a table with these records.
    ///
    /// # Errors
    /// As [`Table::add`].
    pub(crate) fn of(
        matching: Matching,
        records: Vec<Record>,
        bytes_max: usize,
        now: Instant,
    ) -> Result<Table, TableError> {
        let mut table = Table::new(matching);
        for record in records {
            table.add(record, bytes_max, now)?;
        }
        Ok(table)
    }

    /// Gives a key a value, whether it has a record or not.
    ///
    /// # Errors
    /// As [`Table::change`], without [`TableError::Missing`].
    pub(crate) fn put(
        &mut self,
        record: Record,
        bytes_max: usize,
        now: Instant,
    ) -> Result<(), TableError> {
        let key = record.key.clone();
        match self.get(&key, now).is_some() {
            true => self.change(&key, Some(record.value), record.expires, bytes_max, now),
            false => self.add(record, bytes_max, now),
        }
    }

    /// Changes value (`None`: stays) and expiry of a record.
    ///
    /// # Errors
    /// The key is invalid or missing, or the new value does not fit into `bytes_max`.
    pub(crate) fn change(
        &mut self,
        key: &str,
        value: Option<Box<str>>,
        expires: Option<Instant>,
        bytes_max: usize,
        now: Instant,
    ) -> Result<(), TableError> {
        self.sweep(now, SWEPT_BY_CHANGE);
        let missing = || TableError::Missing(key.to_owned());
        let place = self.place(key)?.ok_or_else(missing)?;
        let known = self.record(place).filter(|known| known.is_live(now)).ok_or_else(missing)?;
        let (before, after) =
            (known.value.len(), value.as_ref().map_or(known.value.len(), |value| value.len()));
        let bytes = self.bytes - before + after;
        // A value that is not longer fits even where a reload has made the zone smaller.
        if after > before && !self.make_room(bytes, bytes_max, now) {
            return Err(TableError::NoRoom);
        }
        let record = self.slots.get_mut(place as usize).and_then(Option::as_mut);
        let record = record.ok_or_else(missing)?;
        if let Some(value) = value {
            self.bytes = self.bytes - before + after;
            record.value = value;
        }
        let before = std::mem::replace(&mut record.expires, expires);
        if let Some(before) = before {
            self.expiries.remove(&(before, place));
        }
        if let Some(expires) = expires {
            self.expiries.insert((expires, place));
        }
        self.version += 1;
        Ok(())
    }

    /// Removes a record.
    ///
    /// # Errors
    /// The key is invalid or missing.
    pub(crate) fn remove(&mut self, key: &str, now: Instant) -> Result<(), TableError> {
        self.sweep(now, SWEPT_BY_CHANGE);
        let missing = || TableError::Missing(key.to_owned());
        let place = self.place(key)?.ok_or_else(missing)?;
        let live = self.record(place).is_some_and(|record| record.is_live(now));
        self.free_place(place);
        self.version += 1;
        if live { Ok(()) } else { Err(missing()) }
    }

    /// Replaces all records by those of another table; returns the one that has them, which takes a while to drop.
    pub(crate) fn replace(&mut self, other: Table) -> Table {
        let version = self.version + 1;
        std::mem::replace(self, Table { version, ..other })
    }

    /// Removes up to `count` records that have expired; returns how many.
    pub(crate) fn sweep(&mut self, now: Instant, count: usize) -> usize {
        let mut removed = 0;
        while removed < count
            && let Some((expires, place)) = self.expiries.first().copied()
            && expires <= now
        {
            self.free_place(place);
            removed += 1;
        }
        removed
    }

    /// Returns the records at the places from `from` on, with their places, which do not change.
    pub(crate) fn records(
        &self,
        from: usize,
        now: Instant,
    ) -> impl Iterator<Item = (usize, &Record)> {
        let slots = self.slots.iter().enumerate().skip(from);
        let records = slots.filter_map(|(place, slot)| Some((place, slot.as_ref()?)));
        records.filter(move |(_, record)| record.is_live(now))
    }

    /// Removes expired records, where so many bytes would be too many; returns whether there is room then.
    fn make_room(&mut self, bytes: usize, bytes_max: usize, now: Instant) -> bool {
        let before = self.bytes;
        while bytes.saturating_sub(before - self.bytes) > bytes_max {
            if self.sweep(now, SWEPT_BY_CHANGE) == 0 {
                return false;
            }
        }
        true
    }

    fn place(&self, key: &str) -> Result<Option<u32>, TableError> {
        self.index.place(key).map_err(|_| TableError::InvalidKey(key.to_owned()))
    }

    fn record(&self, place: u32) -> Option<&Record> {
        self.slots.get(place as usize)?.as_ref()
    }

    fn cost(&self, key: &str, value: &str) -> usize {
        let index = if self.index.matching() == Matching::Text { 0 } else { INDEX_BYTES };
        RECORD_BYTES + index + key.len() + value.len()
    }

    fn insert(&mut self, record: Record) {
        let (key, expires) = (record.key.clone(), record.expires);
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = Some(record);
                place
            }
            None => {
                self.slots.push(Some(record));
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(&key, place);
        if let Some(expires) = expires {
            self.expiries.insert((expires, place));
        }
    }

    fn free_place(&mut self, place: u32) {
        let Some(record) = self.slots.get_mut(place as usize).and_then(Option::take) else {
            return;
        };
        self.bytes -= self.cost(&record.key, &record.value);
        self.index.remove(&record.key);
        if let Some(expires) = record.expires {
            self.expiries.remove(&(expires, place));
        }
        self.free.push(place);
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::InvalidKey(key) => write!(f, "invalid key \"{key}\""),
            TableError::Exists(key) => write!(f, "key \"{key}\" already exists"),
            TableError::Missing(key) => write!(f, "key \"{key}\" not found"),
            TableError::NoRoom => f.write_str("the zone is full"),
        }
    }
}

impl error::Error for TableError {}
