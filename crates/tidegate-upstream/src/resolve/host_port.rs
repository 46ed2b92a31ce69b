//! Hosts with ports as directives write them, and their addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};

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

/// Parses `host`, `host:port`, `[v6]:port`, `unix:/path`.
///
/// # Errors
/// The syntax error, in nginx's words.
pub fn parse(text: &str, default_port: u16) -> Result<HostPort, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err("no path in the unix domain socket");
        }
        return Ok(HostPort::Unix(path.to_owned()));
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("invalid host")?;
        let port = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(':').ok_or("invalid host")?),
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
            Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or("invalid port")?)
        }
    };
    if host.is_empty() {
        return Err("no host");
    }
    let number = port.unwrap_or(default_port);
    let literal = host.parse().ok().map(|ip| SocketAddr::new(ip, number));
    Ok(HostPort::Inet { host: host.to_owned(), port, literal })
}

/// The error of an unknown name.
pub const NOT_FOUND: &str = "host not found";

/// Returns the addresses of a host, using `look_up` for a name: that of the plan's resources while one is built. May
/// block.
///
/// # Errors
/// The name is unknown.
pub fn addresses(
    host: &HostPort,
    default_port: u16,
    look_up: impl FnOnce(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<Vec<Addr>, &'static str> {
    match host {
        HostPort::Unix(path) => Ok(vec![Addr::Unix(path.into())]),
        HostPort::Inet { literal: Some(address), .. } => Ok(vec![Addr::Inet(*address)]),
        HostPort::Inet { host, port, .. } => {
            let number = port.unwrap_or(default_port);
            let mut addresses: Vec<Addr> = Vec::new();
            for ip in look_up(host).map_err(|_| NOT_FOUND)? {
                let address = Addr::Inet(SocketAddr::new(ip, number));
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            if addresses.is_empty() { Err(NOT_FOUND) } else { Ok(addresses) }
        }
    }
}
