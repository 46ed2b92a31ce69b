//! One request's conversation with the cache, as a state machine: what was found goes in, what to do
//! comes out. No I/O, no clock: times are arguments, in milliseconds.
//!
//! | in | means |
//! |---|---|
//! | `Found` | there is a whole object, fresh or not, and perhaps a fill that renews it |
//! | `Filling` | there is no object, but somebody fetches it |
//! | `Absent` | there is neither |
//! | `OriginHead`, `OriginFailed` | what became of the fetch that `Fetch` or `Revalidate` asked for |
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

use crate::http::cache::status::CacheStatus;

/// Bodies above this are followed while they arrive even with `proxy_cache_lock` alone: to wait for
/// the whole of a small one costs little and hides a broken fetch, to wait for a large one is what
/// makes clients give up.
pub const FOLLOW_FROM_BYTES: u64 = 64 * 1024;

/// Longest pause of an origin in which a small body counts as just arriving.
const NEARLY_MILLIS_MAX: u64 = 100;

/// How often a request looks again after fills that failed, before it goes its own way.
const ROUNDS_MAX: u8 = 8;

/// The conditions of `proxy_cache_use_stale` as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseStale(pub u16);

impl UseStale {
    pub const ERROR: UseStale = UseStale(1);
    pub const TIMEOUT: UseStale = UseStale(1 << 1);
    pub const INVALID_HEADER: UseStale = UseStale(1 << 2);
    pub const UPDATING: UseStale = UseStale(1 << 3);
    pub const HTTP_500: UseStale = UseStale(1 << 4);
    pub const HTTP_502: UseStale = UseStale(1 << 5);
    pub const HTTP_503: UseStale = UseStale(1 << 6);
    pub const HTTP_504: UseStale = UseStale(1 << 7);
    pub const HTTP_403: UseStale = UseStale(1 << 8);
    pub const HTTP_404: UseStale = UseStale(1 << 9);
    pub const HTTP_429: UseStale = UseStale(1 << 10);

    pub fn has(self, condition: UseStale) -> bool {
        self.0 & condition.0 != 0
    }

    pub fn with(self, condition: UseStale) -> UseStale {
        UseStale(self.0 | condition.0)
    }

    fn of_status(status: u16) -> Option<UseStale> {
        Some(match status {
            500 => UseStale::HTTP_500,
            502 => UseStale::HTTP_502,
            503 => UseStale::HTTP_503,
            504 => UseStale::HTTP_504,
            403 => UseStale::HTTP_403,
            404 => UseStale::HTTP_404,
            429 => UseStale::HTTP_429,
            _ => return None,
        })
    }
}

/// The directives that decide here. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub lock: bool,
    pub lock_age: u64,
    pub lock_timeout: u64,
    pub tempfile: bool,
    pub tempfile_timeout: u64,
    pub min_uses: u32,
    pub use_stale: UseStale,
    pub background_update: bool,
    pub revalidate: bool,
    /// `background_update`, too, but only within `stale-while-revalidate` (RFC 5861 section 3).
    pub background_revalidate: bool,
    /// `stale-if-error` means the origin's 500, 502, 503 and 504, too (RFC 5861 section 4).
    pub rfc9111: bool,
}

/// What a request demands (RFC 9111 section 5.2.1); the default demands nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// The origin is not to be asked.
    pub only_if_cached: bool,
    /// What the origin answers is not to be stored.
    pub no_store: bool,
}

/// A whole object as it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredState {
    pub fresh: bool,
    /// Within `stale-while-revalidate`.
    pub may_serve_while_updating: bool,
    /// Within `stale-if-error`.
    pub may_serve_on_error: bool,
    /// `proxy_cache_use_stale` applies: nothing said by origin or client forbids it.
    pub operator_decides: bool,
    /// The client takes it although it is stale (`max-stale`).
    pub is_welcome_stale: bool,
    /// There is something to ask the origin by: `Last-Modified` or `ETag`.
    pub has_validators: bool,
    /// Somebody renews it.
    pub filling: Option<FillState>,
}

/// A fill as it stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillState {
    pub has_head: bool,
    /// Bytes of the body that are there.
    pub arrived: u64,
    /// The length of the body, if the origin told it.
    pub promised: Option<u64>,
    /// All of it is there, though it may not be stored yet.
    pub whole: bool,
    /// This request may be answered by it.
    pub joinable: bool,
    /// A response of its key proved not to be storable a short time ago: nobody waits for its head.
    pub doubtful: bool,
    /// What is there is all that this request needs: a head for HEAD or 304, the bytes of a range.
    pub suffices: bool,
    /// When the fill began or something last arrived.
    pub last_progress: u64,
}

impl FillState {
    /// A small body that is just arriving: there in less time than another fetch would take.
    fn is_nearly_whole(&self, now: u64) -> bool {
        self.has_head
            && self.promised.is_some_and(|promised| promised <= FOLLOW_FROM_BYTES)
            && now.saturating_sub(self.last_progress) < NEARLY_MILLIS_MAX
    }
}

/// Why there is no answer from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Error,
    Timeout,
    InvalidHeader,
}

/// What an origin's head is to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// To be stored, and so followed.
    Storable,
    NotStorable,
    /// 304 to our own condition.
    NotModified,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Found(StoredState),
    Filling(FillState),
    Absent {
        /// Uses counted so far, this one included.
        uses: u32,
    },
    OriginHead {
        status: u16,
        kind: HeadKind,
    },
    OriginFailed(Failure),
    FillEnded,
    Released,
    RangeBeyond,
    FillProgress(FillState),
    TimedOut(FillState),
    ClientGone,
}

/// How a fetch stands to other requests of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Others find it and follow or wait; if somebody was faster, he is followed.
    Shared,
    /// Nobody else finds it.
    Alone,
    /// As `Shared`, in the place of one that makes no progress.
    TakeOver,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
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
    /// The origin's failure is the answer.
    Fail,
    /// Nothing: the client has gone.
    Leave,
    /// 504: the client wanted what is stored or nothing (`only-if-cached`).
    Refuse,
}

/// What the request is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Looking,
    Waiting { since: u64 },
    Fetching { stale: Option<StoredState> },
}

/// One request's state.
#[derive(Clone, Debug)]
pub struct CacheDecision {
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
    pub fn new(demands: Demands) -> CacheDecision {
        let (state, status) = (State::Looking, CacheStatus::Miss);
        CacheDecision { state, status, rounds: 0, released: false, demands }
    }

    /// A decision that does not ask the cache (`proxy_cache_bypass`), but stores what the origin says.
    pub fn bypassing() -> CacheDecision {
        let state = State::Fetching { stale: None };
        CacheDecision { state, status: CacheStatus::Bypass, ..CacheDecision::default() }
    }

    /// `$upstream_cache_status` as far as it is known.
    pub fn status(&self) -> CacheStatus {
        self.status
    }

    /// Takes what happened, answers what to do.
    pub fn step(&mut self, rules: &Rules, input: Input, now: u64) -> Output {
        let output = self.undemanding(rules, input, now);
        // `Pass` may also mean an answer that is there.
        let is_answer = matches!(input, Input::OriginHead { .. });
        let asks = matches!(output, Output::Fetch(_) | Output::Revalidate(_));
        match output {
            _ if is_answer => output,
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
            Input::OriginHead { status, kind } => self.origin_head(rules, status, kind),
            Input::OriginFailed(failure) => self.origin_failed(rules, failure),
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

    fn origin_head(&mut self, rules: &Rules, status: u16, kind: HeadKind) -> Output {
        let State::Fetching { stale: Some(stale) } = self.state else {
            return if kind == HeadKind::Storable { Output::Follow } else { Output::Pass };
        };
        if kind == HeadKind::NotModified {
            self.status = CacheStatus::Revalidated;
            return Output::Serve(CacheStatus::Revalidated);
        }
        let condition = UseStale::of_status(status);
        let by_operator = condition.is_some_and(|condition| rules.use_stale.has(condition));
        let is_error = rules.rfc9111 && matches!(status, 500 | 502..=504);
        if by_operator && stale.operator_decides || is_error && stale.may_serve_on_error {
            self.status = CacheStatus::Stale;
            return Output::Serve(CacheStatus::Stale);
        }
        if kind == HeadKind::Storable { Output::Follow } else { Output::Pass }
    }

    fn origin_failed(&mut self, rules: &Rules, failure: Failure) -> Output {
        let State::Fetching { stale: Some(stale) } = self.state else { return Output::Fail };
        let condition = match failure {
            Failure::Error => UseStale::ERROR,
            Failure::Timeout => UseStale::TIMEOUT,
            Failure::InvalidHeader => UseStale::INVALID_HEADER,
        };
        let by_operator = rules.use_stale.has(condition) && stale.operator_decides;
        if by_operator || stale.may_serve_on_error {
            self.status = CacheStatus::Stale;
            return Output::Serve(CacheStatus::Stale);
        }
        Output::Fail
    }
}

/// How long a request waits for the head of a fill that goes on.
fn patience(rules: &Rules) -> u64 {
    if rules.lock { rules.lock_timeout } else { rules.tempfile_timeout }
}
