//! One request's conversation with the cache, as a state machine: what was found goes in, what to do
//! comes out. No I/O, no clock: times are arguments, in milliseconds.
//!
//! | in | means |
//! |---|---|
//! | `Found` | there is a whole object, fresh or not, and perhaps a fill that renews it |
//! | `Filling` | there is no object, but somebody fetches it |
//! | `Absent` | there is neither |
//! | `FillEnded` | the fill that `Wait` was for is over: look again, and tell what is found |
//! | `Released` | the same, since its response is not for sharing: everybody goes his own way |
//! | `RangeBeyond` | what is asked of the fill lies beyond `proxy_cache_max_range_offset` |
//! | `FillProgress`, `TimedOut` | the fill has grown; the time that `Wait` named has come |
//! | `ClientGone` | nobody wants an answer any more |
//!
//! The rule about waiting: as long as bytes arrive, nobody else fetches the same object. So
//! `proxy_cache_lock_age` counts from the last byte that came, and a waiter whose
//! `proxy_cache_lock_timeout` passes while bytes come is given those instead of the origin. A fill that
//! has been silent for `proxy_cache_lock_age` is replaced.
//!
//! A fetch that [`CacheDecision`] asks for gets one [`OriginDecision`], and whoever fetches owns it: there is one verdict
//! for a fetch, and nobody else comes to another one. What becomes of the response: it is stored, passed on, or the stale
//! object is served in its place.

use crate::cache::decide::facts::{
    Demands, FOLLOW_FROM_BYTES, FillState, Rules, StoredState, UseStale,
};
use crate::cache::status::CacheStatus;

/// How often a request looks again after fills that failed, before it goes its own way.
const ROUNDS_MAX: u8 = 8;

/// What happened.
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

/// How a fetch stands to other requests of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Others find it and follow or wait; if somebody was faster, he is followed.
    Shared,
    /// Nobody else finds it.
    Alone,
    /// As `Shared`, in the place of one that makes no progress.
    TakeOver,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The object as it is.
    Serve(CacheStatus),
    /// The fill, from its first byte, as it grows.
    Follow,
    /// Wait for the fill until this moment at the latest; wake up when it ends, or has more than
    /// [`FOLLOW_FROM_BYTES`].
    Wait { until: u64 },
    /// Look again: something has changed.
    Look,
    /// Ask the origin for all of it, and store it if it may be.
    Fetch(Sharing),
    /// Ask the origin whether the object is still good.
    Revalidate(Sharing),
    /// The object as it is, and a fetch that nobody waits for.
    ServeStaleAndRefresh { conditional: bool },
    /// The origin's answer, without the cache.
    Pass,
    /// Nothing: the client has gone.
    Leave,
    /// 504: the client wanted what is stored or nothing (`only-if-cached`).
    Refuse,
}

/// What the request is doing.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Looking,
    Waiting { since: u64 },
    Fetching { stale: Option<StoredState> },
}

/// One request's state.
///
/// ```text
///   Looking ──► Fetching ──► (the fetch is given away) ──► Looking
///      │ ▲
///      ▼ │ progress, end, timeout
///   Waiting
/// ```
/// Invariants: a request waits since one moment, whatever fills it waits for, so `proxy_cache_lock_timeout` bounds the
/// whole; it looks again no more than `ROUNDS_MAX` times; what it demands of the cache (RFC 9111 section 5.2.1) bounds
/// every output.
#[derive(Debug)]
pub(crate) struct CacheDecision {
    state: State,
    /// `$upstream_cache_status` of an answer from the origin.
    status: CacheStatus,
    rounds: u8,
    /// A fill that was waited for proved not to be for sharing.
    released: bool,
    demands: Demands,
}

impl Default for CacheDecision {
    fn default() -> CacheDecision {
        CacheDecision::new(Demands::default())
    }
}

impl CacheDecision {
    pub(crate) fn new(demands: Demands) -> CacheDecision {
        let (state, status) = (State::Looking, CacheStatus::Miss);
        CacheDecision { state, status, rounds: 0, released: false, demands }
    }

    /// A decision that does not ask the cache (`proxy_cache_bypass`), but stores what the origin says.
    pub(crate) fn bypassing() -> CacheDecision {
        let state = State::Fetching { stale: None };
        CacheDecision { state, status: CacheStatus::Bypass, ..CacheDecision::default() }
    }

    /// `$upstream_cache_status` as far as it is known.
    pub(crate) fn status(&self) -> CacheStatus {
        self.status
    }

    /// The decision about the answer to the fetch that [`Output::Fetch`], [`Output::Revalidate`] or
    /// [`Output::ServeStaleAndRefresh`] asks for. It belongs to whoever fetches; what is left here knows nothing of it,
    /// and may look again.
    pub(crate) fn begin_fetch(&mut self) -> OriginDecision {
        let stale = match std::mem::replace(&mut self.state, State::Looking) {
            State::Fetching { stale } => stale,
            State::Looking | State::Waiting { .. } => None,
        };
        OriginDecision::new(stale, self.status)
    }

    /// Takes what happened, answers what to do.
    pub(crate) fn step(&mut self, rules: &Rules, input: Input, now: u64) -> Output {
        let output = self.undemanding(rules, input, now);
        let asks = matches!(output, Output::Fetch(_) | Output::Revalidate(_));
        match output {
            Output::Pass if self.demands.only_if_cached => Output::Refuse,
            _ if asks && self.demands.only_if_cached => Output::Refuse,
            _ if asks && self.demands.no_store => Output::Pass,
            // What it would fetch would not be kept.
            Output::ServeStaleAndRefresh { .. } if self.demands.no_store => {
                Output::Serve(CacheStatus::Stale)
            }
            _ => output,
        }
    }

    /// The answer to a client that demands nothing.
    fn undemanding(&mut self, rules: &Rules, input: Input, now: u64) -> Output {
        match input {
            Input::Found(standing) => self.found(rules, standing, now),
            Input::Filling(filling) => self.filling(rules, filling, now),
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

    fn found(&mut self, rules: &Rules, standing: StoredState, now: u64) -> Output {
        // What is whole is newer than what is stored.
        if standing.filling.is_some_and(|filling| filling.whole && filling.joinable) {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        if standing.fresh {
            self.status = CacheStatus::Hit;
            return Output::Serve(CacheStatus::Hit);
        }
        if standing.is_welcome_stale {
            self.status = CacheStatus::Stale;
            return Output::Serve(CacheStatus::Stale);
        }
        let while_updating = standing.operator_decides && rules.use_stale.has(UseStale::UPDATING)
            || standing.may_serve_while_updating;
        let conditional = rules.revalidate && standing.has_validators;
        if let Some(filling) = standing.filling {
            if while_updating {
                self.status = CacheStatus::Updating;
                return Output::Serve(CacheStatus::Updating);
            }
            if filling.joinable && (rules.lock || rules.tempfile) {
                return self.filling(rules, filling, now);
            }
        } else if while_updating && rules.background_update
            || standing.may_serve_while_updating && rules.background_revalidate
        {
            self.status = CacheStatus::Stale;
            self.state = State::Fetching { stale: Some(standing) };
            return Output::ServeStaleAndRefresh { conditional };
        }
        let sharing = if standing.filling.is_some() { Sharing::Alone } else { Sharing::Shared };
        self.status = CacheStatus::Expired;
        self.state = State::Fetching { stale: Some(standing) };
        if conditional { Output::Revalidate(sharing) } else { Output::Fetch(sharing) }
    }

    fn absent(&mut self, rules: &Rules, uses: u32) -> Output {
        self.status = CacheStatus::Miss;
        self.state = State::Fetching { stale: None };
        if uses < rules.min_uses {
            return Output::Pass;
        }
        Output::Fetch(Sharing::Shared)
    }

    /// There is a fill: is it followed, waited for, replaced, or does the request ask for itself?
    ///
    /// Invariant: while bytes arrive nobody else fetches the same (`proxy_cache_lock`, `proxy_cache_tempfile`). From
    /// above: a fill that is not for this request; one that is all there; neither directive; what is there is enough;
    /// silent for `proxy_cache_lock_age`; a head to follow; a response that will not be shared; patience.
    fn filling(&mut self, rules: &Rules, filling: FillState, now: u64) -> Output {
        if !filling.joinable {
            self.status = CacheStatus::Miss;
            self.state = State::Fetching { stale: None };
            return Output::Fetch(Sharing::Alone);
        }
        if filling.whole {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        if !rules.lock && !rules.tempfile && filling.is_nearly_whole(now) {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        if !rules.lock && !rules.tempfile {
            self.state = State::Fetching { stale: None };
            return Output::Fetch(Sharing::Alone);
        }
        if filling.suffices {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        let quiet = now.saturating_sub(filling.last_progress);
        if (rules.lock || filling.has_head) && quiet >= rules.lock_age {
            self.status = CacheStatus::Miss;
            self.state = State::Fetching { stale: None };
            return Output::Fetch(Sharing::TakeOver);
        }
        let large =
            filling.promised.unwrap_or(filling.arrived).max(filling.arrived) > FOLLOW_FROM_BYTES;
        if filling.has_head && (rules.tempfile || large) {
            self.status = CacheStatus::Hit;
            return Output::Follow;
        }
        if self.released || filling.doubtful && !filling.has_head {
            self.status = CacheStatus::Miss;
            self.state = State::Fetching { stale: None };
            return Output::Fetch(Sharing::Alone);
        }
        let since = match self.state {
            State::Waiting { since } => since,
            State::Looking | State::Fetching { .. } => now,
        };
        self.state = State::Waiting { since };
        let patience = since.saturating_add(patience(rules));
        if now >= patience {
            return self.out_of_patience(filling);
        }
        let aged = filling.last_progress.saturating_add(rules.lock_age);
        Output::Wait { until: if rules.lock { aged.min(patience) } else { patience } }
    }

    fn timed_out(&mut self, rules: &Rules, filling: FillState, now: u64) -> Output {
        match self.state {
            State::Waiting { .. } => self.filling(rules, filling, now),
            State::Looking | State::Fetching { .. } => Output::Look,
        }
    }

    /// Waited for as long as the directives allow.
    fn out_of_patience(&mut self, filling: FillState) -> Output {
        if filling.has_head {
            self.status = CacheStatus::Hit;
            return Output::Follow;
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

/// How long a request waits for the head of a fill that goes on.
fn patience(rules: &Rules) -> u64 {
    if rules.lock { rules.lock_timeout } else { rules.tempfile_timeout }
}

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
