//! The settings of a location combined with the rules of HTTP caching: whether a response may be stored, until when,
//! and as which variant. No I/O, no clock.

use tidegate_cache::Times;
use tidegate_codec::Headers;
use tidegate_codec::caching::rfc9111::reuse::{self, RequestTerms, StoredTimes};
use tidegate_codec::caching::rfc9111::{self, OperatorSettings, ReceivedResponse, RequestFields};
use tidegate_codec::caching::{self, IgnoredFields, NotStorable};

use crate::cache::decide::facts::StoredState;

/// `proxy_cache_valid`: seconds by status. The first matching row applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    rows: Vec<(Option<u16>, u32)>,
    /// The range is a part of the key (`slice`), so that a part is an object of its own.
    parts: bool,
}

impl Validity {
    /// Adds a row for a status, or with `None` for any status.
    pub fn add(&mut self, status: Option<u16>, seconds: u32) {
        self.rows.push((status, seconds));
    }

    /// Says whether the range is a part of the key.
    pub fn with_parts(self, parts: bool) -> Validity {
        Validity { parts, ..self }
    }

    /// Returns the seconds for a status; `Some(0)`: not to be stored.
    pub fn of(&self, status: u16) -> Option<u32> {
        let fits = |row: &&(Option<u16>, u32)| row.0.is_none_or(|code| code == status);
        self.rows.iter().find(fits).map(|(_, seconds)| *seconds)
    }

    fn names(&self, status: u16) -> bool {
        self.rows.iter().any(|(code, _)| *code == Some(status))
    }
}

/// The caching properties of a storable response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Storable {
    /// When it was stored, and until when it may be served, in Unix milliseconds.
    pub times: Times,
    /// Only `stale-while-revalidate` and `stale-if-error` permit serving it stale.
    pub must_revalidate: bool,
    /// Request fields that tell variants apart.
    pub vary: Vec<Vec<u8>>,
}

/// The reason why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By the rules of HTTP and the origin's fields.
    CacheRules(NotStorable),
    /// 1xx, 304 and unrequested 206 are no complete responses.
    Status,
    /// `proxy_no_cache` forbids it.
    RequestFields,
    /// It passes unbuffered (`proxy_buffering`, `X-Accel-Buffering`).
    Unbuffered,
    /// The key has too few uses (`*_cache_min_uses`), and the owner that counts them was of no use.
    TooEarly,
    /// The peer that owns the key does not store it, whatever the request, or for a reason of this one.
    ByPeer { always: bool },
}

/// Decides about a response's head at `now`, in Unix milliseconds, by nginx's rules.
///
/// # Errors
/// The reason why the response is not stored.
pub(crate) fn decide(
    status: u16,
    headers: &Headers,
    validity: &Validity,
    ignored: IgnoredFields,
    now: u64,
) -> Result<Storable, Refusal> {
    check_whole(status, validity)?;
    let seconds = seconds(now);
    let storable = caching::storable(headers, ignored, validity.of(status), seconds)
        .map_err(Refusal::CacheRules)?;
    // A time relative to `now` keeps the milliseconds of `now`, so that one second is one second.
    let valid_until = if storable.valid_until > seconds {
        millis(storable.valid_until).saturating_add(now % 1000)
    } else {
        millis(storable.valid_until)
    };
    let behind = |seconds: u32| valid_until.saturating_add(u64::from(seconds) * 1000);
    Ok(Storable {
        times: Times {
            created: now,
            valid_until,
            updating_until: behind(storable.stale_while_revalidate),
            error_until: behind(storable.stale_if_error),
        },
        must_revalidate: false,
        vary: storable.vary,
    })
}

/// A response's head with the request that it belongs to, and when that was sent, in Unix milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct OriginExchange<'a> {
    /// The client's fields.
    pub request: &'a Headers,
    /// When the request was sent, in Unix milliseconds.
    pub requested_at: u64,
    pub status: u16,
    pub headers: &'a Headers,
}

/// Decides as [`decide`], by the rules of RFC 9111 (`proxy_cache_rfc9111`). `created` is the time from which the
/// response's age counts.
///
/// # Errors
/// The reason why the response is not stored.
pub(crate) fn decide_rfc9111(
    exchanged: OriginExchange<'_>,
    validity: &Validity,
    ignored: IgnoredFields,
    now: u64,
) -> Result<Storable, Refusal> {
    let OriginExchange { request, requested_at, status, headers } = exchanged;
    check_whole(status, validity)?;
    let received = ReceivedResponse {
        status,
        headers,
        requested_at: seconds(requested_at),
        received_at: seconds(now),
    };
    let operator = OperatorSettings { ignored, valid_for_status: validity.of(status) };
    let storable = rfc9111::storable(RequestFields::of(request), received, operator);
    let storable = storable.map_err(Refusal::CacheRules)?;
    let valid_until = millis(storable.valid_until).saturating_add(now % 1000);
    let behind = |seconds: u32| valid_until.saturating_add(u64::from(seconds) * 1000);
    Ok(Storable {
        times: Times {
            created: now.saturating_sub(u64::from(storable.initial_age) * 1000),
            valid_until,
            updating_until: behind(storable.stale_while_revalidate),
            error_until: behind(storable.stale_if_error),
        },
        must_revalidate: storable.must_revalidate,
        vary: storable.vary,
    })
}

fn check_whole(status: u16, validity: &Validity) -> Result<(), Refusal> {
    let whole = match status {
        0..=199 | 304 => false,
        206 => validity.parts || validity.names(206),
        _ => true,
    };
    if whole { Ok(()) } else { Err(Refusal::Status) }
}

/// Returns the state of an object for a request with these `terms`; by nginx's rules (`None`) it has none.
pub(crate) fn stored_state(
    times: Times,
    must_revalidate: bool,
    terms: Option<&RequestTerms>,
    now: u64,
) -> StoredState {
    let Times { created, valid_until, updating_until, error_until } = times;
    let stored = StoredTimes {
        generated_at: created,
        valid_until,
        updating_until,
        error_until,
        must_revalidate,
    };
    let reuse = reuse::judge(&stored, &terms.copied().unwrap_or_default(), now);
    StoredState {
        fresh: reuse.fresh,
        may_serve_while_updating: reuse.while_updating,
        may_serve_on_error: reuse.on_error,
        operator_decides: reuse.by_operator,
        max_stale_allows: reuse.max_stale_allows,
        has_validators: false,
        filling: None,
    }
}

/// Returns whether an object is never fresh: it is stored to be revalidated at each use.
pub(crate) fn is_always_stale(times: Times) -> bool {
    times.valid_until <= times.created
}

/// Returns whether a request with these `terms` may be served by the fetch of another one that began at `requested_at`.
/// `times` are those of the response, once its head has arrived.
pub(crate) fn is_joinable(
    times: Option<Times>,
    requested_at: u64,
    terms: Option<&RequestTerms>,
    now: u64,
) -> bool {
    let Some(terms) = terms else { return true };
    let Some(times) = times else { return !terms.no_cache };
    // A response that is stale on arrival is for the request that fetched it. One that becomes stale while it arrives
    // is shared all the same: another fetch would deliver it later.
    let demands = *terms != RequestTerms::default();
    let is_for_all = times.valid_until > requested_at && !is_always_stale(times);
    is_for_all && (!demands || stored_state(times, true, Some(terms), now).fresh)
}

fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}

fn millis(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)
}

/// Returns whether the (first) range of a `Range` field begins at or beyond `max` bytes
/// (`proxy_cache_max_range_offset`).
pub(crate) fn range_is_beyond(field: &[u8], max: u64) -> bool {
    let Some(set) = field.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes=")) else {
        return false;
    };
    let rest = field.get(set.len()..).unwrap_or_default();
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        // A suffix (`-500`) may begin anywhere: the length is not known.
        return rest.first() == Some(&b'-');
    }
    let start = rest[..digits]
        .iter()
        .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    // "0" forbids every range, as documented by its effect.
    start >= max
}

/// Returns the common prefix of the keys of all variants of an object.
pub(crate) fn variant_prefix(main: &[u8]) -> Vec<u8> {
    variant_key(main, b"")
}

/// Returns the text of a variant's key: the main key and the text that tells the variant apart.
pub(crate) fn variant_key(main: &[u8], variant: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(main.len() + variant.len() + 1);
    key.extend_from_slice(main);
    key.push(0);
    key.extend_from_slice(variant);
    key
}
