//! The destination of `proxy_pass` and its kin: the parsed text, and the group of servers found for it.

use std::sync::Arc;
use std::time::Instant;

use tidegate_plan::Environment;
use tidegate_upstream::peers::ServerName;
use tidegate_upstream::resolve::{self, HostPort, HostPortError};
use tidegate_upstream::{
    BalancingMethod, ConnectionReuse, Group, GroupOptions, Keepalive, Member, ServerOptions,
};

use crate::upstream::Groups;

/// A scheme in front of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The scheme with its `://`; empty where no scheme is written.
    pub prefix: &'static str,
    /// Default port; `None`: a port is required.
    pub port: Option<u16>,
    pub tls: bool,
    /// A path and arguments may follow.
    pub has_uri: bool,
}

/// The schemes of `proxy_pass`.
pub(crate) const HTTP: &[Scheme] = &[
    Scheme { prefix: "https://", port: Some(443), tls: true, has_uri: true },
    Scheme { prefix: "http://", port: Some(80), tls: false, has_uri: true },
];

/// The syntax of `memcached_pass`: an address and no more.
pub(crate) const ADDRESS: &[Scheme] =
    &[Scheme { prefix: "", port: None, tls: false, has_uri: false }];

/// A parsed URL without its scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// `host`, `host:port` or `unix:/path` as written.
    pub authority: String,
    /// Path and arguments; `None` when there are none.
    pub uri: Option<Vec<u8>>,
    pub scheme: Scheme,
}

/// A group of servers, with the texts that depend on it.
#[derive(Debug, Clone)]
pub struct Target {
    pub group: Arc<Group>,
    /// `$proxy_host`.
    pub host: Vec<u8>,
    /// `$proxy_port`.
    pub port: Vec<u8>,
    pub uri: Option<Vec<u8>>,
    /// The scheme is `https://`.
    pub tls: bool,
    /// The group is an `upstream`, not an address as written.
    pub is_upstream: bool,
}

impl Target {
    /// Returns whether a connection of HTTP/2 is kept. As in nginx, connections to an `upstream` are kept and shared, and
    /// an address that `*_pass` names itself gets one for each request.
    pub(crate) fn shared_reuse(&self) -> ConnectionReuse {
        match self.is_upstream {
            true => ConnectionReuse::AsGroup,
            false => ConnectionReuse::Never,
        }
    }
}

/// The error of an invalid `proxy_pass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UrlError {
    Prefix,
    Invalid(HostPortError),
}

/// Splits a URL.
///
/// # Errors
/// An unknown scheme, or a host that is not UTF-8.
pub(crate) fn split(text: &[u8], schemes: &[Scheme]) -> Result<Url, UrlError> {
    let has_scheme = |scheme: &&Scheme| {
        let prefix = scheme.prefix.as_bytes();
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let scheme = *schemes.iter().find(has_scheme).ok_or(UrlError::Prefix)?;
    let rest = &text[scheme.prefix.len()..];
    let (authority, uri) = match rest.strip_prefix(b"unix:") {
        _ if !scheme.has_uri => (rest, &b""[..]),
        Some(path) => match path.iter().position(|byte| *byte == b':') {
            Some(colon) => (&rest[..colon + 5], &path[colon + 1..]),
            None => (rest, &b""[..]),
        },
        None => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
            rest.split_at(end.unwrap_or(rest.len()))
        }
    };
    let authority = std::str::from_utf8(authority)
        .map_err(|_| UrlError::Invalid(HostPortError::InvalidHost))?;
    let uri = (!uri.is_empty()).then(|| uri.to_vec());
    Ok(Url { authority: authority.to_owned(), uri, scheme })
}

impl Url {
    /// Parses host and port; an address without a port is valid only where there is a default port.
    fn host_port(&self) -> Result<HostPort, UrlError> {
        let default = self.scheme.port.unwrap_or_default();
        let host = resolve::parse(&self.authority, default).map_err(UrlError::Invalid)?;
        match &host {
            HostPort::Inet { port: None, .. } if self.scheme.port.is_none() => {
                Err(UrlError::Invalid(HostPortError::NoPort))
            }
            _ => Ok(host),
        }
    }

    /// Returns `$proxy_host` and `$proxy_port`.
    fn names(&self) -> Result<(Vec<u8>, Vec<u8>), UrlError> {
        let default = self.scheme.port.unwrap_or_default();
        let host = resolve::parse(&self.authority, default).map_err(UrlError::Invalid)?;
        Ok(match &host {
            HostPort::Unix(_) => (b"localhost".to_vec(), Vec::new()),
            HostPort::Inet { port, .. } => {
                let number = port.unwrap_or(default);
                let suffix = format!(":{default}");
                let name = match number == default {
                    true => self.authority.strip_suffix(&suffix).unwrap_or(&self.authority),
                    false => &self.authority,
                };
                (name.as_bytes().to_vec(), number.to_string().into_bytes())
            }
        })
    }

    fn target(self, group: Arc<Group>, is_upstream: bool) -> Result<Target, UrlError> {
        let (host, port) = self.names()?;
        Ok(Target { group, host, port, uri: self.uri, tls: self.scheme.tls, is_upstream })
    }

    /// Returns the target of a fixed URL; names are looked up now.
    pub(crate) fn resolve_now(
        self,
        groups: &Groups,
        environment: &Environment<'_>,
        now: Instant,
    ) -> Result<Target, UrlError> {
        let tls = self.scheme.tls;
        if let Some(group) = groups.find(&self.authority, tls) {
            let is_upstream = groups.is_named(&self.authority);
            return self.target(group, is_upstream);
        }
        let host = self.host_port()?;
        let port = self.scheme.port.unwrap_or_default();
        let look_up = |host: &str| environment.resources.addresses(host);
        let addresses = match (resolve::addresses(&host, port, look_up), groups.pending()) {
            (Err(HostPortError::NotFound), Some(pending)) => {
                let group = Arc::new(self.unresolved(port, now));
                pending.add(&group, port);
                groups.add_implicit(&self.authority, tls, group.clone());
                return self.target(group, false);
            }
            (found, _) => found.map_err(UrlError::Invalid)?,
        };
        let servers: Vec<_> = addresses
            .into_iter()
            .map(|address| {
                let text = tidegate_upstream::peers::address_text(&address);
                (text, address, ServerOptions::default())
            })
            .collect();
        let key = format!("implicit {} {servers:?}", self.authority);
        let make = || {
            let (method, keepalive) = (BalancingMethod::RoundRobin, Keepalive::DEFAULT);
            Ok::<_, UrlError>(Group::new(&self.authority, method, keepalive, servers, now))
        };
        let group = environment.reload_state.get_or_make(&key, make)?;
        groups.add_implicit(&self.authority, tls, group.clone());
        self.target(group, false)
    }

    /// Makes the group of a name without addresses.
    fn unresolved(&self, port: u16, now: Instant) -> Group {
        let host = self.authority.as_str().into();
        let name = ServerName { host, port, service: None };
        let member = Member::named(&self.authority, name, ServerOptions::default());
        let manner = (BalancingMethod::RoundRobin, Keepalive::DEFAULT, GroupOptions::default());
        Group::with(&self.authority, manner, vec![member], now)
    }

    /// Returns the target of a URL whose name a resolver has looked up.
    pub(crate) fn with_addresses(
        self,
        addresses: Vec<std::net::IpAddr>,
        now: Instant,
    ) -> Result<Target, UrlError> {
        let default = self.scheme.port.unwrap_or_default();
        let number = match self.host_port()? {
            HostPort::Inet { port, .. } => port.unwrap_or(default),
            HostPort::Unix(_) => default,
        };
        let addresses: Vec<tidegate_rt::net::Addr> =
            addresses.into_iter().map(|ip| std::net::SocketAddr::new(ip, number).into()).collect();
        let group = Arc::new(Group::transient(&self.authority, addresses, now));
        self.target(group, false)
    }

    /// Returns the target of a URL that was made for one request: a known group or an address.
    pub(crate) fn find(self, groups: &Groups, now: Instant) -> Result<Target, FindError> {
        let invalid = |wrong| match wrong {
            UrlError::Invalid(what) => FindError::Invalid(what),
            UrlError::Prefix => FindError::Invalid(HostPortError::InvalidHost),
        };
        if let Some(group) = groups.find(&self.authority, self.scheme.tls) {
            let is_upstream = groups.is_named(&self.authority);
            return self.target(group, is_upstream).map_err(invalid);
        }
        let address = match self.host_port().map_err(invalid)? {
            HostPort::Unix(path) => tidegate_rt::net::Addr::Unix(path.into()),
            HostPort::Inet { literal: Some(address), .. } => address.into(),
            HostPort::Inet { host, .. } => return Err(FindError::Name(host)),
        };
        let group = Arc::new(Group::transient(&self.authority, vec![address], now));
        self.target(group, false).map_err(invalid)
    }
}

/// The reason why a request's URL has no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FindError {
    /// What is wrong with its address.
    Invalid(HostPortError),
    /// A name that only a resolver could know.
    Name(String),
}
