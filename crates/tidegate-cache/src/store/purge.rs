//! Purges: of one key, whose file is removed, and of all keys with a prefix or entries with a tag, by rules
//! that take effect at once ([`crate::purge`]). The rules are kept in the cache directory for the next start.
//! A sweep over all files makes them superfluous.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::files::Examined;
use super::handle::Store;
use super::inner::{GARBAGE_MAX, StoreInner};
use super::position::{self, POSITION_BYTES_MAX};
use super::renew::MetadataChange;
use super::rules::{Purge, PurgeError, Sweep, rule_files};
use crate::disk::write_full_at;
use crate::fill::{Fill, FillHead};
use crate::hot::OpenEntry;
use crate::index::NodeView;
use crate::key::{Key, KeyHash};
use crate::purge::{MetadataReader, PurgeEffect};

/// The result of one step of the purger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Files examined.
    pub scanned: usize,
    /// Files removed.
    pub removed: usize,
    /// Files marked as stale.
    pub staled: usize,
    /// Whether there is more to do: the next step should follow soon (`purger_sleep`).
    pub more: bool,
}

impl Store {
    /// Sets the reader of metadata for purges. Before that no rule concerns anything.
    pub fn read_metadata_by(&self, reader: MetadataReader) {
        let _ = self.inner.purges.reader.set(reader);
    }

    /// Purges by a rule, which takes effect at once. Files are removed later, by [`Store::purge_step`] or
    /// when they are requested. Running fills that are concerned continue for their present readers; complete
    /// ones are treated like older entries. Blocks.
    pub fn purge(&self, purge: Purge, now: u64) -> Result<(), PurgeError> {
        self.purge_all([purge], now)
    }

    /// Purges by several rules, as [`Store::purge`] does, and saves them once. Those in front of one that is refused
    /// have taken effect. Blocks.
    pub fn purge_all(
        &self,
        purges: impl IntoIterator<Item = Purge>,
        now: u64,
    ) -> Result<(), PurgeError> {
        let inner = &self.inner;
        let added = purges.into_iter().try_for_each(|purge| inner.purges.add(purge, now));
        let saved = inner.save_rules().map_err(PurgeError::Disk);
        added.and(saved)
    }

    /// Makes a key's entry stale. A running fill continues for its present readers, and is stored as stale
    /// unless a newer one has replaced it. Returns whether there was an entry or a fill. Blocks.
    /// ([`Store::remove`] removes the entry.)
    pub fn make_stale(&self, key: &Key, now: u64) -> io::Result<bool> {
        let inner = &self.inner;
        let had_fill = inner.make_fill_stale(key, now);
        // The index may not have it yet.
        let is_there = self.open_entry(key, now)?.is_some();
        let known = is_there && inner.update_metadata(key, &MetadataChange::Stale(now))?;
        Ok(known || had_fill)
    }

    /// Returns the position that was kept last, by this process or an earlier one: an opaque text.
    pub fn purge_position(&self) -> Option<Vec<u8>> {
        self.inner.purges.position.lock().clone()
    }

    /// Keeps a position in the purges that several servers share. To be called when those up to it have taken effect.
    /// Blocks.
    ///
    /// # Errors
    /// The disk failed, or the position is longer than 4096 bytes: the next start has an earlier one.
    pub fn keep_purge_position(&self, position: &[u8]) -> io::Result<()> {
        if position.len() > POSITION_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let inner = &self.inner;
        let mut kept = inner.purges.position.lock();
        *kept = Some(position.to_vec());
        match inner.ownership.is_owner.load(Ordering::Acquire) {
            true => position::write(&inner.options().path, &*inner.disk, position),
            false => Ok(()),
        }
    }

    /// Returns the rules that have not been swept yet, oldest first, with their moments in Unix milliseconds.
    pub fn purges(&self) -> Vec<(Purge, u64)> {
        let rules = self.inner.purges.rules.read();
        let shown = |rule: &crate::purge::Rule| {
            (Purge { scope: rule.scope.clone(), soft: rule.soft }, rule.at)
        };
        rules.list().iter().map(shown).collect()
    }

    /// Runs one step of the cache purger: compares about `budget` files with the rules and removes or marks
    /// those that are concerned. Without `eager` there is nothing to do before the rules are many, or so old
    /// that `inactive` has left few files. Blocks.
    pub fn purge_step(&self, now: u64, budget: usize, eager: bool) -> PurgeReport {
        self.inner.purge_step(now, budget, eager)
    }
}

impl StoreInner {
    /// Removes purged objects from the result of a lookup in memory.
    pub(super) fn purge_found(
        &self,
        key: &Key,
        view: &mut NodeView,
        open: Option<OpenEntry>,
    ) -> Option<OpenEntry> {
        let (open, present) = (open?, view.present?);
        let (verdict, serial) =
            self.purges.effect_on(open.key_text(), open.metadata(), open.checked());
        match verdict {
            PurgeEffect::Kept => {
                open.check_through(serial);
                Some(open)
            }
            PurgeEffect::Stale(at) => {
                let stale = open.renewed(open.metadata().clone(), open.times().stale_since(at));
                stale.check_through(serial);
                self.hot.keep(key.hash(), present.generation, stale.clone());
                Some(stale)
            }
            PurgeEffect::Gone => {
                view.present = None;
                self.take_out(key, present.generation);
                None
            }
        }
    }

    /// Takes the file of this generation from its key. When the manager's list is full it stays in the index, where it is found
    /// again as what it is.
    fn take_out(&self, key: &Key, generation: u64) {
        self.hot.forget(key.hash());
        let has_room = self.garbage.lock().len() < GARBAGE_MAX;
        let taken = has_room.then(|| self.index.take_file(key.hash(), generation));
        if let Some(bytes) = taken.flatten() {
            self.discard_entry(*key.hash(), bytes);
        }
    }

    /// Returns an opened entry unless it is purged, or not to be used at all. Blocks.
    ///
    /// The verdict is about the object of the entry's generation: if another one has been placed meanwhile, that is left alone.
    pub(super) fn unless_purged(
        &self,
        key: &Key,
        (entry, generation): (OpenEntry, u64),
        now: u64,
    ) -> Option<OpenEntry> {
        let mut view = self.index.peek(key.hash());
        let is_of_later = self.purges.is_of_later(entry.metadata(), now);
        match view.present {
            Some(present) if present.generation == generation => {
                let left = match is_of_later {
                    true => {
                        self.take_out(key, generation);
                        None
                    }
                    false => self.purge_found(key, &mut view, Some(entry)),
                };
                if left.is_none() {
                    // At once: before the loader is done an existing file would be found again.
                    self.remove_unknown(key.hash());
                }
                left
            }
            _ if is_of_later => None,
            _ => {
                let (verdict, _) = self.purges.effect_on(entry.key_text(), entry.metadata(), 0);
                match verdict {
                    PurgeEffect::Kept => Some(entry),
                    PurgeEffect::Stale(at) => {
                        Some(entry.renewed(entry.metadata().clone(), entry.times().stale_since(at)))
                    }
                    PurgeEffect::Gone => None,
                }
            }
        }
    }

    /// Returns whether a running fill was requested before a purge that may concern it.
    pub(crate) fn is_fill_purged(&self, fill: &Fill) -> bool {
        self.effect_on_fill(fill) != PurgeEffect::Kept
    }

    /// Returns the result of the rules for a running fill. New readers do not get it as long as that is
    /// undecided.
    fn effect_on_fill(&self, fill: &Fill) -> PurgeEffect {
        let by_key = fill.stale_since().map_or(PurgeEffect::Kept, PurgeEffect::Stale);
        let purges = &self.purges;
        let is_older = purges.serial.load(Ordering::Acquire) > 0
            && fill.started_at() <= purges.latest.load(Ordering::Acquire);
        if !is_older || purges.reader.get().is_none() {
            return by_key;
        }
        let rules = purges.rules.read();
        let by_rules = match fill.head_now().as_ref().and_then(|head| purges.read(&head.metadata)) {
            Some(bearing) => rules.effect_on(fill.key().text(), bearing, 0),
            None if rules.may_concern(fill.key().text(), fill.started_at()) => PurgeEffect::Gone,
            None => PurgeEffect::Kept,
        };
        if by_rules == PurgeEffect::Kept { by_key } else { by_rules }
    }

    /// Returns the running fill for new requests, unless it is purged; where it is stale, returns that its
    /// file will be stored in a moment.
    pub(super) fn purge_fill(
        &self,
        fill: Option<Arc<Fill>>,
    ) -> (Option<Arc<Fill>>, Option<Arc<Fill>>) {
        let Some(fill) = fill else { return (None, None) };
        match self.effect_on_fill(&fill) {
            PurgeEffect::Kept => (Some(fill), None),
            PurgeEffect::Stale(_) if fill.has_last_byte() && fill.has_file() => (None, Some(fill)),
            PurgeEffect::Stale(_) | PurgeEffect::Gone => (None, None),
        }
    }

    /// Makes the object of a running fill stale; returns whether there is one. Blocks.
    fn make_fill_stale(&self, key: &Key, now: u64) -> bool {
        // The fill is not being placed meanwhile: either its file exists, or it will be stale.
        let _path_lock = self.lock_path(key.hash());
        let fill = self.index.only_fill(key.hash()).filter(|fill| fill.key().text() == key.text());
        fill.inspect(|fill| fill.make_stale(now)).is_some()
    }

    /// Returns whether a complete fill was purged while it ran and is not to be stored: not even as stale
    /// where it might replace a newer one.
    pub(super) fn is_purged(&self, fill: &Arc<Fill>, head: &FillHead) -> bool {
        let (verdict, _) = self.purges.effect_on(fill.key().text(), &head.metadata, 0);
        let is_stale = verdict != PurgeEffect::Kept || fill.stale_since().is_some();
        verdict == PurgeEffect::Gone || is_stale && fill.is_beside() && !self.index.is_known(fill)
    }

    /// Removes the file of a key that has none in the index; returns whether it no longer exists.
    fn remove_unknown(&self, hash: &KeyHash) -> bool {
        let _path_lock = self.lock_path(hash);
        self.index.peek(hash).present.is_some() || self.remove_quietly(&self.path_of(hash))
    }

    fn purge_step(&self, now: u64, budget: usize, eager: bool) -> PurgeReport {
        let mut report = PurgeReport::default();
        let mut sweep = self.purges.sweep.lock();
        if sweep.through == 0 {
            let inactive = self.options().inactive;
            if !self.is_loaded() || !self.purges.is_sweep_due(now, inactive, eager) {
                return report;
            }
            // A rule before which a running fill began needs another sweep after that fill.
            let through = self.purges.rules.read().settled();
            *sweep = Sweep { through, ..Sweep::default() };
            if through == 0 {
                return report;
            }
        }
        let mut left = budget.max(1);
        while left > 0 {
            if let Some(hash) = sweep.hashes.pop() {
                sweep.failed |= !self.sweep_file(&hash, &mut report);
                left -= 1;
            } else if let Some(hashes) = self.index.files(sweep.shard) {
                sweep.hashes = hashes;
                sweep.shard += 1;
            } else {
                self.end_sweep(&mut sweep);
                return report;
            }
        }
        report.more = true;
        report
    }

    /// Removes the rules that all files have been compared with. Files that wait for removal are removed
    /// first, since the next start would find them.
    fn end_sweep(&self, sweep: &mut Sweep) {
        let waiting = self.garbage.lock().len();
        for _ in 0..waiting {
            let Some(garbage) = self.garbage.lock().pop_front() else { break };
            self.remove_garbage(garbage);
        }
        let Sweep { through, failed, .. } = std::mem::take(sweep);
        // Files on disk that are not in the index wait for the next start, and so do the rules.
        if failed || self.counters.abandoned.load(Ordering::Relaxed) > 0 {
            return;
        }
        self.purges.rules.write().drop_through(through);
        if let Err(error) = self.save_rules() {
            self.disk_failed("keeping purges", &error);
        }
    }

    /// Compares a file with the rules; returns whether their result was applied.
    fn sweep_file(&self, hash: &KeyHash, report: &mut PurgeReport) -> bool {
        report.scanned += 1;
        let Some(present) = self.index.peek(hash).present else { return true };
        let header = match self.examine_header(hash, &self.path_of(hash)) {
            Ok(Examined::Whole(opened)) => opened.header,
            // It is never served.
            Ok(Examined::Torn | Examined::Nothing) => return true,
            Err(_) => return false,
        };
        match self.purges.effect_on(&header.key_text, &header.metadata, 0).0 {
            PurgeEffect::Kept => true,
            PurgeEffect::Gone => {
                let Some(bytes) = self.index.take_file(hash, present.generation) else {
                    return true;
                };
                self.hot.forget(hash);
                self.note_removed(hash);
                self.index.uncharge(bytes);
                report.removed += 1;
                self.remove_unknown(hash)
            }
            PurgeEffect::Stale(at) if header.times.valid_until > at => {
                let key = Key::new(&header.key_text[..]);
                let (generation, times) = (present.generation, header.times.stale_since(at));
                let change =
                    MetadataChange::Renewal { generation, metadata: header.metadata, times };
                report.staled += 1;
                self.update_metadata(&key, &change).is_ok()
            }
            PurgeEffect::Stale(_) => true,
        }
    }

    /// Writes the rules beside the entries.
    fn save_rules(&self) -> io::Result<()> {
        let _saving = self.purges.saving.lock();
        let bytes = self.purges.rules.read().encode();
        let (new, path) = rule_files(&self.options().path);
        match self.disk.remove(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.create(&new)?;
        write_full_at(&*file, &bytes, 0)?;
        self.disk.rename(&new, &path)
    }
}
