//! The cache manager: removes unused and surplus objects, and files that wait for removal. Blocks.

use std::sync::atomic::Ordering;

use super::handle::Store;
use super::inner::{Garbage, StoreInner};
use super::options::Options;
use crate::evict::Need;
use crate::index::Victim;

/// Longest pause of the manager, in milliseconds; nginx's manager sleeps ten seconds as well.
const REST_MAX: u64 = 10_000;

/// The result of one step of the manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManageReport {
    /// Files removed, whole or temporary.
    pub removed_files: usize,
    /// Keys removed, with or without a file.
    pub removed_keys: usize,
    /// Whether there is more to do: the next step should follow soon (`manager_sleep`).
    pub more: bool,
    /// Otherwise the time to the next step, in milliseconds.
    pub next_step_in: u64,
}

impl Store {
    /// Runs one step of the cache manager: removes at most about `budget` files that wait for removal, were
    /// not used for `inactive`, or exceed `max_size` and `min_free`. Blocks. `manager_files` is nginx's
    /// budget.
    pub fn manage_step(&self, now: u64, budget: usize) -> ManageReport {
        self.inner.manage_step(now, budget)
    }
}

impl StoreInner {
    pub(super) fn manage_step(&self, now: u64, budget: usize) -> ManageReport {
        self.try_take_over();
        let options = self.options();
        let mut report = ManageReport { next_step_in: REST_MAX, ..ManageReport::default() };
        let mut left = budget.max(1);
        while left > 0 {
            let Some(garbage) = self.garbage.lock().pop_front() else { break };
            report.removed_files += usize::from(self.remove_garbage(garbage));
            left -= 1;
        }
        while left > 0 && self.remove_idle(&options, now, &mut report) {
            left -= 1;
        }
        while left > 0 && self.remove_surplus(&options, &mut report) {
            left -= 1;
        }
        self.index.sweep_queues();
        self.save_index(now);
        if left == 0 {
            report.more = true;
            report.next_step_in = 0;
        }
        report
    }

    /// Removes objects that were not used for `inactive`; returns false when there is none left.
    fn remove_idle(&self, options: &Options, now: u64, report: &mut ManageReport) -> bool {
        let Some(victim) = self.index.oldest() else { return false };
        let idle_until = victim.last_access.saturating_add(options.inactive);
        if idle_until > now {
            report.next_step_in = (idle_until - now).clamp(1, REST_MAX);
            return false;
        }
        report.count(self.evict(&victim));
        true
    }

    /// Removes the next victims while there is too much; returns false when there is not.
    fn remove_surplus(&self, options: &Options, report: &mut ManageReport) -> bool {
        let too_large = options.size_max.is_some_and(|max| self.index.charged() > max)
            || !self.has_free(options, 0);
        let need = match too_large && self.index.entries() > 0 {
            true => Need::Bytes,
            false if self.index.is_crowded() => Need::Key,
            false => return false,
        };
        let Some(victim) = self.index.chosen(need) else { return false };
        report.count(self.evict(&victim));
        true
    }

    /// Removes a victim; returns whether a file of it was removed, `None` if it stays.
    pub(super) fn evict(&self, victim: &Victim) -> Option<bool> {
        let _path_lock = self.lock_path(&victim.hash);
        let bytes = self.index.evict(victim)?;
        if victim.generation.is_none() {
            return Some(false);
        }
        self.hot.forget(&victim.hash);
        self.note_removed(&victim.hash);
        self.counters.evicted.fetch_add(1, Ordering::Relaxed);
        let removed = self.remove_quietly(&self.path_of(&victim.hash));
        self.index.uncharge(bytes);
        Some(removed)
    }

    /// Removes a waiting file; returns whether one was removed.
    pub(super) fn remove_garbage(&self, garbage: Garbage) -> bool {
        match garbage {
            Garbage::Temporary(path, bytes) => {
                let removed = self.remove_quietly(&path);
                self.index.uncharge(bytes);
                removed
            }
            Garbage::Entry(hash, bytes) => {
                let _path_lock = self.lock_path(&hash);
                let is_back = self.index.peek(&hash).present.is_some();
                let removed = !is_back && {
                    self.counters.evicted.fetch_add(1, Ordering::Relaxed);
                    self.remove_quietly(&self.path_of(&hash))
                };
                self.index.uncharge(bytes);
                removed
            }
        }
    }
}

impl ManageReport {
    fn count(&mut self, evicted: Option<bool>) {
        self.removed_keys += usize::from(evicted.is_some());
        self.removed_files += usize::from(evicted == Some(true));
    }
}
