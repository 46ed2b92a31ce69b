//! The field `Cache-Peer`: what a server tells the owner of a key, and what the owner tells about a response.
//!
//! ```text
//! request:  Cache-Peer: 10.0.0.1:8080; key=0123456789abcdef0123456789abcdef; https; bypass; for=192.0.2.1:50000
//! response: Cache-Peer: 10.0.0.2:8080; age=1500; stored=1400; fresh=8600; updating=0; error=0; vary=accept-encoding
//! response: Cache-Peer: 10.0.0.2:8080
//! ```
//! Times are milliseconds from the moment of the response, so that no clocks are compared. The last form is a response that is
//! not stored; `remarks` says more about it. Unknown parameters are ignored: servers of different versions share a ring.

use std::net::{IpAddr, SocketAddr};

use tidegate_cache::{KeyHash, Times};
use tidegate_core::client::Address;

/// The name of the field.
pub(crate) const NAME: &[u8] = b"Cache-Peer";

/// Bytes of the longest value.
const BYTES_MAX: usize = 4096;
/// Most names in `vary`.
const NAMES_MAX: usize = 64;
/// Longest time, in milliseconds: a hundred years.
const TIME_MAX: u64 = 100 * 365 * 24 * 3600 * 1000;

/// What a request of a peer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerClaim {
    /// The hash of the key that the peer has for the request.
    pub key: KeyHash,
    /// The client came by TLS.
    pub https: bool,
    /// Stored responses are not used (`*_cache_bypass`).
    pub bypass: bool,
    /// The client, whose port is 0 where it is not known, and whose path is empty where it is a Unix socket's; `None`: the peer
    /// does not say.
    pub client: Option<Address>,
}

/// How a peer stores a response. Times are in milliseconds from now, 0 for those that have passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerTerms {
    /// Since the request to the origin began.
    pub age: u64,
    /// Since the moment from which the response's age counts ([`Times`]).
    pub stored: u64,
    pub fresh: u64,
    pub updating: u64,
    pub error: u64,
    pub must_revalidate: bool,
    /// Names of request fields that tell variants apart.
    pub vary: Vec<Vec<u8>>,
}

impl PeerClaim {
    /// Returns the value of the field; `own` is the sender.
    pub(crate) fn text(&self, own: &str) -> String {
        let mut text = format!("{own}; key={}", self.key.hexadecimal());
        if self.https {
            text.push_str("; https");
        }
        if self.bypass {
            text.push_str("; bypass");
        }
        if let Some(client) = &self.client {
            text.push_str("; for=");
            text.push_str(&client_text(client));
        }
        text
    }

    /// Parses a value; `None` where it has no key.
    pub(crate) fn parse(value: &[u8]) -> Option<PeerClaim> {
        let (mut key, mut https, mut bypass, mut client) = (None, false, false, None);
        for (name, value) in parameters(value)? {
            match (name, value) {
                ("key", Some(text)) => key = Some(KeyHash::from_hexadecimal(text)?),
                ("https", None) => https = true,
                ("bypass", None) => bypass = true,
                ("for", Some(text)) => client = Some(client_of(text)?),
                _ => {}
            }
        }
        Some(PeerClaim { key: key?, https, bypass, client })
    }
}

impl PeerTerms {
    /// Returns the value of the field; `own` is the sender. Terms that do not fit are left out: the response is not stored
    /// elsewhere.
    pub(crate) fn text(terms: Option<&PeerTerms>, own: &str) -> Vec<u8> {
        let mut text = own.as_bytes().to_vec();
        let Some(terms) = terms else { return text };
        let PeerTerms { age, stored, fresh, updating, error, must_revalidate, vary } = terms;
        let times = format!(
            "; age={age}; stored={stored}; fresh={fresh}; updating={updating}; error={error}"
        );
        text.extend_from_slice(times.as_bytes());
        if *must_revalidate {
            text.extend_from_slice(b"; must-revalidate");
        }
        if !vary.is_empty() {
            text.extend_from_slice(b"; vary=");
            text.extend_from_slice(&vary.join(&b','));
        }
        let fits = text.len() <= BYTES_MAX && vary.len() <= NAMES_MAX;
        if fits { text } else { own.as_bytes().to_vec() }
    }

    /// Parses a value. The outer `None`: it is none; the inner one: the response is not stored.
    pub(crate) fn parse(value: &[u8]) -> Option<Option<PeerTerms>> {
        let mut terms = PeerTerms::default();
        let (mut age, mut stored) = (None, None);
        for (name, value) in parameters(value)? {
            match (name, value) {
                ("age", Some(text)) => age = Some(time(text)?),
                ("stored", Some(text)) => stored = Some(time(text)?),
                ("fresh", Some(text)) => terms.fresh = time(text)?,
                ("updating", Some(text)) => terms.updating = time(text)?,
                ("error", Some(text)) => terms.error = time(text)?,
                ("must-revalidate", None) => terms.must_revalidate = true,
                ("vary", Some(text)) => terms.vary = names(text)?,
                _ => {}
            }
        }
        let (Some(age), Some(stored)) = (age, stored) else { return Some(None) };
        Some(Some(PeerTerms { age, stored, ..terms }))
    }

    /// Returns the times of the response on this server, at `now` in Unix milliseconds.
    pub(crate) fn times(&self, now: u64) -> Times {
        Times {
            created: now.saturating_sub(self.stored),
            valid_until: now.saturating_add(self.fresh),
            updating_until: now.saturating_add(self.updating),
            error_until: now.saturating_add(self.error),
        }
    }

    /// Returns terms with these times, at `now`.
    pub(crate) fn of(times: Times, now: u64) -> PeerTerms {
        PeerTerms {
            age: 0,
            stored: now.saturating_sub(times.created).min(TIME_MAX),
            fresh: times.valid_until.saturating_sub(now).min(TIME_MAX),
            updating: times.updating_until.saturating_sub(now).min(TIME_MAX),
            error: times.error_until.saturating_sub(now).min(TIME_MAX),
            must_revalidate: false,
            vary: Vec::new(),
        }
    }

    /// Sets the age; one that is not known is longer than any.
    pub(crate) fn with_age(self, age: Option<u64>) -> PeerTerms {
        PeerTerms { age: age.unwrap_or(TIME_MAX).min(TIME_MAX), ..self }
    }
}

/// Returns the parameters behind the sender.
pub(super) fn parameters(value: &[u8]) -> Option<impl Iterator<Item = (&str, Option<&str>)>> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= BYTES_MAX)?;
    let mut parts = text.split(';').map(str::trim);
    parts.next().filter(|sender| !sender.is_empty())?;
    Some(parts.map(|part| match part.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (part, None),
    }))
}

/// Returns the text of a client's address, without a port that is not known and the path of a Unix socket.
fn client_text(client: &Address) -> String {
    match client {
        Address::Unix(_) => "unix:".to_owned(),
        // Without the scope of an IPv6 address, which is this server's own.
        Address::Inet(address) => match (address.ip(), address.port()) {
            (IpAddr::V6(ip), 0) => format!("[{ip}]"),
            (ip, 0) => ip.to_string(),
            (ip, port) => SocketAddr::new(ip, port).to_string(),
        },
    }
}

/// Parses the text of a client's address.
fn client_of(text: &str) -> Option<Address> {
    if text == "unix:" {
        return Some(Address::Unix(String::new()));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        // A scope would be one of the sender.
        return Some(Address::Inet(SocketAddr::new(address.ip(), address.port())));
    }
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let ip = match bracketed {
        Some(text) => IpAddr::V6(text.parse().ok()?),
        None => IpAddr::V4(text.parse().ok()?),
    };
    Some(Address::Inet(SocketAddr::new(ip, 0)))
}

pub(super) fn time(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|time| digits && *time <= TIME_MAX)
}

/// Returns the names of a list, sorted as in stored heads.
fn names(text: &str) -> Option<Vec<Vec<u8>>> {
    let is_name = |name: &str| {
        let is_plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
        };
        !name.is_empty() && name != "*" && name.bytes().all(is_plain)
    };
    let mut names = Vec::new();
    for name in text.split(',') {
        if !is_name(name) || names.len() == NAMES_MAX {
            return None;
        }
        names.push(name.as_bytes().to_vec());
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}
