//! Purges that the engine did not get. A purge concerns what is stored where it arrives, so one that arrives late removes
//! more than it has to, and never too little.

use std::collections::VecDeque;

use super::entry::PurgeRule;

/// Requests whose purges are kept. With more, one that makes everything stale stands for all of them.
const KEPT_MAX: usize = 1024;

/// The purges of requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Vec<PurgeRule>>,
}

impl Outbox {
    pub(super) fn keep(&mut self, rules: Vec<PurgeRule>) {
        if self.waiting.len() >= KEPT_MAX {
            self.waiting.clear();
            self.waiting.push_back(vec![PurgeRule::everything_stale()]);
            return;
        }
        self.waiting.push_back(rules);
    }

    pub(super) fn first(&self) -> Option<&Vec<PurgeRule>> {
        self.waiting.front()
    }

    /// Removes the first one, if it is still this one.
    pub(super) fn sent(&mut self, rules: &Vec<PurgeRule>) {
        if self.first() == Some(rules) {
            self.waiting.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
