//! The inputs of a decision: the directives, the request's demands, and the stored objects. Times in milliseconds.

/// Larger bodies are followed while they arrive even with `proxy_cache_lock` alone. Waiting for a small one costs
/// little and hides a broken fetch; waiting for a large one makes clients give up.
pub(crate) const FOLLOW_FROM_BYTES: u64 = 64 * 1024;

/// Longest pause of an origin during which a small body counts as still arriving.
const NEARLY_MILLIS_MAX: u64 = 100;

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

    /// Returns whether a condition is listed.
    pub fn has(self, condition: UseStale) -> bool {
        self.0 & condition.0 != 0
    }

    /// Adds a condition.
    pub fn with(self, condition: UseStale) -> UseStale {
        UseStale(self.0 | condition.0)
    }

    /// Returns the condition `http_STATUS`; `None` for a status without one.
    pub fn of_status(status: u16) -> Option<UseStale> {
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
pub(crate) struct CacheRules {
    /// `proxy_cache_lock`
    pub lock: bool,
    /// `proxy_cache_lock_age`
    pub lock_age: u64,
    /// `proxy_cache_lock_timeout`
    pub lock_timeout: u64,
    /// `proxy_cache_tempfile`
    pub tempfile: bool,
    /// `proxy_cache_tempfile_timeout`
    pub tempfile_timeout: u64,
    /// `proxy_cache_min_uses`
    pub min_uses: u32,
    /// `proxy_cache_use_stale`
    pub use_stale: UseStale,
    /// `proxy_cache_background_update`
    pub background_update: bool,
    /// `proxy_cache_revalidate`
    pub revalidate: bool,
    /// As `background_update`, but only within `stale-while-revalidate` (RFC 5861 section 3).
    pub background_revalidate: bool,
    /// `stale-if-error` also applies to the origin's 500, 502, 503 and 504 (RFC 5861 section 4).
    pub rfc9111: bool,
}

/// The demands of a request (RFC 9111 section 5.2.1); the default demands nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demands {
    /// No request to the origin is allowed.
    pub only_if_cached: bool,
    /// The origin's response is not to be stored.
    pub no_store: bool,
}

/// The current state of a complete stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredState {
    /// It may be served without asking the origin.
    pub fresh: bool,
    /// Within `stale-while-revalidate`.
    pub may_serve_while_updating: bool,
    /// Within `stale-if-error`.
    pub may_serve_on_error: bool,
    /// `proxy_cache_use_stale` applies: neither origin nor client forbids it.
    pub operator_decides: bool,
    /// The client accepts it although it is stale (`max-stale`).
    pub max_stale_allows: bool,
    /// It has a validator for a conditional request: `Last-Modified` or `ETag`.
    pub has_validators: bool,
    /// The fill that revalidates it.
    pub filling: Option<FillState>,
}

/// The current state of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillState {
    /// Its head has been published.
    pub has_head: bool,
    /// Bytes of the body that have arrived.
    pub arrived: u64,
    /// Length of the body in bytes, if the origin announced it.
    pub promised: Option<u64>,
    /// The body is complete, though it may not be stored yet.
    pub whole: bool,
    /// The fill may be served to this request.
    pub joinable: bool,
    /// The time for which its response is fresh is over, by nginx's rules: those of RFC 9111 are in `joinable`.
    pub is_stale: bool,
    /// A response of its key proved not to be storable a short time ago: no request waits for its head.
    pub is_hit_for_miss: bool,
    /// The bytes that have arrived are all that this request needs: a head for HEAD or 304, the bytes of a range.
    pub suffices: bool,
    /// When the fill began or the last byte arrived.
    pub last_progress: u64,
}

impl FillState {
    /// Returns whether this is a small body that is still arriving: it is complete in less time than another fetch
    /// takes.
    pub(crate) fn is_nearly_whole(&self, now: u64) -> bool {
        self.has_head
            && self.promised.is_some_and(|promised| promised <= FOLLOW_FROM_BYTES)
            && now.saturating_sub(self.last_progress) < NEARLY_MILLIS_MAX
    }
}
