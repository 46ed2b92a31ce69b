//! Whether a stored response may be used for a request: its times and the directives of the request (RFC 9111
//! sections 4 and 5.2.1). Times are Unix milliseconds.

use super::super::{CacheControl, Seconds};
use crate::connection::has_token;
use crate::headers::{Headers, Known};

/// The directives of a request about stored responses; the default has none. In seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTerms {
    /// A stored response may only be used after the origin has confirmed it.
    pub no_cache: bool,
    /// The response to this request is not to be stored.
    pub no_store: bool,
    /// `only-if-cached`: the origin must not be contacted.
    pub only_if_cached: bool,
    /// `max-age`: the greatest age.
    pub max_age: Option<u32>,
    /// `min-fresh`: the least time that it stays fresh; 0: absent.
    pub min_fresh: u32,
    /// `max-stale`: the longest time past its freshness; 0: absent.
    pub max_stale: u32,
    /// RFC 5861 section 4; 0: absent.
    pub stale_if_error: u32,
}

impl RequestTerms {
    /// Reads the fields of a request.
    pub fn of(request: &Headers) -> RequestTerms {
        if !request.contains(Known::CacheControl) {
            // `Pragma` of HTTP/1.0 clients counts where there is no `Cache-Control` (RFC 9111 section 5.4).
            let no_cache = request.all(Known::Pragma).any(|field| has_token(field, b"no-cache"));
            return RequestTerms { no_cache, ..RequestTerms::default() };
        }
        let control = CacheControl::of(request);
        let seconds = |value: Option<Seconds>| value.and_then(Seconds::number);
        RequestTerms {
            no_cache: control.no_cache,
            no_store: control.no_store,
            only_if_cached: control.only_if_cached,
            max_age: seconds(control.max_age),
            min_fresh: seconds(control.min_fresh).unwrap_or(0),
            max_stale: seconds(control.max_stale).unwrap_or(0),
            stale_if_error: seconds(control.stale_if_error).unwrap_or(0),
        }
    }
}

/// The times of a stored response, Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTimes {
    /// The moment from which its age counts.
    pub generated_at: u64,
    /// The end of its freshness.
    pub valid_until: u64,
    /// End of `stale-while-revalidate`.
    pub updating_until: u64,
    /// End of `stale-if-error`.
    pub error_until: u64,
    /// Whether only the two times above permit to serve it stale.
    pub must_revalidate: bool,
}

/// The permitted uses of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// It may be used as it is, without a request to the origin.
    pub fresh: bool,
    /// It is stale, and may be used as it is: the client accepts that (`max-stale`).
    pub max_stale_allows: bool,
    /// It may be used while it is fetched again.
    pub while_updating: bool,
    /// It may be used when the fetch fails.
    pub on_error: bool,
    /// It may be used where the operator permits it (`proxy_cache_use_stale`).
    pub by_operator: bool,
}

/// Returns the permitted uses of a stored response at `now`.
pub fn judge(stored: &StoredTimes, terms: &RequestTerms, now: u64) -> Reuse {
    let millis = |seconds: u32| u64::from(seconds) * 1000;
    if terms.no_cache {
        return Reuse {
            fresh: false,
            max_stale_allows: false,
            while_updating: false,
            on_error: false,
            by_operator: false,
        };
    }
    let age = now.saturating_sub(stored.generated_at);
    let young_enough = terms.max_age.is_none_or(|max| age <= millis(max));
    let fresh = now.saturating_add(millis(terms.min_fresh)) < stored.valid_until;
    let welcome_until = stored.valid_until.saturating_add(millis(terms.max_stale));
    let asked_until = stored.valid_until.saturating_add(millis(terms.stale_if_error));
    let on_error = now < stored.error_until || !stored.must_revalidate && now < asked_until;
    Reuse {
        fresh: fresh && young_enough,
        max_stale_allows: terms.max_stale > 0
            && young_enough
            && !stored.must_revalidate
            && now < welcome_until,
        // A client that wants the response fresh for a while does not want it stale.
        while_updating: young_enough && terms.min_fresh == 0 && now < stored.updating_until,
        on_error,
        by_operator: !stored.must_revalidate,
    }
}
