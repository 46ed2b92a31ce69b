//! Purges: of one key, whose file goes; and of all that begins so or bears a tag, by rules that take
//! effect at once ([`crate::purge`]). The rules are kept in the cache directory, for the next start, and
//! made superfluous by a sweep over all files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::files::Found;
use super::handle::Store;
use super::inner::{GARBAGE_MAX, StoreInner};
use super::renew::Change;
use super::rules::{Purge, PurgeError, Sweep, rule_files};
use crate::disk::write_full_at;
use crate::fill::{Fill, FillHead};
use crate::hot::OpenEntry;
use crate::index::NodeView;
use crate::key::{Key, KeyHash};
use crate::purge::{MetadataReader, Verdict};

/// What one step of the purger did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Files looked at.
    pub scanned: usize,
    /// Files removed.
    pub removed: usize,
    /// Files marked as stale.
    pub staled: usize,
    /// There is more to do: come again soon (`purger_sleep`).
    pub more: bool,
}

impl Store {
    /// Tells how metadata are read for purges. Before that no rule concerns anything.
    pub fn read_metadata_by(&self, reader: MetadataReader) {
        let _ = self.inner.purges.reader.set(reader);
    }

    /// Purges by a rule, which takes effect at once; files go later, by [`Store::purge_step`] or when
    /// somebody asks for them. Fills that run and are concerned go to the readers that they have, or,
    /// when they are whole, are treated like older entries. Blocks.
    pub fn purge(&self, purge: Purge, now: u64) -> Result<(), PurgeError> {
        let inner = &self.inner;
        inner.purges.add(purge, now)?;
        inner.save_rules().map_err(PurgeError::Disk)
    }

    /// Makes a key's entry stale; a fill that runs goes to the readers that it has, and is stored as stale
    /// unless a newer one has taken its place. Blocks. Whether anything was known. ([`Store::remove`]
    /// removes it.)
    pub fn make_stale(&self, key: &Key, now: u64) -> io::Result<bool> {
        let inner = &self.inner;
        let had_fill = inner.make_fill_stale(key, now);
        // It may not be in the index yet.
        let is_there = self.open_entry(key, now)?.is_some();
        let known = is_there && inner.update_metadata(key, &Change::Stale(now))?;
        Ok(known || had_fill)
    }

    /// The rules that have not been swept yet, oldest first, with their moments in unix milliseconds.
    pub fn purges(&self) -> Vec<(Purge, u64)> {
        let rules = self.inner.purges.rules.read();
        let shown = |rule: &crate::purge::Rule| {
            (Purge { scope: rule.scope.clone(), soft: rule.soft }, rule.at)
        };
        rules.list().iter().map(shown).collect()
    }

    /// One step of the cache purger: holds about `budget` files against the rules and removes or marks
    /// those that are concerned. Without `eager` there is nothing to do before the rules are many, or
    /// so old that `inactive` has left few files. Blocks.
    pub fn purge_step(&self, now: u64, budget: usize, eager: bool) -> PurgeReport {
        self.inner.purge_step(now, budget, eager)
    }
}

impl StoreInner {
    /// What the rules leave of what was found in memory.
    pub(super) fn purge_found(
        &self,
        key: &Key,
        view: &mut NodeView,
        open: Option<OpenEntry>,
    ) -> Option<OpenEntry> {
        let (open, present) = (open?, view.present?);
        let (verdict, serial) = self.purges.judge(open.key_text(), open.metadata(), open.checked());
        match verdict {
            Verdict::Kept => {
                open.check_through(serial);
                Some(open)
            }
            Verdict::Stale(at) => {
                let stale = open.renewed(open.metadata().clone(), open.times().stale_since(at));
                stale.check_through(serial);
                self.hot.keep(key.hash(), present.generation, stale.clone());
                Some(stale)
            }
            Verdict::Gone => {
                view.present = None;
                // Where there is no room to leave the file to the manager it stays known, and purged.
                let has_room = self.garbage.lock().len() < GARBAGE_MAX;
                let taken = has_room.then(|| self.index.take_file(key.hash(), present.generation));
                if let Some(bytes) = taken.flatten() {
                    self.discard_entry(*key.hash(), bytes);
                }
                None
            }
        }
    }

    /// What the rules leave of an entry that was opened. Blocks.
    pub(super) fn unless_purged(&self, key: &Key, entry: OpenEntry) -> Option<OpenEntry> {
        let mut view = self.index.peek(key.hash());
        match view.present {
            Some(_) => {
                let left = self.purge_found(key, &mut view, Some(entry));
                if left.is_none() {
                    // At once: before the loader is done a file that is there would be found again.
                    self.remove_unknown(key.hash());
                }
                left
            }
            None => {
                let (verdict, _) = self.purges.judge(entry.key_text(), entry.metadata(), 0);
                match verdict {
                    Verdict::Kept => Some(entry),
                    Verdict::Stale(at) => {
                        Some(entry.renewed(entry.metadata().clone(), entry.times().stale_since(at)))
                    }
                    Verdict::Gone => None,
                }
            }
        }
    }

    /// Whether a running fill answers what was asked before a purge that may concern it.
    pub(crate) fn is_fill_purged(&self, fill: &Fill) -> bool {
        self.judge_fill(fill) != Verdict::Kept
    }

    /// What the purges say of a running fill. It is gone for new readers as long as nobody can tell.
    fn judge_fill(&self, fill: &Fill) -> Verdict {
        let by_key = fill.stale_since().map_or(Verdict::Kept, Verdict::Stale);
        let purges = &self.purges;
        let is_older = purges.serial.load(Ordering::Acquire) > 0
            && fill.started_at() <= purges.latest.load(Ordering::Acquire);
        if !is_older || purges.reader.get().is_none() {
            return by_key;
        }
        let rules = purges.rules.read();
        let by_rules = match fill.head_now().as_ref().and_then(|head| purges.read(&head.metadata)) {
            Some(bearing) => rules.judge(fill.key().text(), bearing, 0),
            None if rules.may_concern(fill.key().text(), fill.started_at()) => Verdict::Gone,
            None => Verdict::Kept,
        };
        if by_rules == Verdict::Kept { by_key } else { by_rules }
    }

    /// What the purges leave of a fill for those who come now: the fill, or, where that is stale, the
    /// certainty that its file comes.
    pub(super) fn purge_fill(
        &self,
        fill: Option<Arc<Fill>>,
    ) -> (Option<Arc<Fill>>, Option<Arc<Fill>>) {
        let Some(fill) = fill else { return (None, None) };
        match self.judge_fill(&fill) {
            Verdict::Kept => (Some(fill), None),
            Verdict::Stale(_) if fill.has_all() && fill.has_file() => (None, Some(fill)),
            Verdict::Stale(_) | Verdict::Gone => (None, None),
        }
    }

    /// Makes what a fill makes of a key stale; whether one runs. Blocks.
    fn make_fill_stale(&self, key: &Key, now: u64) -> bool {
        // Nobody is placing it meanwhile: either its file is there, or it will be stale.
        let _path_lock = self.lock_path(key.hash());
        let fill = self.index.only_fill(key.hash()).filter(|fill| fill.key().text() == key.text());
        fill.inspect(|fill| fill.make_stale(now)).is_some()
    }

    /// Whether a whole fill was purged while it ran and is not to be stored: not even as stale where it
    /// might take the place of a newer one.
    pub(super) fn is_purged(&self, fill: &Arc<Fill>, head: &FillHead) -> bool {
        let (verdict, _) = self.purges.judge(fill.key().text(), &head.metadata, 0);
        let is_stale = verdict != Verdict::Kept || fill.stale_since().is_some();
        verdict == Verdict::Gone || is_stale && fill.is_beside() && !self.index.is_known(fill)
    }

    /// Removes the file of a key that the index has none for; whether there is none now.
    fn remove_unknown(&self, hash: &KeyHash) -> bool {
        let _path_lock = self.lock_path(hash);
        self.index.peek(hash).present.is_some() || self.remove_quietly(&self.path_of(hash))
    }

    fn purge_step(&self, now: u64, budget: usize, eager: bool) -> PurgeReport {
        let mut report = PurgeReport::default();
        let mut sweep = self.purges.sweep.lock();
        if sweep.through == 0 {
            let inactive = self.options().inactive;
            let is_loaded = self.counters.loaded.load(Ordering::Acquire);
            if !is_loaded || !self.purges.is_sweep_due(now, inactive, eager) {
                return report;
            }
            // Rules before which fills still run need another sweep after those.
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

    /// Forgets the rules that all files have been held against. What waits for its removal goes first:
    /// the next start would find it.
    fn end_sweep(&self, sweep: &mut Sweep) {
        let waiting = self.garbage.lock().len();
        for _ in 0..waiting {
            let Some(garbage) = self.garbage.lock().pop_front() else { break };
            self.remove_garbage(garbage);
        }
        let Sweep { through, failed, .. } = std::mem::take(sweep);
        // Files that are on disk unknown to the index wait for the next start, and so do the rules.
        if failed || self.counters.abandoned.load(Ordering::Relaxed) > 0 {
            return;
        }
        self.purges.rules.write().drop_through(through);
        if let Err(error) = self.save_rules() {
            self.disk_failed("keeping purges", &error);
        }
    }

    /// Holds a file against the rules; whether what they say was done.
    fn sweep_file(&self, hash: &KeyHash, report: &mut PurgeReport) -> bool {
        report.scanned += 1;
        let Some(present) = self.index.peek(hash).present else { return true };
        let header = match self.examine_header(hash, &self.path_of(hash)) {
            Ok(Found::Whole(opened)) => opened.header,
            // Nobody will be served by it.
            Ok(Found::Torn | Found::Nothing) => return true,
            Err(_) => return false,
        };
        match self.purges.judge(&header.key_text, &header.metadata, 0).0 {
            Verdict::Kept => true,
            Verdict::Gone => {
                let Some(bytes) = self.index.take_file(hash, present.generation) else {
                    return true;
                };
                self.hot.forget(hash);
                self.note_removed(hash);
                self.index.uncharge(bytes);
                report.removed += 1;
                self.remove_unknown(hash)
            }
            Verdict::Stale(at) if header.times.valid_until > at => {
                let key = Key::new(&header.key_text[..]);
                let (generation, times) = (present.generation, header.times.stale_since(at));
                let change = Change::Renewal { generation, metadata: header.metadata, times };
                report.staled += 1;
                self.update_metadata(&key, &change).is_ok()
            }
            Verdict::Stale(_) => true,
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
