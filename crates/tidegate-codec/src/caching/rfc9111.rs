//! The rules of RFC 9111 for a shared cache (`proxy_cache_rfc9111 on`), where nginx's rules differ; with RFC
//! 5861 (stale responses) and RFC 9213 (`CDN-Cache-Control`).
//!
//! | file | question |
//! |---|---|
//! | here | may this response be stored, what is its age, how long is it fresh |
//! | `reuse` | may a stored response be used for this request |
//! | `targeted` | the directives of `CDN-Cache-Control` |
//! | `invalidation` | the stored responses that an unsafe request invalidates |
//!
//! No clock: times are arguments, in Unix seconds unless a name contains another unit.

pub mod invalidation;
pub mod reuse;
mod targeted;
#[cfg(test)]
mod tests;

use super::{
    AccelExpires, CacheControl, IgnoredFields, NotStorable, SECONDS_MAX, Seconds, Vary, split_list,
};
use crate::connection::trim;
use crate::date::{parse_http, parse_http_strict};
use crate::headers::{Headers, Known};

/// Longest heuristic freshness, in seconds.
pub const HEURISTIC_SECONDS_MAX: i64 = 24 * 60 * 60;

/// The heuristic freshness is one part in this number of the time since the last change: a tenth, as RFC 9111
/// section 4.2.2 proposes.
const HEURISTIC_DIVISOR: i64 = 10;

/// The fields of a request that matter for storing its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// Whether the request has an `Authorization` field.
    pub has_authorization: bool,
    /// `Cache-Control: no-store`
    pub no_store: bool,
}

impl RequestFields {
    /// Reads the fields of a request.
    pub fn of(request: &Headers) -> RequestFields {
        let no_store = CacheControl::of(request).no_store;
        RequestFields { has_authorization: request.contains(Known::Authorization), no_store }
    }
}

/// A response's head, with the times of its request and of its arrival.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedResponse<'a> {
    /// The status of the response.
    pub status: u16,
    /// The fields of the response.
    pub headers: &'a Headers,
    /// When the request was sent, Unix seconds.
    pub requested_at: i64,
    /// When the response arrived, Unix seconds.
    pub received_at: i64,
}

/// The settings of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorSettings {
    /// `proxy_ignore_headers`
    pub ignored: IgnoredFields,
    /// The time of `proxy_cache_valid` for the response's status, in seconds. It replaces the heuristic for
    /// responses without a time. `Some(0)`: not to be stored.
    pub valid_for_status: Option<u32>,
}

/// A response that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storable {
    /// Its age when it arrived, in seconds (RFC 9111 section 4.2.3: `corrected_initial_age`).
    pub initial_age: u32,
    /// The end of its freshness, Unix seconds; in the past for a response that is to be revalidated at each
    /// use.
    pub valid_until: i64,
    /// Seconds after `valid_until` in which it may be served while it is fetched again.
    pub stale_while_revalidate: u32,
    /// Seconds after `valid_until` in which it may be served when the fetch fails.
    pub stale_if_error: u32,
    /// Whether no other permission to serve it stale counts: `must-revalidate`, `proxy-revalidate`,
    /// `s-maxage`, `no-cache`.
    pub must_revalidate: bool,
    /// The request fields that distinguish variants.
    pub vary: Vec<Vec<u8>>,
}

/// Decides whether the response to a GET request may be stored (RFC 9111 section 3). Only for whole
/// responses: the caller handles 206 and 304.
///
/// First the prohibitions: `no-store` of the request and the response, `private`, `Vary: *`, a request with
/// `Authorization` without a permission to share (section 3.5), `must-understand` with an unknown status.
/// Then the freshness: by `X-Accel-Expires`, else by `s-maxage`, `max-age`, `Expires` (section 4.2.1), else
/// by the operator's time or the heuristic (section 4.2.2). Finally the use: a response that is stale at once
/// and has no validator is not stored.
pub fn storable(
    asked: RequestFields,
    received: ReceivedResponse<'_>,
    operator: OperatorSettings,
) -> Result<Storable, NotStorable> {
    let ReceivedResponse { status, headers, received_at, .. } = received;
    let ignored = operator.ignored;
    if asked.no_store {
        return Err(NotStorable::RequestNoStore);
    }
    let (control, expires) = control(headers, ignored);
    permitted(&control, asked, status)?;
    let vary = match Vary::of(headers) {
        _ if ignored.vary => Vec::new(),
        Vary::Any => return Err(NotStorable::VaryAny),
        Vary::Names(names) => names,
    };
    let age = initial_age(received);
    let generated_at = received_at.saturating_sub(i64::from(age));
    let valid_until = match accel(headers, ignored)? {
        // The origin addresses this very cache, so the time counts from here.
        Some(AccelExpires::For(seconds)) => received_at.saturating_add(i64::from(seconds)),
        Some(AccelExpires::At(time)) => time,
        _ => match explicit_lifetime(&control, expires, received) {
            Some(lifetime) => generated_at.saturating_add(lifetime),
            None => match implicit_until(&control, generated_at, received, operator)? {
                Some(until) => until,
                None if !is_heuristic(status) && !control.public => {
                    return Err(NotStorable::NoValidity);
                }
                None => generated_at,
            },
        },
    };
    let valid_until = if control.no_cache { valid_until.min(generated_at) } else { valid_until };
    let must_revalidate = control.must_revalidate
        || control.proxy_revalidate
        || control.no_cache
        || control.s_maxage.is_some();
    // `s-maxage` alone forbids stale responses; beside an explicit permission it does not.
    let forbids = control.must_revalidate || control.proxy_revalidate || control.no_cache;
    let seconds = |value: Option<Seconds>| match forbids {
        true => 0,
        false => value.and_then(Seconds::number).unwrap_or(0),
    };
    let stored = Storable {
        initial_age: age,
        valid_until,
        stale_while_revalidate: seconds(control.stale_while_revalidate),
        stale_if_error: seconds(control.stale_if_error),
        must_revalidate,
        vary,
    };
    if stored.is_of_use(received) { Ok(stored) } else { Err(NotStorable::Useless) }
}

impl Storable {
    /// Returns whether it is fresh, or can be revalidated, or can be served stale.
    fn is_of_use(&self, received: ReceivedResponse<'_>) -> bool {
        // Validators of other statuses are not used for revalidation.
        let validators = received.status == 200
            && (received.headers.contains(Known::Etag)
                || received.headers.contains(Known::LastModified));
        let stale = self.stale_while_revalidate.max(self.stale_if_error);
        let last = self.valid_until.saturating_add(i64::from(stale));
        validators || last > received.received_at
    }
}

/// Returns the directives that count: those of `CDN-Cache-Control` where it is valid, else those of
/// `Cache-Control`; and whether `Expires` counts, which a targeted field replaces as well (RFC 9213 section
/// 2.2).
fn control(headers: &Headers, ignored: IgnoredFields) -> (CacheControl, bool) {
    if ignored.cache_control {
        return (CacheControl::default(), !ignored.expires);
    }
    match targeted::of(headers) {
        Some(control) => (control, false),
        None => (CacheControl::of(headers), !ignored.expires),
    }
}

fn permitted(control: &CacheControl, asked: RequestFields, status: u16) -> Result<(), NotStorable> {
    // RFC 9111 section 5.2.2.3: a cache that understands the status ignores `no-store`.
    if control.must_understand && !is_understood(status) {
        return Err(NotStorable::NotUnderstood);
    }
    if control.no_store && !control.must_understand {
        return Err(NotStorable::NoStore);
    }
    if control.private {
        return Err(NotStorable::Private);
    }
    // RFC 9111 section 3.5.
    let shared = control.public || control.must_revalidate || control.s_maxage.is_some();
    if asked.has_authorization && !shared {
        return Err(NotStorable::Authorization);
    }
    Ok(())
}

fn accel(headers: &Headers, ignored: IgnoredFields) -> Result<Option<AccelExpires>, NotStorable> {
    if ignored.x_accel_expires {
        return Ok(None);
    }
    match headers.first(Known::XAccelExpires).and_then(AccelExpires::parse) {
        Some(AccelExpires::Never) => Err(NotStorable::AccelExpires),
        accel => Ok(accel),
    }
}

/// Returns the freshness by `s-maxage`, `max-age` or `Expires` in seconds (RFC 9111 section 4.2.1). A value
/// that cannot be read counts as zero seconds.
fn explicit_lifetime(
    control: &CacheControl,
    expires: bool,
    received: ReceivedResponse<'_>,
) -> Option<i64> {
    if let Some(lifetime) = control.s_maxage.or(control.max_age) {
        return Some(lifetime.number().map_or(0, i64::from));
    }
    let field = received.headers.first(Known::Expires).filter(|_| expires)?;
    let lifetime = parse_http_strict(field).map(|time| time.saturating_sub(date_of(received)));
    Some(lifetime.unwrap_or(0).max(0))
}

/// Returns the end of freshness by the operator's time or the heuristic (RFC 9111 section 4.2.2); `None`:
/// neither applies.
fn implicit_until(
    control: &CacheControl,
    generated_at: i64,
    received: ReceivedResponse<'_>,
    operator: OperatorSettings,
) -> Result<Option<i64>, NotStorable> {
    match operator.valid_for_status {
        Some(0) => return Err(NotStorable::NoValidity),
        Some(seconds) => return Ok(Some(received.received_at.saturating_add(i64::from(seconds)))),
        None => {}
    }
    if !is_heuristic(received.status) && !control.public {
        return Ok(None);
    }
    let modified = received.headers.first(Known::LastModified).and_then(parse_http);
    Ok(modified.map(|modified| {
        let unchanged = date_of(received).saturating_sub(modified).max(0);
        let guess = (unchanged / HEURISTIC_DIVISOR).min(HEURISTIC_SECONDS_MAX);
        generated_at.saturating_add(guess)
    }))
}

/// Returns the age by `Age` and the time that the exchange took, or by `Date`, whichever is more (RFC 9111
/// section 4.2.3).
fn initial_age(received: ReceivedResponse<'_>) -> u32 {
    let ReceivedResponse { requested_at, received_at, .. } = received;
    let apparent = received_at.saturating_sub(date_of(received)).max(0);
    let delay = received_at.saturating_sub(requested_at).max(0);
    let corrected = i64::from(age_of(received.headers)).saturating_add(delay);
    let age = apparent.max(corrected).min(i64::from(SECONDS_MAX));
    u32::try_from(age).unwrap_or(SECONDS_MAX)
}

/// Returns `Date`, or without a readable one the time when the response arrived.
fn date_of(received: ReceivedResponse<'_>) -> i64 {
    received.headers.first(Known::Date).and_then(parse_http).unwrap_or(received.received_at)
}

/// Returns `Age` in seconds: the first member of the first field; 0 without a field, or for a value that is
/// no number (RFC 9111 section 5.1).
fn age_of(headers: &Headers) -> u32 {
    let first = headers.first(Known::Age).and_then(|field| split_list(field).next());
    let Some(digits) = first.map(trim).filter(|digits| digits.iter().all(u8::is_ascii_digit))
    else {
        return 0;
    };
    match Seconds::parse(digits) {
        Seconds::Number(number) => number,
        Seconds::Invalid => 0,
    }
}

/// Returns whether responses of this status may be stored without a given time (RFC 9110 section 15.1). 206
/// is not stored.
fn is_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns whether this is a final status of RFC 9110 for whose responses head and body are all that is to be
/// stored.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}
