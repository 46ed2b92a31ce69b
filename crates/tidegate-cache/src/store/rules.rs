//! The purge rules of a store ([`crate::purge`]), and the file in which they outlast a restart.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::disk::{Disk, read_full_at};
use crate::key::KeyHash;
use crate::purge::{
    MetadataReader, PURGE_RULES_MAX, PurgeEffect, PurgeMetadata, RuleRefused, Rules, Scope,
};
use crate::sync::{Mutex, RwLock};

/// The file of rules, in the cache directory. No entry has such a name.
const RULES_FILE: &str = ".purges";
const RULES_FILE_NEW: &str = ".purges.new";

/// The number of rules at which a sweep runs whether a purger is configured or not.
const RULES_CROWDED: usize = PURGE_RULES_MAX / 2;

/// A purge of several entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// The entries that are concerned.
    pub scope: Scope,
    /// Whether entries become stale and are kept; otherwise they are no longer found.
    pub soft: bool,
}

/// The reasons why a purge did not take place.
#[derive(Debug)]
pub enum PurgeError {
    /// There are too many rules that have not been swept yet, or the text is too long.
    Refused,
    /// It has taken effect, but does not outlast a restart.
    Disk(io::Error),
}

impl fmt::Display for PurgeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeError::Refused => RuleRefused.fmt(formatter),
            PurgeError::Disk(error) => write!(formatter, "purge could not be saved ({error})"),
        }
    }
}

impl std::error::Error for PurgeError {}

/// The rules and their bookkeeping.
pub(crate) struct Purges {
    pub(super) rules: RwLock<Rules>,
    /// Copies of values of the rules, so that an entry that is not concerned needs no lock.
    pub(super) serial: AtomicU64,
    pub(super) latest: AtomicU64,
    /// The latest moment at which an entry that may be used was requested, in Unix milliseconds. It may be ahead of a clock
    /// that was set back. Those of earlier processes were requested before this one started, see [`Purges::is_of_later`].
    pub(super) latest_asked: AtomicU64,
    /// Held by every fill that began since the latest rule.
    pub(super) present: Mutex<Arc<()>>,
    pub(super) reader: OnceLock<MetadataReader>,
    /// The position in the purges that other servers share; held while it is written.
    pub(super) position: Mutex<Option<Vec<u8>>>,
    pub(super) sweep: Mutex<Sweep>,
    /// Held while the file of rules is written.
    pub(super) saving: Mutex<()>,
}

/// The progress of a sweep: none (`through` is 0) → over all shards → the rules up to `through` are removed,
/// unless a file could not be processed. Rules that are added meanwhile need the next sweep.
#[derive(Default)]
pub(super) struct Sweep {
    /// The number of the last rule that is superfluous when the sweep ends; 0: no sweep is running.
    pub(super) through: u64,
    pub(super) shard: usize,
    pub(super) hashes: Vec<KeyHash>,
    /// Whether some file could not be removed or marked.
    pub(super) failed: bool,
}

impl Purges {
    /// Reads the rules of the cache directory. A file that cannot be read purges everything that is older
    /// than this process, since its rules are unknown.
    pub(crate) fn load(directory: &Path, disk: &dyn Disk, now: u64) -> Purges {
        // Another process may write both meanwhile: the rules are at least those of the position.
        let position = super::position::read(directory, disk);
        let rules = match read_rules(directory, disk) {
            Ok(None) => Rules::default(),
            Ok(Some(bytes)) => Rules::decode(&bytes).unwrap_or_else(|| everything(now)),
            Err(_) => everything(now),
        };
        // What was requested behind the rules, by a clock that was behind them.
        let behind = if rules.serial() > 0 { rules.latest().saturating_add(1) } else { 0 };
        Purges {
            serial: AtomicU64::new(rules.serial()),
            latest: AtomicU64::new(rules.latest()),
            latest_asked: AtomicU64::new(now.max(behind)),
            rules: RwLock::new(rules),
            present: Mutex::new(Arc::new(())),
            reader: OnceLock::new(),
            position: Mutex::new(position),
            sweep: Mutex::default(),
            saving: Mutex::new(()),
        }
    }

    /// Returns the value that a fill that begins now has to hold as long as it runs.
    pub(crate) fn present(&self) -> Arc<()> {
        self.present.lock().clone()
    }

    /// Returns a moment that is later than every purge.
    pub(crate) fn after_all(&self, now: u64) -> u64 {
        let moment = match self.serial.load(Ordering::Acquire) {
            0 => now,
            _ => now.max(self.latest.load(Ordering::Acquire) + 1),
        };
        self.latest_asked.fetch_max(moment, Ordering::AcqRel);
        moment
    }

    /// Returns whether a file has an entry that was requested later than now: by an earlier process, whose clock was ahead.
    /// It must not be used. Rules that come meanwhile are about all that was requested before them, which it seems not to be.
    pub(super) fn is_of_later(&self, metadata: &[u8], now: u64) -> bool {
        let Some(PurgeMetadata { requested_at, .. }) = self.read(metadata) else { return false };
        let latest = now.max(self.latest_asked.load(Ordering::Acquire));
        if requested_at <= latest {
            self.latest_asked.fetch_max(requested_at, Ordering::AcqRel);
        }
        requested_at > latest
    }

    pub(super) fn add(&self, purge: Purge, now: u64) -> Result<(), PurgeError> {
        let mut rules = self.rules.write();
        let mut present = self.present.lock();
        let before = std::mem::replace(&mut *present, Arc::new(()));
        let older_fills = Arc::downgrade(&before);
        let asked = self.latest_asked.load(Ordering::Acquire);
        drop(before);
        rules
            .add(purge.scope, purge.soft, (now, asked), older_fills)
            .map_err(|RuleRefused| PurgeError::Refused)?;
        self.latest.store(rules.latest(), Ordering::Release);
        self.serial.store(rules.serial(), Ordering::Release);
        Ok(())
    }

    pub(super) fn read<'m>(&self, metadata: &'m [u8]) -> Option<PurgeMetadata<'m>> {
        self.reader.get().and_then(|reader| reader(metadata))
    }

    /// Returns the result of the rules for an entry, and the number of the last rule that was considered.
    pub(super) fn effect_on(
        &self,
        key: &[u8],
        metadata: &[u8],
        checked: u64,
    ) -> (PurgeEffect, u64) {
        let serial = self.serial.load(Ordering::Acquire);
        if checked >= serial {
            return (PurgeEffect::Kept, checked);
        }
        let Some(bearing) = self.read(metadata) else { return (PurgeEffect::Kept, checked) };
        let rules = self.rules.read();
        (rules.effect_on(key, bearing, checked), rules.serial())
    }

    /// Returns whether a sweep is worth its cost.
    pub(super) fn is_sweep_due(&self, now: u64, inactive: u64, eager: bool) -> bool {
        let rules = self.rules.read();
        let oldest = rules.list().first();
        oldest.is_some_and(|rule| {
            eager || rules.list().len() > RULES_CROWDED || rule.at.saturating_add(inactive) < now
        })
    }
}

fn everything(now: u64) -> Rules {
    let mut rules = Rules::default();
    // The first rule is never refused.
    let _ = rules.add(Scope::Prefix(Box::default()), false, (now, now), std::sync::Weak::new());
    rules
}

pub(super) fn rule_files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join(RULES_FILE_NEW), directory.join(RULES_FILE))
}

fn read_rules(directory: &Path, disk: &dyn Disk) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(&rule_files(directory).1) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let count = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(Some(bytes))
}
