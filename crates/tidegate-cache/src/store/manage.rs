//! The cache manager: removes what is unused, too much, or waiting for removal. Blocks.

use std::sync::atomic::Ordering;

use super::{Garbage, Options, StoreInner};
use crate::index::Victim;

/// Longest rest of the manager, in milliseconds; nginx's manager rests ten seconds as well.
const REST_MAX: u64 = 10_000;

/// What one step of the manager did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManageReport {
    pub removed_files: usize,
    /// Keys forgotten, with or without a file.
    pub removed_keys: usize,
    /// There is more to do: come again soon (`manager_sleep`).
    pub more: bool,
    /// Otherwise come again in so many milliseconds.
    pub come_again_in: u64,
}

impl StoreInner {
    pub(super) fn manage_step(&self, now: u64, budget: usize) -> ManageReport {
        let options = self.options();
        let mut report = ManageReport { come_again_in: REST_MAX, ..ManageReport::default() };
        let mut left = budget.max(1);
        while left > 0 {
            let Some(garbage) = self.garbage.lock().pop_front() else { break };
            report.removed_files += usize::from(self.remove_garbage(garbage));
            left -= 1;
        }
        while left > 0 {
            let Some(victim) = self.index.oldest() else { return report };
            let idle_until = victim.last_access.saturating_add(options.inactive);
            if idle_until > now && !self.is_too_full(&options) {
                report.come_again_in = (idle_until - now).clamp(1, REST_MAX);
                return report;
            }
            self.evict(&victim, &mut report);
            left -= 1;
        }
        report.more = true;
        report.come_again_in = 0;
        report
    }

    fn is_too_full(&self, options: &Options) -> bool {
        if options.size_max.is_some_and(|max| self.index.disk_bytes() > max)
            || self.index.is_crowded()
        {
            return true;
        }
        // With no file to remove there is nothing that eviction could free.
        let Some(free_min) = options.free_min.filter(|_| self.index.entries() > 0) else {
            return false;
        };
        match self.disk.free_bytes(&options.path) {
            Ok(free) => free < free_min,
            Err(_) => {
                self.disk_failed();
                false
            }
        }
    }

    fn evict(&self, victim: &Victim, report: &mut ManageReport) {
        let _path_lock = self.lock_path(&victim.hash);
        if !self.index.evict(victim) {
            return;
        }
        report.removed_keys += 1;
        if victim.generation.is_some() {
            self.hot.forget(&victim.hash);
            self.counters.evicted.fetch_add(1, Ordering::Relaxed);
            let path = self.path_of(&victim.hash);
            report.removed_files += usize::from(self.remove_quietly(&path));
        }
    }

    /// Whether a file was removed.
    fn remove_garbage(&self, garbage: Garbage) -> bool {
        match garbage {
            Garbage::Temporary(path) => self.remove_quietly(&path),
            Garbage::Entry(hash) => {
                let _path_lock = self.lock_path(&hash);
                if self.index.peek(&hash).present.is_some() {
                    return false;
                }
                self.counters.evicted.fetch_add(1, Ordering::Relaxed);
                self.remove_quietly(&self.path_of(&hash))
            }
        }
    }
}
