//! What becomes of an origin's response: it is stored, passed on, or the stale object is served in its place.
//!
//! A fetch that [`CacheDecision`](super::decision::CacheDecision) asks for gets one [`OriginDecision`], and whoever
//! fetches owns it: there is one verdict for a fetch, and nobody else comes to another one.

use crate::cache::decide::facts::{Rules, StoredState, UseStale};
use crate::cache::status::CacheStatus;

/// Why there is no response from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Error,
    Timeout,
    InvalidHeader,
}

/// What an origin's head is to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// To be stored, and so followed.
    Storable,
    NotStorable,
    /// 304 to our own condition.
    NotModified,
}

/// What became of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginResult {
    Head { status: u16, kind: HeadKind },
    Failed(Failure),
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginVerdict {
    /// The response is stored, and the client follows it.
    Store,
    /// The response is the answer, and is not stored.
    Pass,
    /// The object that was there is still good.
    Renew,
    /// The object that was there is served although it is stale (`proxy_cache_use_stale`, `stale-if-error`).
    ServeStale,
    /// The origin's failure is the answer.
    Fail,
}

/// The decision about one fetch.
///
/// Invariant: `stale` is what the request found before it asked, and does not change while the origin is asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OriginDecision {
    stale: Option<StoredState>,
    status: CacheStatus,
}

impl OriginDecision {
    pub(crate) fn new(stale: Option<StoredState>, status: CacheStatus) -> OriginDecision {
        OriginDecision { stale, status }
    }

    /// `$upstream_cache_status` of a response from the origin.
    pub(crate) fn status(&self) -> CacheStatus {
        self.status
    }

    /// The verdict about the result of the fetch.
    pub(crate) fn verdict(&self, rules: &Rules, result: OriginResult) -> OriginVerdict {
        match result {
            OriginResult::Head { status, kind } => self.about_head(rules, status, kind),
            OriginResult::Failed(failure) => self.about_failure(rules, failure),
        }
    }

    fn about_head(&self, rules: &Rules, status: u16, kind: HeadKind) -> OriginVerdict {
        if let Some(stale) = self.stale {
            if kind == HeadKind::NotModified {
                return OriginVerdict::Renew;
            }
            let condition = UseStale::of_status(status);
            let by_operator = condition.is_some_and(|condition| rules.use_stale.has(condition));
            // RFC 5861 section 4.
            let is_error = rules.rfc9111 && matches!(status, 500 | 502..=504);
            if by_operator && stale.operator_decides || is_error && stale.may_serve_on_error {
                return OriginVerdict::ServeStale;
            }
        }
        match kind {
            HeadKind::Storable => OriginVerdict::Store,
            HeadKind::NotStorable | HeadKind::NotModified => OriginVerdict::Pass,
        }
    }

    fn about_failure(&self, rules: &Rules, failure: Failure) -> OriginVerdict {
        let condition = match failure {
            Failure::Error => UseStale::ERROR,
            Failure::Timeout => UseStale::TIMEOUT,
            Failure::InvalidHeader => UseStale::INVALID_HEADER,
        };
        let may_serve = |stale: StoredState| {
            rules.use_stale.has(condition) && stale.operator_decides || stale.may_serve_on_error
        };
        match self.stale.is_some_and(may_serve) {
            true => OriginVerdict::ServeStale,
            false => OriginVerdict::Fail,
        }
    }
}
