//! A cache of certificates and keys that are named while the server runs (`ssl_certificate_cache` and the directives
//! of gateways that end so): one list of the parsed objects, the least recently used at its end.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_conf::{Args, Diagnostic, parse_number, parse_seconds};

use crate::pair_files::{Chain, FileStamp, LoadedPair, PemSource, ReadyKey};

/// Parsed certificates and keys by their files or texts, at most `max` of both together. An object that was not used
/// for `inactive` is removed. One that is older than `valid` is used again only if its file is unchanged. A lock is
/// held for a look or a change, never for reading a file.
pub struct PairCache {
    max: usize,
    inactive: Duration,
    valid: Duration,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_place: HashMap<Arc<Place>, Entry>,
    /// Places in the order of their last use.
    by_use: BTreeMap<u64, Arc<Place>>,
    uses: u64,
}

/// Certificates and keys may be in one file, so the kind is a part of the place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Place {
    is_key: bool,
    source: PemSource,
}

struct Entry {
    object: Object,
    stamp: Option<FileStamp>,
    loaded: Instant,
    used: Instant,
    /// The number of the last use.
    turn: u64,
}

#[derive(Clone)]
enum Object {
    Chain(Chain),
    Key(Arc<ReadyKey>),
}

/// nginx's default.
const INACTIVE_DEFAULT: Duration = Duration::from_secs(10);
/// nginx's default.
const VALID_DEFAULT: Duration = Duration::from_secs(60);

impl PairCache {
    /// Makes an empty cache of at most `max` objects; a pair has two.
    pub fn new(max: usize, inactive: Duration, valid: Duration) -> PairCache {
        PairCache { max, inactive, valid, entries: Mutex::default() }
    }

    /// Makes the cache of a directive: `off`, or `max=N [inactive=TIME] [valid=TIME]`. Blocks that inherit the directive
    /// share the cache.
    ///
    /// # Errors
    /// An invalid parameter, or no `max`.
    pub fn of_directive(args: &Args<'_>) -> Result<Option<Arc<PairCache>>, Diagnostic> {
        let (mut max, mut off) = (None, false);
        let (mut inactive, mut valid) = (INACTIVE_DEFAULT, VALID_DEFAULT);
        for index in 0..args.len() {
            let invalid = || args.invalid_parameter(index);
            match args.parameter(index)? {
                ("off", None) => off = true,
                ("max", Some(value)) => {
                    let number = parse_number(value.as_bytes()).filter(|number| *number > 0);
                    let number = number.and_then(|number| usize::try_from(number).ok());
                    max = Some(number.ok_or_else(invalid)?);
                }
                ("inactive", Some(value)) => {
                    inactive = parse_seconds(value.as_bytes()).ok_or_else(invalid)?;
                }
                ("valid", Some(value)) => {
                    valid = parse_seconds(value.as_bytes()).ok_or_else(invalid)?;
                }
                _ => return Err(invalid()),
            }
        }
        match (off, max) {
            (true, _) => Ok(None),
            (false, Some(max)) => Ok(Some(Arc::new(PairCache::new(max, inactive, valid)))),
            (false, None) => {
                let message = format!("\"{}\" must have the \"max\" parameter", args.name());
                Err(args.error_here(message))
            }
        }
    }

    /// Returns a pair whose both parts can be used, without a look at files; for event loops.
    pub fn find(
        &self,
        certificate: &PemSource,
        key: &PemSource,
        now: Instant,
    ) -> Option<LoadedPair> {
        let (chain, key) = (self.chain(certificate, now, false)?, self.key(key, now, false)?);
        LoadedPair::new(&chain, key).ok()
    }

    /// Returns certificates; with `examine` also those that have to be compared with their file before, which reads the
    /// file's metadata.
    pub(crate) fn chain(&self, source: &PemSource, now: Instant, examine: bool) -> Option<Chain> {
        match self.object(source, false, now, examine)? {
            Object::Chain(chain) => Some(chain),
            Object::Key(_) => None,
        }
    }

    /// As [`PairCache::chain`], for a key.
    pub(crate) fn key(
        &self,
        source: &PemSource,
        now: Instant,
        examine: bool,
    ) -> Option<Arc<ReadyKey>> {
        match self.object(source, true, now, examine)? {
            Object::Key(key) => Some(key),
            Object::Chain(_) => None,
        }
    }

    pub(crate) fn keep_chain(
        &self,
        source: &PemSource,
        chain: Chain,
        stamp: Option<FileStamp>,
        now: Instant,
    ) {
        self.keep(
            Place { is_key: false, source: source.clone() },
            Object::Chain(chain),
            stamp,
            now,
        );
    }

    pub(crate) fn keep_key(
        &self,
        source: &PemSource,
        key: Arc<ReadyKey>,
        stamp: Option<FileStamp>,
        now: Instant,
    ) {
        self.keep(Place { is_key: true, source: source.clone() }, Object::Key(key), stamp, now);
    }

    fn object(
        &self,
        source: &PemSource,
        is_key: bool,
        now: Instant,
        examine: bool,
    ) -> Option<Object> {
        let place = Place { is_key, source: source.clone() };
        let mut entries = self.entries();
        let entry = entries.by_place.get(&place)?;
        if now.saturating_duration_since(entry.used) > self.inactive {
            entries.remove(&place);
            return None;
        }
        if now.saturating_duration_since(entry.loaded) <= self.valid {
            return entries.used(&place, now);
        }
        if !examine {
            return None;
        }
        let stamp = entry.stamp;
        drop(entries);
        let unchanged = source.is_unchanged(stamp);
        let mut entries = self.entries();
        if !unchanged {
            entries.remove(&place);
            return None;
        }
        if let Some(entry) = entries.by_place.get_mut(&place) {
            entry.loaded = now;
        }
        entries.used(&place, now)
    }

    fn keep(&self, place: Place, object: Object, stamp: Option<FileStamp>, now: Instant) {
        let mut entries = self.entries();
        entries.remove(&place);
        entries.remove_inactive(now, self.inactive);
        while entries.by_place.len() >= self.max && entries.remove_oldest() {}
        entries.insert(place, object, stamp, now);
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn turn(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn insert(&mut self, place: Place, object: Object, stamp: Option<FileStamp>, now: Instant) {
        let (place, turn) = (Arc::new(place), self.turn());
        self.by_use.insert(turn, place.clone());
        self.by_place.insert(place, Entry { object, stamp, loaded: now, used: now, turn });
    }

    /// Returns an object and makes it the last used one.
    fn used(&mut self, place: &Place, now: Instant) -> Option<Object> {
        let turn = self.turn();
        let entry = self.by_place.get_mut(place)?;
        let shared = self.by_use.remove(&entry.turn)?;
        self.by_use.insert(turn, shared);
        (entry.turn, entry.used) = (turn, now);
        Some(entry.object.clone())
    }

    fn remove(&mut self, place: &Place) {
        if let Some(entry) = self.by_place.remove(place) {
            self.by_use.remove(&entry.turn);
        }
    }

    fn remove_oldest(&mut self) -> bool {
        let oldest = self.by_use.pop_first();
        oldest.is_some_and(|(_, place)| self.by_place.remove(&place).is_some())
    }

    fn remove_inactive(&mut self, now: Instant, inactive: Duration) {
        while let Some((_, place)) = self.by_use.first_key_value() {
            let used = self.by_place.get(place).map(|entry| entry.used);
            if used.is_some_and(|used| now.saturating_duration_since(used) <= inactive) {
                return;
            }
            self.remove_oldest();
        }
    }
}

impl fmt::Debug for PairCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairCache").field("max", &self.max).finish_non_exhaustive()
    }
}
