//! Whether a response may be stored, and until when it is fresh: the rules of `proxy_cache` and its
//! counterparts for the other gateways.
//!
//! Times are Unix seconds and always arguments. Sources: RFC 9111, and the documentation of
//! `proxy_cache_valid`, `proxy_ignore_headers`, `proxy_cache_use_stale`.

pub mod rfc9111;
#[cfg(test)]
mod tests;

use crate::connection::{tokens, trim};
use crate::date::parse_http;
use crate::headers::{Headers, Known};

/// The directives of `Cache-Control` that the server uses, of all its fields together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheControl {
    /// `no-cache`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `private`.
    pub private: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `immutable`.
    pub immutable: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// Seconds. A number that is too large is the largest one; a value that is no number is `Invalid`.
    pub max_age: Option<Seconds>,
    /// `s-maxage`.
    pub s_maxage: Option<Seconds>,
    /// `min-fresh`.
    pub min_fresh: Option<Seconds>,
    /// `max-stale` without a value is the largest number.
    pub max_stale: Option<Seconds>,
    /// `stale-while-revalidate` (RFC 5861 section 3).
    pub stale_while_revalidate: Option<Seconds>,
    /// `stale-if-error` (RFC 5861 section 4).
    pub stale_if_error: Option<Seconds>,
}

/// The argument of a directive, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seconds {
    /// A number of seconds, at most [`SECONDS_MAX`].
    Number(u32),
    /// A value that is no number.
    Invalid,
}

impl Seconds {
    fn parse(text: &[u8]) -> Seconds {
        let digits = trim(text);
        let digits = digits.strip_prefix(b"\"").unwrap_or(digits);
        let digits = digits.strip_suffix(b"\"").unwrap_or(digits);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Seconds::Invalid;
        }
        let step =
            |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
        // RFC 9111 section 1.2.2: beyond 2^31 counts as 2^31.
        Seconds::Number(digits.iter().fold(0, step).min(SECONDS_MAX))
    }

    /// Returns the number of seconds; `None` for `Invalid`.
    pub fn number(self) -> Option<u32> {
        match self {
            Seconds::Number(number) => Some(number),
            Seconds::Invalid => None,
        }
    }
}

/// The largest number of seconds (RFC 9111 section 1.2.2).
pub const SECONDS_MAX: u32 = 1 << 31;

impl CacheControl {
    /// Reads all `Cache-Control` fields of a request or a response.
    pub fn of(headers: &Headers) -> CacheControl {
        let mut control = CacheControl::default();
        for field in headers.all(Known::CacheControl) {
            control.add(field);
        }
        control
    }

    /// Adds the directives of one field (RFC 9111 section 5.2). The first of two numbers counts. Behind a quote
    /// that is not closed the meaning is unknown: directives there that forbid count, those that permit do not.
    pub fn add(&mut self, field: &[u8]) {
        let Some(open) = unclosed_quote(field) else { return self.add_list(field) };
        self.add_list(&field[..open]);
        for item in field[open + 1..].split(|byte| *byte == b',') {
            self.add_restriction(trim(item));
        }
    }

    fn add_restriction(&mut self, item: &[u8]) {
        let mut read = CacheControl::default();
        read.add_list(&item.iter().copied().filter(|byte| *byte != b'"').collect::<Vec<u8>>());
        self.no_cache |= read.no_cache;
        self.no_store |= read.no_store;
        self.no_transform |= read.no_transform;
        self.private |= read.private;
        self.must_revalidate |= read.must_revalidate;
        self.proxy_revalidate |= read.proxy_revalidate;
        let is_none = |age: &Seconds| matches!(age, Seconds::Number(0) | Seconds::Invalid);
        self.max_age = read.max_age.filter(is_none).or(self.max_age);
        self.s_maxage = read.s_maxage.filter(is_none).or(self.s_maxage);
    }

    fn add_list(&mut self, field: &[u8]) {
        for item in split_list(field) {
            let (name, value) = match memchr::memchr(b'=', item) {
                Some(equals) => (trim(&item[..equals]), Some(&item[equals + 1..])),
                None => (item, None),
            };
            self.add_directive(name, value);
        }
    }

    fn add_directive(&mut self, name: &[u8], value: Option<&[u8]>) {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        let seconds = || Seconds::parse(value.unwrap_or(&[]));
        if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("no-transform") {
            self.no_transform = true;
        } else if is("private") {
            self.private = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") {
            self.must_revalidate = true;
        } else if is("proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if is("immutable") {
            self.immutable = true;
        } else if is("must-understand") {
            self.must_understand = true;
        } else if is("max-age") {
            self.max_age = self.max_age.or_else(|| Some(seconds()));
        } else if is("s-maxage") {
            self.s_maxage = self.s_maxage.or_else(|| Some(seconds()));
        } else if is("min-fresh") {
            self.min_fresh = self.min_fresh.or_else(|| Some(seconds()));
        } else if is("max-stale") {
            let any = Seconds::Number(SECONDS_MAX);
            let stale = value.map_or(any, Seconds::parse);
            self.max_stale = self.max_stale.or(Some(stale));
        } else if is("stale-while-revalidate") {
            self.stale_while_revalidate = self.stale_while_revalidate.or_else(|| Some(seconds()));
        } else if is("stale-if-error") {
            self.stale_if_error = self.stale_if_error.or_else(|| Some(seconds()));
        }
    }
}

/// Returns the position of a quote that is not closed.
fn unclosed_quote(field: &[u8]) -> Option<usize> {
    let mut open = None;
    let mut escaped = false;
    for (at, byte) in field.iter().enumerate() {
        if *byte == b'"' && !escaped {
            open = if open.is_some() { None } else { Some(at) };
        }
        escaped = open.is_some() && *byte == b'\\' && !escaped;
    }
    open
}

/// Splits at commas that are not within quotes; empty items are left out.
fn split_list(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let items = field.split(move |byte| {
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
        *byte == b',' && !quoted
    });
    items.map(trim).filter(|item| !item.is_empty())
}

/// The value of `X-Accel-Expires`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccelExpires {
    /// 0: the response is not to be stored.
    Never,
    /// `off`: the field has no effect.
    Off,
    /// Fresh for this number of seconds from now on.
    For(u32),
    /// `@time`: fresh until this moment, Unix seconds.
    At(i64),
}

impl AccelExpires {
    /// Parses the field; returns `None` for a value that cannot be read, which counts as no field.
    pub fn parse(field: &[u8]) -> Option<AccelExpires> {
        let field = trim(field);
        if field.eq_ignore_ascii_case(b"off") {
            return Some(AccelExpires::Off);
        }
        let (at, digits) = match field.strip_prefix(b"@") {
            Some(digits) => (true, digits),
            None => (false, field),
        };
        let number = crate::connection::parse_length(digits)?;
        Some(match (at, number) {
            // As nginx does: time zero has no effect, while zero seconds forbid.
            (true, 0) => return None,
            (false, 0) => AccelExpires::Never,
            (true, time) => AccelExpires::At(i64::try_from(time).unwrap_or(i64::MAX)),
            (false, seconds) => AccelExpires::For(u32::try_from(seconds).unwrap_or(SECONDS_MAX)),
        })
    }
}

/// The names in `Vary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// `*`: no stored response matches another request.
    Any,
    /// Lower-case names, sorted, each once; empty without the field.
    Names(Vec<Vec<u8>>),
}

impl Vary {
    /// Reads all `Vary` fields of a response (RFC 9110 section 12.5.5). Spaces separate names as commas do: a
    /// name that no request can have would make all requests one variant.
    pub fn of(response: &Headers) -> Vary {
        let mut names = Vec::new();
        let words = response.all(Known::Vary).flat_map(tokens);
        let words = words.flat_map(|item| item.split(|byte| matches!(byte, b' ' | b'\t')));
        for name in words.filter(|name| !name.is_empty()) {
            if name == b"*" {
                return Vary::Any;
            }
            names.push(name.to_ascii_lowercase());
        }
        names.sort();
        names.dedup();
        Vary::Names(names)
    }
}

/// Appends the values of the named fields of a request, so that equal texts mean the same variant (RFC 9111
/// section 4.1). Lists are compared item by item, without spaces and empty items.
pub fn write_variant(names: &[Vec<u8>], request: &Headers, out: &mut Vec<u8>) {
    for name in names {
        out.extend_from_slice(name);
        out.push(b':');
        let mut separator: &[u8] = b"";
        for value in request.all_named(name) {
            for item in split_list(value) {
                out.extend_from_slice(separator);
                out.extend_from_slice(item);
                separator = b",";
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The response fields that `proxy_ignore_headers` disables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFields {
    /// `X-Accel-Expires`.
    pub x_accel_expires: bool,
    /// `Expires`.
    pub expires: bool,
    /// `Cache-Control`.
    pub cache_control: bool,
    /// `Set-Cookie`.
    pub set_cookie: bool,
    /// `Vary`.
    pub vary: bool,
}

/// A response that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storable {
    /// The end of its freshness, Unix seconds; may be in the past.
    pub valid_until: i64,
    /// Seconds after `valid_until` in which it may be served while it is fetched again.
    pub stale_while_revalidate: u32,
    /// Seconds after `valid_until` in which it may be served when the fetch fails.
    pub stale_if_error: u32,
    /// The request fields that distinguish variants.
    pub vary: Vec<Vec<u8>>,
}

/// The reason why a response may not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStorable {
    /// `X-Accel-Expires: 0`
    AccelExpires,
    /// `Cache-Control: no-store`.
    NoStore,
    /// `Cache-Control: no-cache`.
    NoCache,
    /// `Cache-Control: private`.
    Private,
    /// `max-age=0`, `s-maxage=0`, or a value that is no number.
    MaxAge,
    /// `Expires` in the past, or with a value that is no date.
    Expires,
    /// A `Set-Cookie` field.
    SetCookie,
    /// `Vary: *`.
    VaryAny,
    /// No field has a time, and `proxy_cache_valid` has none for this status.
    NoValidity,
    /// The request has `no-store` (this and the following reasons are those of [`rfc9111`]).
    RequestNoStore,
    /// The request has `Authorization`, and the response does not permit to store it.
    Authorization,
    /// The response has `must-understand`, and the status is not understood.
    NotUnderstood,
    /// The response is stale at once and has no validator.
    Useless,
}

/// Decides whether a response may be stored, by its head and the time `now`.
///
/// `valid_for_status` is the time of `proxy_cache_valid` for the response's status, in seconds; `Some(0)`
/// means that it is not stored. Priority: `X-Accel-Expires`, then `Cache-Control` (`s-maxage` before
/// `max-age`), then `Expires`, then `proxy_cache_valid`.
///
/// The order is nginx's, as `proxy_ignore_headers` and `proxy_cache_valid` document it: a cookie and `Vary:
/// *` forbid storing whatever the times are; a time in the response counts before one of the configuration;
/// an ignored field counts as absent.
pub fn storable(
    response: &Headers,
    ignored: IgnoredFields,
    valid_for_status: Option<u32>,
    now: i64,
) -> Result<Storable, NotStorable> {
    if !ignored.set_cookie && response.contains(Known::SetCookie) {
        return Err(NotStorable::SetCookie);
    }
    let vary = match Vary::of(response) {
        _ if ignored.vary => Vec::new(),
        Vary::Any => return Err(NotStorable::VaryAny),
        Vary::Names(names) => names,
    };
    let control = match ignored.cache_control {
        true => CacheControl::default(),
        false => CacheControl::of(response),
    };
    let accel = match ignored.x_accel_expires {
        true => None,
        // The first one counts; later ones are duplicates.
        false => response.first(Known::XAccelExpires).and_then(AccelExpires::parse),
    };
    let valid_until = match accel {
        Some(AccelExpires::Never) => return Err(NotStorable::AccelExpires),
        Some(AccelExpires::For(seconds)) => now.saturating_add(i64::from(seconds)),
        Some(AccelExpires::At(time)) => time,
        Some(AccelExpires::Off) | None => {
            match valid_by_fields(response, &control, ignored, now)? {
                Some(time) => time,
                None => match valid_for_status {
                    None | Some(0) => return Err(NotStorable::NoValidity),
                    Some(seconds) => now.saturating_add(i64::from(seconds)),
                },
            }
        }
    };
    let seconds = |value: Option<Seconds>| value.and_then(Seconds::number).unwrap_or(0);
    Ok(Storable {
        valid_until,
        stale_while_revalidate: seconds(control.stale_while_revalidate),
        stale_if_error: seconds(control.stale_if_error),
        vary,
    })
}

/// Returns the end of freshness by `Cache-Control`, or else by `Expires`.
fn valid_by_fields(
    response: &Headers,
    control: &CacheControl,
    ignored: IgnoredFields,
    now: i64,
) -> Result<Option<i64>, NotStorable> {
    if control.no_store {
        return Err(NotStorable::NoStore);
    }
    if control.no_cache {
        return Err(NotStorable::NoCache);
    }
    if control.private {
        return Err(NotStorable::Private);
    }
    if let Some(age) = control.s_maxage.or(control.max_age) {
        return match age {
            Seconds::Invalid | Seconds::Number(0) => Err(NotStorable::MaxAge),
            Seconds::Number(seconds) => Ok(Some(now.saturating_add(i64::from(seconds)))),
        };
    }
    if ignored.expires {
        return Ok(None);
    }
    match response.first(Known::Expires).map(parse_http) {
        None => Ok(None),
        Some(Some(time)) if time > now => Ok(Some(time)),
        Some(_) => Err(NotStorable::Expires),
    }
}

impl NotStorable {
    /// Returns whether the reason lies in this request alone, so that the response to the next request may be
    /// stored.
    pub fn is_about_request(self) -> bool {
        matches!(self, NotStorable::RequestNoStore | NotStorable::Authorization)
    }
}

/// The freshness of a stored response at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It may be used.
    Fresh,
    /// Stale, within `stale-while-revalidate`.
    StaleWhileRevalidate,
    /// Stale, past `stale-while-revalidate`, within `stale-if-error`.
    StaleIfError,
    /// Stale, and past all of these times.
    Expired,
}

impl Storable {
    /// Returns the freshness at `now`, Unix seconds. As in nginx, the last second does not count as fresh.
    pub fn freshness(&self, now: i64) -> Freshness {
        let within = |seconds: u32| now < self.valid_until.saturating_add(i64::from(seconds));
        if within(0) {
            Freshness::Fresh
        } else if within(self.stale_while_revalidate) {
            Freshness::StaleWhileRevalidate
        } else if within(self.stale_if_error) {
            Freshness::StaleIfError
        } else {
            Freshness::Expired
        }
    }
}
