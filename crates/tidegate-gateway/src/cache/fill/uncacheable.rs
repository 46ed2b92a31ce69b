//! Times in which the requests of a key do not wait for each other: its responses are not stored, or its origin fails.

use tidegate_cache::{FillWriter, Key, Store};
use tidegate_rt::clock;

use crate::cache::decide::facts::CacheRules;
use crate::cache::decide::policy::Refusal;
use crate::cache::fill::task::FillTask;

/// Least milliseconds during which requests of a key do not queue after a response proved not to be storable
/// (hit-for-miss).
const UNCACHEABLE_FOR_MILLIS: u64 = 10_000;
/// The same time in multiples of the time until the head arrived: requests that take long (long polling) come seldom.
const UNCACHEABLE_FOR_TIMES: u64 = 4;
/// The same after an error of the origin: the next response may be a good one.
const UNCACHEABLE_ERROR_FOR_MILLIS: u64 = 1_000;

impl FillTask {
    /// Returns whether the response is not storable for any request, as opposed to this one.
    pub(super) fn is_about_all(&self, refusal: Refusal) -> bool {
        match refusal {
            Refusal::RequestFields => !self.refused,
            Refusal::CacheRules(reason) => !reason.is_about_request(),
            Refusal::Status | Refusal::Unbuffered => true,
            Refusal::TooEarly => false,
            Refusal::ByPeer { always } => always,
        }
    }

    /// Notes that requests of the key need not wait for each other for some time after a response with this status.
    pub(super) fn mark_uncacheable(&self, status: u16, writer: &FillWriter, now: u64) {
        let took = now.saturating_sub(self.requested_at);
        let time = match status {
            0..=499 => UNCACHEABLE_FOR_MILLIS.max(took.saturating_mul(UNCACHEABLE_FOR_TIMES)),
            _ => UNCACHEABLE_ERROR_FOR_MILLIS,
        };
        self.store.mark_uncacheable(writer.fill().key(), now.saturating_add(time));
    }
}

/// Lets the requests for a key not wait for each other for a moment, after the origin has failed: each would fail behind
/// another one, later than by itself. `proxy_cache_lock` protects the origin all the same. To be called before the end
/// of the fill that failed.
pub(crate) fn let_others_ask(store: &Store, rules: &CacheRules, key: &Key) {
    if !rules.lock {
        let until = clock::unix_millis().saturating_add(UNCACHEABLE_ERROR_FOR_MILLIS);
        store.mark_uncacheable(key, until);
    }
}
