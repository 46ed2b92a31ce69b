//! Where `proxy_pass` leads: its text taken apart, and the group of servers found for it.

use std::sync::Arc;

use tidegate_upstream::resolve::{self, HostPort};
use tidegate_upstream::{Group, Keepalive, Method, ServerOptions};

use crate::http::upstream::Groups;

/// A URL without its scheme, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `host`, `host:port` or `unix:/path` as written.
    pub authority: String,
    /// Path and arguments; `None` when there are none.
    pub uri: Option<Vec<u8>>,
    /// `https://`.
    pub tls: bool,
}

/// A server to ask, with the texts that depend on it.
#[derive(Clone)]
pub struct Target {
    pub group: Arc<Group>,
    /// `$proxy_host`.
    pub host: Vec<u8>,
    /// `$proxy_port`.
    pub port: Vec<u8>,
    pub uri: Option<Vec<u8>>,
    /// `https://`.
    pub tls: bool,
}

/// What is wrong with a `proxy_pass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlError {
    Prefix,
    Invalid(&'static str),
}

const PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// Splits a URL.
pub fn split(text: &[u8]) -> Result<Url, UrlError> {
    let has_scheme = |scheme: &str| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    let (tls, rest) = match () {
        () if has_scheme("https://") => (true, &text[8..]),
        () if has_scheme("http://") => (false, &text[7..]),
        () => return Err(UrlError::Prefix),
    };
    let (authority, uri) = match rest.strip_prefix(b"unix:") {
        Some(path) => match path.iter().position(|byte| *byte == b':') {
            Some(colon) => (&rest[..colon + 5], &path[colon + 1..]),
            None => (rest, &b""[..]),
        },
        None => {
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
            rest.split_at(end.unwrap_or(rest.len()))
        }
    };
    let authority =
        std::str::from_utf8(authority).map_err(|_| UrlError::Invalid("invalid host"))?;
    let uri = (!uri.is_empty()).then(|| uri.to_vec());
    Ok(Url { authority: authority.to_owned(), uri, tls })
}

impl Url {
    /// The port where none is written.
    fn default_port(&self) -> u16 {
        if self.tls { TLS_PORT } else { PORT }
    }

    /// `$proxy_host` and `$proxy_port`.
    fn names(&self) -> Result<(HostPort, Vec<u8>, Vec<u8>), UrlError> {
        let default = self.default_port();
        let host = resolve::parse(&self.authority, default).map_err(UrlError::Invalid)?;
        let (name, port) = match &host {
            HostPort::Unix(_) => (b"localhost".to_vec(), Vec::new()),
            HostPort::Inet { port, .. } => {
                let number = port.unwrap_or(default);
                let suffix = if self.tls { ":443" } else { ":80" };
                let name = match number == default {
                    true => self.authority.strip_suffix(suffix).unwrap_or(&self.authority),
                    false => &self.authority,
                };
                (name.as_bytes().to_vec(), number.to_string().into_bytes())
            }
        };
        Ok((host, name, port))
    }

    /// The target of a fixed URL; names are looked up now.
    pub fn resolve_now(
        self,
        groups: &Groups,
        survivors: &tidegate_core::builder::Survivors,
    ) -> Result<Target, UrlError> {
        let (host, name, port) = self.names()?;
        if let Some(group) = groups.find(&self.authority, self.tls) {
            return Ok(Target { group, host: name, port, uri: self.uri, tls: self.tls });
        }
        let addresses =
            resolve::addresses(&host, self.default_port()).map_err(UrlError::Invalid)?;
        let servers: Vec<_> = addresses
            .into_iter()
            .map(|address| {
                let text = tidegate_upstream::peers::address_text(&address);
                (text, address, ServerOptions::default())
            })
            .collect();
        let key = format!("implicit {} {servers:?}", self.authority);
        let make = || {
            let keepalive = Keepalive::DEFAULT;
            Ok::<_, UrlError>(Group::new(&self.authority, Method::RoundRobin, keepalive, servers))
        };
        let group = survivors.get_or_make(&key, make)?;
        groups.add_implicit(&self.authority, self.tls, group.clone());
        Ok(Target { group, host: name, port, uri: self.uri, tls: self.tls })
    }

    /// The target of a URL whose name a resolver knew; requests begin with any of the addresses.
    pub fn with_addresses(self, addresses: Vec<std::net::IpAddr>) -> Result<Target, UrlError> {
        let (host, name, port) = self.names()?;
        let number = match host {
            HostPort::Inet { port, .. } => port.unwrap_or(self.default_port()),
            HostPort::Unix(_) => PORT,
        };
        let mut addresses: Vec<tidegate_rt::net::Addr> =
            addresses.into_iter().map(|ip| std::net::SocketAddr::new(ip, number).into()).collect();
        let first = tidegate_rt::random::below(addresses.len().max(1) as u64) as usize;
        let first = first.min(addresses.len());
        addresses.rotate_left(first);
        let group = Arc::new(Group::transient(&self.authority, addresses));
        Ok(Target { group, host: name, port, uri: self.uri, tls: self.tls })
    }

    /// The target of a URL that was made for one request: a known group or an address.
    pub fn find(self, groups: &Groups) -> Result<Target, FindError> {
        let (host, name, port) = self.names().map_err(|_| FindError::Invalid)?;
        if let Some(group) = groups.find(&self.authority, self.tls) {
            return Ok(Target { group, host: name, port, uri: self.uri, tls: self.tls });
        }
        let address = match &host {
            HostPort::Unix(path) => tidegate_rt::net::Addr::Unix(path.into()),
            HostPort::Inet { literal: Some(address), .. } => (*address).into(),
            HostPort::Inet { host, .. } => return Err(FindError::Name(host.clone())),
        };
        let group = Arc::new(Group::transient(&self.authority, vec![address]));
        Ok(Target { group, host: name, port, uri: self.uri, tls: self.tls })
    }
}

/// Why a request's URL leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindError {
    Invalid,
    /// A name that only a resolver could know.
    Name(String),
}
