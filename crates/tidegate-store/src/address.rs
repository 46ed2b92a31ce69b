//! The URL of an engine: `redis[s]://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/DATABASE]`.
//!
//! ```
//! let address = tidegate_store::Address::parse("rediss://app:p%40ss@one:7000,two/2").unwrap();
//! assert!(address.tls);
//! assert_eq!((address.hosts[1].name.as_str(), address.hosts[1].port), ("two", 6379));
//! assert_eq!((address.login.password.as_deref(), address.database), (Some("p@ss"), 2));
//! ```

use std::fmt;

/// Where an engine is, and how to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Whether the connection has TLS (`rediss`).
    pub tls: bool,
    /// The hosts in order of preference. One is used at a time: the others are its replicas, or stand by. With `sentinel` they
    /// are Sentinels, which are asked for the engine.
    pub hosts: Vec<Host>,
    /// What the hosts are asked for, where they are Sentinels.
    pub sentinel: Option<Sentinel>,
    /// The login of the engine.
    pub login: Login,
    /// The number of the database.
    pub database: u32,
}

/// How Sentinels are asked for an engine: `[USER:PASSWORD@]NAME`. They have a login of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinel {
    /// The name by which they know the engine.
    pub name: String,
    /// Their login.
    pub login: Login,
}

/// A password, and perhaps a user; none of both where no login is needed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user, if there is one beside the password.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// A host with its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address, without the brackets of IPv6.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// The port without one in the URL.
pub const PORT_DEFAULT: u16 = 6379;
/// The port of a Sentinel without one in the URL.
pub const SENTINEL_PORT_DEFAULT: u16 = 26379;
/// The most hosts of a URL.
pub const HOSTS_MAX: usize = 16;

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// The reason, in words for a diagnostic.
    pub fn parse(url: &str) -> Result<Address, &'static str> {
        Address::parse_with(url, PORT_DEFAULT, None)
    }

    /// Parses a URL whose hosts are Sentinels, and how they are asked.
    ///
    /// # Errors
    /// As [`Address::parse`].
    pub fn parse_sentinels(url: &str, sentinel: Sentinel) -> Result<Address, &'static str> {
        Address::parse_with(url, SENTINEL_PORT_DEFAULT, Some(sentinel))
    }

    fn parse_with(
        url: &str,
        port_default: u16,
        sentinel: Option<Sentinel>,
    ) -> Result<Address, &'static str> {
        let (tls, rest) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err("expected a URL that begins with `redis://` or `rediss://`"),
        };
        if rest.contains(['?', '#']) {
            return Err(
                "a URL with `?` or `#` is not supported; in a password write `%3F` and `%23`",
            );
        }
        let (login, rest) = split_login(rest)?;
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            text => text.parse().map_err(|_| "the database behind `/` is a number")?,
        };
        let hosts: Vec<Host> = hosts
            .split(',')
            .map(|host| parse_host(host, port_default))
            .collect::<Result<_, _>>()?;
        if hosts.len() > HOSTS_MAX {
            return Err("more than 16 hosts");
        }
        Ok(Address { tls, hosts, sentinel, login, database })
    }
}

impl Sentinel {
    /// Parses `[USER:PASSWORD@]NAME`.
    ///
    /// # Errors
    /// The reason, in words for a diagnostic.
    pub fn parse(text: &str) -> Result<Sentinel, &'static str> {
        // The name itself has no `@`: Sentinels know letters, digits and `.-_` alone.
        let (login, name) = split_login(text)?;
        match name.is_empty() {
            true => Err("the name by which Sentinels know the engine is missing"),
            false => Ok(Sentinel { name: name.to_owned(), login }),
        }
    }
}

impl fmt::Display for Address {
    /// Writes the URL without users and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "rediss://" } else { "redis://" })?;
        for (index, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if index > 0 { "," } else { "" })?;
        }
        write!(f, "/{}", self.database)?;
        match &self.sentinel {
            Some(sentinel) => write!(f, " sentinel={}", sentinel.name),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// Splits `[USER:PASSWORD@]REST`.
fn split_login(text: &str) -> Result<(Login, &str), &'static str> {
    let Some((login, rest)) = text.rsplit_once('@') else { return Ok((Login::default(), text)) };
    let (user, password) = login.split_once(':').ok_or("expected `USER:PASSWORD@`")?;
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    Ok((Login { user, password: Some(decode(password)?) }, rest))
}

fn parse_host(text: &str, port_default: u16) -> Result<Host, &'static str> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or("`[` without `]`")?;
            name.parse::<std::net::Ipv6Addr>().map_err(|_| "no IPv6 address in the brackets")?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err("expected `:PORT` behind the address"),
                port => (name, port),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("write an IPv6 address in brackets");
            }
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if name.is_empty() {
        return Err("no host");
    }
    let port = match port {
        None => port_default,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("invalid port")?,
    };
    Ok(Host { name: name.to_owned(), port })
}

/// Decodes `%` and two digits (RFC 3986 section 2.1).
fn decode(text: &str) -> Result<String, &'static str> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(decoded.ok_or("`%` without two digits in user or password")?);
        rest = &tail[2..];
    }
    String::from_utf8(out).map_err(|_| "user or password are not UTF-8")
}

#[cfg(test)]
mod tests;
