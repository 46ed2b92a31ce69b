//! The state machine of one request in the cache: lookups and events go in, the next action comes out. No I/O, no
//! clock: times are arguments, in milliseconds.
//!
//! | input | meaning |
//! |---|---|
//! | `Found` | there is a complete object, fresh or not, and perhaps a fill that revalidates it |
//! | `Filling` | there is no object, but a fill fetches it |
//! | `Absent` | there is neither |
//! | `FillEnded` | the fill that `Wait` was for has ended: look up again |
//! | `Released` | the same, since its response is not shared: each waiter fetches for itself |
//! | `RangeBeyond` | the requested range of the fill begins beyond `proxy_cache_max_range_offset` |
//! | `FillProgress`, `TimedOut` | the fill has grown; the time that `Wait` named has passed |
//! | `ClientGone` | the client has left |
//!
//! The rule about waiting: as long as bytes arrive, no other request fetches the same object. So
//! `proxy_cache_lock_age` counts from the last byte that arrived, and a waiter whose `proxy_cache_lock_timeout`
//! passes while bytes arrive follows the fill and does not go to the origin. A fill that has been silent for
//! `proxy_cache_lock_age` is replaced.
//!
//! Each fetch that [`CacheDecision`] requests gets one [`OriginDecision`], owned by the fetch: there is one verdict
//! for a fetch, and it is made in one place. The response is stored or passed on, or the stale object is served in
//! its place.

use crate::cache::decide::facts::{
    CacheRules, Demands, FOLLOW_FROM_BYTES, FillState, StoredState, UseStale,
};
use crate::cache::status::CacheStatus;

/// Most lookups that a request repeats after fills that failed, before it is passed.
const ROUNDS_MAX: u8 = 8;

/// The inputs: results of lookups and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Found(StoredState),
    Filling(FillState),
    Absent {
        /// Uses counted so far, this one included.
        uses: u32,
    },
    FillEnded,
    Released,
    RangeBeyond,
    FillProgress(FillState),
    TimedOut(FillState),
    ClientGone,
}

impl Input {
    /// Returns the input for a request that does not wait for the running fill, nor follow it.
    pub(crate) fn beside_fill(mut self) -> Input {
        if let Input::Found(StoredState { filling: Some(filling), .. }) | Input::Filling(filling) =
            &mut self
        {
            filling.joinable = false;
        }
        self
    }
}

/// How a fetch is shared with other requests of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Others find it and follow or wait; if another request was faster, this one follows its fill.
    Shared,
    /// No other request finds it.
    Alone,
    /// As `Shared`, replacing a fill that makes no progress.
    TakeOver,
    /// As `Shared`, replacing a fill that has not got its last byte (`proxy_cache_bypass`).
    Refill,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Serve the object as it is.
    Serve(CacheStatus),
    /// Follow the fill, from its first byte, as it grows.
    Follow,
    /// Wait for the fill until this moment at the latest; wake up when it ends, or has more than
    /// [`FOLLOW_FROM_BYTES`].
    Wait { until: u64 },
    /// Look up again: the state has changed.
    Look,
    /// Fetch the complete object from the origin, and store it if it is storable.
    Fetch(Sharing),
    /// Ask the origin whether the object is still valid.
    Revalidate(Sharing),
    /// Serve the object as it is, and fetch in the background.
    ServeStaleAndRefresh { conditional: bool },
    /// Pass the request without the cache.
    Pass,
    /// Send nothing: the client has left.
    Leave,
    /// 504: the client accepts only a stored response (`only-if-cached`).
    Refuse,
}

/// The state of the request.
#[derive(Debug, PartialEq, Eq)]
enum RequestState {
    Looking,
    Waiting,
    Fetching { stale: Option<StoredState> },
}

/// The state machine of one request.
///
/// ```text
///   Looking ──► Fetching ──► (the fetch owns its decision) ──► Looking
///      │ ▲
///      ▼ │ progress, end, timeout
///   Waiting
/// ```
/// Invariants: the waiting time counts from one moment, whatever fills the request waits for, so
/// `proxy_cache_lock_timeout` bounds the total; it looks up again no more than `ROUNDS_MAX` times; its demands on the
/// cache (RFC 9111 section 5.2.1) bound every output.
#[derive(Debug)]
pub(crate) struct CacheDecision {
    state: RequestState,
    /// When it began to wait for the fills of others.
    since: Option<u64>,
    /// `$upstream_cache_status` of a response from the origin.
    status: CacheStatus,
    rounds: u8,
    /// A fill that was waited for was released: its response is not shared.
    released: bool,
    /// The stale object that the last lookup found.
    stale: Option<StoredState>,
    demands: Demands,
}

impl Default for CacheDecision {
    fn default() -> CacheDecision {
        CacheDecision::new(Demands::default())
    }
}

impl CacheDecision {
    pub(crate) fn new(demands: Demands) -> CacheDecision {
        let (state, status) = (RequestState::Looking, CacheStatus::Miss);
        CacheDecision {
            state,
            since: None,
            status,
            rounds: 0,
            released: false,
            stale: None,
            demands,
        }
    }

    /// Makes a decision that does not use stored responses (`proxy_cache_bypass`), but stores the origin's response.
    pub(crate) fn bypassing() -> CacheDecision {
        let state = RequestState::Fetching { stale: None };
        CacheDecision { state, status: CacheStatus::Bypass, ..CacheDecision::default() }
    }

    /// Returns `$upstream_cache_status` as far as it is known.
    pub(crate) fn status(&self) -> CacheStatus {
        self.status
    }

    /// Returns the decision about the response to the fetch that [`Output::Fetch`], [`Output::Revalidate`] or
    /// [`Output::ServeStaleAndRefresh`] requests. The fetch owns it; this decision does not see the response, and may
    /// look up again.
    pub(crate) fn begin_fetch(&mut self) -> OriginDecision {
        self.since = None;
        let stale = match std::mem::replace(&mut self.state, RequestState::Looking) {
            RequestState::Fetching { stale } => stale,
            RequestState::Looking | RequestState::Waiting => None,
        };
        OriginDecision::new(stale, self.status)
    }

    /// Takes an input, returns the next action.
    pub(crate) fn step(&mut self, rules: &CacheRules, input: Input, now: u64) -> Output {
        let output = self.without_demands(rules, input, now);
        let fetches = matches!(output, Output::Fetch(_) | Output::Revalidate(_));
        match output {
            Output::Pass if self.demands.only_if_cached => Output::Refuse,
            _ if fetches && self.demands.only_if_cached => Output::Refuse,
            _ if fetches && self.demands.no_store => Output::Pass,
            // The response of the background fetch would not be stored.
            Output::ServeStaleAndRefresh { .. } if self.demands.no_store => {
                Output::Serve(CacheStatus::Stale)
            }
            _ => output,
        }
    }

    /// Returns the action for a client without demands.
    fn without_demands(&mut self, rules: &CacheRules, input: Input, now: u64) -> Output {
        match input {
            Input::Found(stored) => self.found(rules, stored, now),
            Input::Filling(filling) => {
                self.stale = None;
                self.filling(rules, filling, now)
            }
            Input::Absent { uses } => self.absent(rules, uses),
            Input::FillEnded => self.look_again(),
            Input::Released => {
                self.released = true;
                self.look_again()
            }
            Input::RangeBeyond => {
                self.status = CacheStatus::Miss;
                Output::Pass
            }
            Input::FillProgress(filling) => self.filling(rules, filling, now),
            Input::TimedOut(filling) => self.timed_out(rules, filling, now),
            Input::ClientGone => Output::Leave,
        }
    }

    fn found(&mut self, rules: &CacheRules, stored: StoredState, now: u64) -> Output {
        // A complete fill is newer than the stored object.
        if stored.filling.is_some_and(|filling| filling.whole && filling.joinable) {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        if stored.fresh {
            self.status = CacheStatus::Hit;
            return Output::Serve(CacheStatus::Hit);
        }
        if stored.max_stale_allows {
            self.status = CacheStatus::Stale;
            return Output::Serve(CacheStatus::Stale);
        }
        let while_updating = stored.operator_decides && rules.use_stale.has(UseStale::UPDATING)
            || stored.may_serve_while_updating;
        self.stale = Some(stored);
        if let Some(filling) = stored.filling {
            if while_updating {
                self.status = CacheStatus::Updating;
                return Output::Serve(CacheStatus::Updating);
            }
            if filling.joinable && (rules.lock || rules.tempfile) {
                return self.filling(rules, filling, now);
            }
        } else if while_updating && rules.background_update
            || stored.may_serve_while_updating && rules.background_revalidate
        {
            self.status = CacheStatus::Stale;
            self.state = RequestState::Fetching { stale: Some(stored) };
            let conditional = rules.revalidate && stored.has_validators;
            return Output::ServeStaleAndRefresh { conditional };
        }
        let sharing = if stored.filling.is_some() { Sharing::Alone } else { Sharing::Shared };
        self.fetch(rules, sharing)
    }

    /// Fetches the object, or asks whether the stale one is still valid: that one may still be served if the origin
    /// fails.
    fn fetch(&mut self, rules: &CacheRules, sharing: Sharing) -> Output {
        let stale = self.stale;
        self.state = RequestState::Fetching { stale };
        self.status = if stale.is_some() { CacheStatus::Expired } else { CacheStatus::Miss };
        match stale.is_some_and(|stored| rules.revalidate && stored.has_validators) {
            true => Output::Revalidate(sharing),
            false => Output::Fetch(sharing),
        }
    }

    fn absent(&mut self, rules: &CacheRules, uses: u32) -> Output {
        self.stale = None;
        let fetch = self.fetch(rules, Sharing::Shared);
        if uses < rules.min_uses { Output::Pass } else { fetch }
    }

    /// Decides about a running fill: follow it, wait for it, replace it, or fetch independently.
    ///
    /// Invariant: while bytes arrive, no other request fetches the same object (`proxy_cache_lock`,
    /// `proxy_cache_tempfile`). The branches, from above: a fill that is not for this request; a complete one;
    /// neither directive; stale before it is complete; the bytes that have arrived suffice; silent for
    /// `proxy_cache_lock_age`; a head to follow; a response that will not be shared; waiting.
    fn filling(&mut self, rules: &CacheRules, filling: FillState, now: u64) -> Output {
        // Another variant, or a response that the terms of this request exclude.
        if !filling.joinable {
            return self.fetch(rules, Sharing::Alone);
        }
        // Complete, and newer than any stored object.
        if filling.whole {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        // Without both directives only a body that is about to end is followed.
        if !rules.lock && !rules.tempfile && filling.is_nearly_whole(now) {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        if !rules.lock && !rules.tempfile {
            return self.fetch(rules, Sharing::Alone);
        }
        // The operator's limit of freshness applies to a new request; one that has waited is served.
        if filling.is_stale && self.since.is_none() && !rules.lock && !filling.is_nearly_whole(now)
        {
            return self.fetch(rules, Sharing::TakeOver);
        }
        // HEAD, a 304 or a range whose bytes have arrived.
        if filling.suffices {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        // `proxy_cache_lock_age`: a silent fill is replaced.
        let quiet = now.saturating_sub(filling.last_progress);
        if (rules.lock || filling.has_head) && quiet >= rules.lock_age {
            return self.fetch(rules, Sharing::TakeOver);
        }
        let large =
            filling.promised.unwrap_or(filling.arrived).max(filling.arrived) > FOLLOW_FROM_BYTES;
        if filling.has_head && (rules.tempfile || large) {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        // Waiting would be in vain: the response is not shared, or probably not storable.
        if self.released || filling.is_hit_for_miss && !filling.has_head {
            return self.fetch(rules, Sharing::Alone);
        }
        // The time of waiting counts from the first fill that was waited for, though another request may have been
        // faster in its place.
        let since = *self.since.get_or_insert(now);
        self.state = RequestState::Waiting;
        let patience = since.saturating_add(patience(rules));
        if now >= patience {
            return self.out_of_patience(rules, filling);
        }
        let aged = filling.last_progress.saturating_add(rules.lock_age);
        Output::Wait { until: if rules.lock { aged.min(patience) } else { patience } }
    }

    fn timed_out(&mut self, rules: &CacheRules, filling: FillState, now: u64) -> Output {
        match self.state {
            RequestState::Waiting => self.filling(rules, filling, now),
            RequestState::Looking | RequestState::Fetching { .. } => Output::Look,
        }
    }

    /// Handles the end of the time that the directives allow for waiting.
    fn out_of_patience(&mut self, rules: &CacheRules, filling: FillState) -> Output {
        if filling.has_head {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        // What is passed has no stale object to fall back to.
        if self.stale.is_some() {
            return self.fetch(rules, Sharing::Alone);
        }
        self.status = CacheStatus::Miss;
        Output::Pass
    }

    fn look_again(&mut self) -> Output {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            self.status = CacheStatus::Miss;
            return Output::Pass;
        }
        Output::Look
    }
}

/// Returns how long a request waits for the head of a running fill, in milliseconds.
fn patience(rules: &CacheRules) -> u64 {
    if rules.lock { rules.lock_timeout } else { rules.tempfile_timeout }
}

/// The reason why there is no response from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Error,
    Timeout,
    InvalidHeader,
}

/// The meaning of an origin's head for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// To be stored, and so followed.
    Storable,
    NotStorable,
    /// 304 to the cache's own condition.
    NotModified,
}

/// The result of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginResult {
    Head { status: u16, kind: HeadKind },
    Failed(Failure),
}

/// The decision about the result of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginVerdict {
    /// Store the response; the client follows it.
    Store,
    /// Send the response to the client without storing it.
    Pass,
    /// The stored object is still valid.
    Renew,
    /// Serve the stored object although it is stale (`proxy_cache_use_stale`, `stale-if-error`).
    ServeStale,
    /// Respond with the origin's failure.
    Fail,
}

/// The state machine of one fetch.
///
/// Invariant: `stale` is the object found before the fetch, and does not change during it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OriginDecision {
    stale: Option<StoredState>,
    status: CacheStatus,
}

impl OriginDecision {
    pub(crate) fn new(stale: Option<StoredState>, status: CacheStatus) -> OriginDecision {
        OriginDecision { stale, status }
    }

    /// Returns `$upstream_cache_status` of a response from the origin.
    pub(crate) fn status(&self) -> CacheStatus {
        self.status
    }

    /// Returns the verdict about the result of the fetch.
    pub(crate) fn verdict(&self, rules: &CacheRules, result: OriginResult) -> OriginVerdict {
        match result {
            OriginResult::Head { status, kind } => self.about_head(rules, status, kind),
            OriginResult::Failed(failure) => self.about_failure(rules, failure),
        }
    }

    fn about_head(&self, rules: &CacheRules, status: u16, kind: HeadKind) -> OriginVerdict {
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

    fn about_failure(&self, rules: &CacheRules, failure: Failure) -> OriginVerdict {
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
