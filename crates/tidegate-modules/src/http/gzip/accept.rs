//! Whether a client may get a compressed response: the rules of `gzip`, `gzip_static` and `gunzip`.

use std::sync::Arc;

use tidegate_codec::request::Version;
use tidegate_codec::{Headers, Known, date};
use tidegate_conf::Diagnostic;
use tidegate_core::Exchange;
use tidegate_core::exchange::{Response, Routing};
use tidegate_core::regex::Regex;
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use super::conf::Conf;

/// The values of `gzip_proxied` as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proxied(u16);

impl Proxied {
    pub(crate) const NONE: Proxied = Proxied(0);
    pub(crate) const OFF: Proxied = Proxied(1);
    pub(crate) const EXPIRED: Proxied = Proxied(1 << 1);
    pub(crate) const NO_CACHE: Proxied = Proxied(1 << 2);
    pub(crate) const NO_STORE: Proxied = Proxied(1 << 3);
    pub(crate) const PRIVATE: Proxied = Proxied(1 << 4);
    pub(crate) const NO_LAST_MODIFIED: Proxied = Proxied(1 << 5);
    pub(crate) const NO_ETAG: Proxied = Proxied(1 << 6);
    pub(crate) const AUTH: Proxied = Proxied(1 << 7);
    pub(crate) const ANY: Proxied = Proxied(1 << 8);

    pub(crate) const fn with(self, other: Proxied) -> Proxied {
        Proxied(self.0 | other.0)
    }

    const fn has(self, other: Proxied) -> bool {
        self.0 & other.0 != 0
    }
}

/// The rules of a location. They are in the location's extensions as `Arc<Rules>`.
#[derive(Debug)]
pub(crate) struct CompressionRules {
    version_min: Version,
    proxied: Proxied,
    disabled_agents: Vec<Arc<Regex>>,
    disabled_msie6: bool,
    vary: bool,
}

impl CompressionRules {
    pub(crate) fn compile(
        conf: &Conf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<CompressionRules, Diagnostic> {
        let (mut disabled_agents, mut disabled_msie6) = (Vec::new(), false);
        for word in conf.disable.iter().flatten() {
            match &word.bytes[..] {
                b"msie6" => disabled_msie6 = true,
                // nginx's degradation module watches the memory of worker processes; there is no such module here.
                b"degradation" => {}
                text => disabled_agents.push(plan.regex(text, true, word.span)?),
            }
        }
        Ok(CompressionRules {
            version_min: conf.http_version.unwrap_or(Version::H11),
            proxied: conf.proxied.unwrap_or(Proxied::OFF),
            disabled_agents,
            disabled_msie6,
            vary: conf.vary.unwrap_or(false),
        })
    }

    /// Returns whether the client may get a response in a content coding, by the present header fields.
    pub(crate) fn allow(&self, x: &Exchange, coding: &[u8]) -> bool {
        self.weight(x, coding) > 0
    }

    /// Returns the client's weight of a content coding, in thousandths; zero if it may not get it.
    pub(crate) fn weight(&self, x: &Exchange, coding: &[u8]) -> u16 {
        let fields = &x.request.head.headers;
        let weight = fields.first(Known::AcceptEncoding).map_or(0, |value| weight(value, coding));
        let allowed = weight > 0
            && !x.is_subrequest()
            && x.request.version() >= self.version_min
            && (!fields.contains(Known::Via)
                || self.allow_proxied(fields, &x.response.headers, clock::unix_seconds))
            && !self.disabled_for(fields.first(Known::UserAgent));
        if allowed { weight } else { 0 }
    }

    /// Returns the value of `gzip_vary`.
    pub(crate) fn vary(&self) -> bool {
        self.vary
    }

    /// Adds `Vary: Accept-Encoding` if `gzip_vary` is on: the response depends on the client.
    pub(crate) fn add_vary(&self, routing: &Routing, response: &mut Response) {
        let headers = &mut response.headers;
        let named = |value: &[u8]| {
            let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
        };
        if self.vary && !routing.is_subrequest() && !headers.all(Known::Vary).any(named) {
            headers.push_known(Known::Vary, b"Accept-Encoding");
        }
    }

    fn disabled_for(&self, agent: Option<&[u8]>) -> bool {
        let Some(agent) = agent else { return false };
        // An agent on which the match exceeds its time limit gets the uncompressed form, which every client
        // understands.
        self.disabled_msie6 && is_msie6(agent)
            || self.disabled_agents.iter().any(|regex| regex.is_match(agent).unwrap_or(true))
    }

    /// Applies `gzip_proxied` as nginx does: a proxy that must not store the response anyway gets it compressed.
    /// `Expires`, where present, decides alone, compared with `Date` or else with `now`, seconds since 1970: the
    /// clock is read only where it is needed.
    fn allow_proxied(
        &self,
        request: &Headers,
        response: &Headers,
        now: impl FnOnce() -> i64,
    ) -> bool {
        let chosen = self.proxied;
        if chosen.has(Proxied::OFF) {
            return false;
        }
        if chosen.has(Proxied::ANY)
            || chosen.has(Proxied::AUTH) && request.contains(Known::Authorization)
        {
            return true;
        }
        if let Some(expires) = response.first(Known::Expires) {
            return chosen.has(Proxied::EXPIRED) && is_past(expires, response, now);
        }
        let control = |name: &[u8]| {
            let mut parts = response.all(Known::CacheControl).flat_map(|v| v.split(|b| *b == b','));
            parts.any(|part| {
                let word = part.split(|byte| *byte == b'=').next().unwrap_or_default();
                word.trim_ascii().eq_ignore_ascii_case(name)
            })
        };
        chosen.has(Proxied::NO_CACHE) && control(b"no-cache")
            || chosen.has(Proxied::NO_STORE) && control(b"no-store")
            || chosen.has(Proxied::PRIVATE) && control(b"private")
            || chosen.has(Proxied::NO_LAST_MODIFIED) && !response.contains(Known::LastModified)
            || chosen.has(Proxied::NO_ETAG) && !response.contains(Known::Etag)
    }
}

/// Returns whether `Expires` is before `Date`, or else before `now`; an invalid date has expired.
fn is_past(expires: &[u8], response: &Headers, now: impl FnOnce() -> i64) -> bool {
    let Some(expires) = date::parse_http(expires) else { return true };
    let date = response.first(Known::Date).and_then(date::parse_http);
    expires < date.unwrap_or_else(now)
}

/// Returns the weight of a content coding in an `Accept-Encoding`, in thousandths (RFC 9110 section 12.5.3); zero
/// if it is not accepted. `*` is ignored, as in nginx: clients that accept a coding name it.
pub(crate) fn weight(value: &[u8], wanted: &[u8]) -> u16 {
    for coding in value.split(|byte| *byte == b',') {
        let mut parts = coding.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        if !parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted)) {
            continue;
        }
        let weight = parts.find_map(|part| {
            let (name, weight) = part.split_at_checked(2)?;
            name.eq_ignore_ascii_case(b"q=").then_some(weight)
        });
        return weight.map_or(WEIGHT_MAX, parse_weight);
    }
    0
}

/// Weight without a `q` parameter, in thousandths.
const WEIGHT_MAX: u16 = 1000;

/// Parses `0.001` to `1.000` with at most three decimals; zero for anything else.
fn parse_weight(weight: &[u8]) -> u16 {
    let (first, digits) = match weight {
        [first] => (first, &b""[..]),
        [first, b'.', digits @ ..] if digits.len() <= 3 => (first, digits),
        _ => return 0,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let places = digits.iter().chain(b"000").take(3);
    let thousandths = places.fold(0, |sum, digit| 10 * sum + u16::from(digit - b'0'));
    match first {
        b'0' => thousandths,
        b'1' if thousandths == 0 => WEIGHT_MAX,
        _ => 0,
    }
}

/// Returns whether an agent is Internet Explorer 4 to 6 without the service pack that repaired it.
fn is_msie6(agent: &[u8]) -> bool {
    let Some(at) = agent.windows(5).position(|window| window == b"MSIE ") else { return false };
    match &agent[at + 5..] {
        [b'4' | b'5', b'.', ..] => true,
        [b'6', b'.', rest @ ..] => !rest.windows(3).any(|window| window == b"SV1"),
        _ => false,
    }
}
