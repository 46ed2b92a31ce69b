//! Hosts with ports as directives write them, and their addresses.

use std::net::{IpAddr, SocketAddr};
use std::{error, fmt, io};

use tidegate_rt::net::Addr;

/// An address or name with an optional port, or `unix:/path`, the syntax of `server` and `proxy_pass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPort {
    /// The path behind `unix:`.
    Unix(String),
    /// A host with or without a port.
    Inet {
        /// Without brackets.
        host: String,
        /// The written port, if any; never 0.
        port: Option<u16>,
        /// The address, where the host is one, with the default port where none is written.
        literal: Option<SocketAddr>,
    },
}

/// Why a text is no host with a port, or a host has no address. Displayed in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPortError {
    /// Nothing follows `unix:`.
    NoPath,
    /// The brackets of an IPv6 address are wrong, or the text is not UTF-8.
    InvalidHost,
    /// The port is no number from 1 to 65535.
    InvalidPort,
    /// The host is empty.
    NoHost,
    /// No port is written where one is needed; only callers of [`parse`] return it.
    NoPort,
    /// The system has no address for the name.
    NotFound,
}

impl fmt::Display for HostPortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostPortError::NoPath => "no path in the unix domain socket",
            HostPortError::InvalidHost => "invalid host",
            HostPortError::InvalidPort => "invalid port",
            HostPortError::NoHost => "no host",
            HostPortError::NoPort => "no port",
            HostPortError::NotFound => "host not found",
        })
    }
}

impl error::Error for HostPortError {}

/// Reads `host`, `host:port`, `[v6]:port`, `unix:/path`.
///
/// # Errors
/// What is wrong, in nginx's words.
pub fn parse(text: &str, default_port: u16) -> Result<HostPort, HostPortError> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(HostPortError::NoPath);
        }
        return Ok(HostPort::Unix(path.to_owned()));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(HostPortError::InvalidHost)?;
        let port = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(':').ok_or(HostPortError::InvalidHost)?),
        };
        (host, port)
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        None => None,
        Some(port) => {
            let number = port.parse::<u16>().ok().filter(|port| *port > 0);
            Some(number.ok_or(HostPortError::InvalidPort)?)
        }
    };
    if host.is_empty() {
        return Err(HostPortError::NoHost);
    }
    let number = port.unwrap_or(default_port);
    let literal = host.parse().ok().map(|ip| SocketAddr::new(ip, number));
    Ok(HostPort::Inet { host: host.to_owned(), port, literal })
}

/// The addresses of a host, asking `look_up` where it is a name: that of the plan's resources while one is
/// built. May block.
///
/// # Errors
/// The name is unknown.
pub fn addresses(
    host: &HostPort,
    default_port: u16,
    look_up: impl FnOnce(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<Vec<Addr>, HostPortError> {
    match host {
        HostPort::Unix(path) => Ok(vec![Addr::Unix(path.into())]),
        HostPort::Inet { literal: Some(address), .. } => Ok(vec![Addr::Inet(*address)]),
        HostPort::Inet { host, port, .. } => {
            let number = port.unwrap_or(default_port);
            let mut addresses: Vec<Addr> = Vec::new();
            for ip in look_up(host).map_err(|_| HostPortError::NotFound)? {
                let address = Addr::Inet(SocketAddr::new(ip, number));
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            if addresses.is_empty() { Err(HostPortError::NotFound) } else { Ok(addresses) }
        }
    }
}
