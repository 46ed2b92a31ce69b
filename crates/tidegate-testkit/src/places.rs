//! Placeholders of a case and their ports.
//!
//! `{dir}` the case's directory, `{front}` `{front2}` … addresses for the server to listen on,
//! `{u1}` UDP addresses for it, `{port:front}` only the port, `{o1}` an origin's address, `{s1}` a syslog sink's,
//! `{n1}` a name server's, `{dead}` an address where connections are refused, `{pid}` the pid file, `{here}` the directory that the harness was
//! started in, `{implicit}` the address of servers without `listen`, `{certificate}` and `{key}` files. Anything else in braces stays.

use crate::bell::{Failure, locked};
use crate::certificates;
use crate::conditions::is_sink;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;

/// Ports are taken from below the range that systems use for outgoing connections, so that no
/// such connection can take one between the choice and the server's bind.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// The next port to try; begins at a place that differs between processes.
static NEXT: Mutex<Option<u16>> = Mutex::new(None);

/// The values of the placeholders of one run.
#[derive(Debug)]
pub(crate) struct Places {
    values: BTreeMap<String, String>,
    /// Ports of the server by name.
    pub fronts: BTreeMap<String, SocketAddr>,
    /// UDP ports of the server by name.
    pub datagrams: BTreeMap<String, SocketAddr>,
    /// Origins by name.
    pub origins: BTreeMap<String, TcpListener>,
    /// Syslog sinks by name.
    pub sinks: BTreeMap<String, UdpSocket>,
    pub name_servers: Vec<(String, UdpSocket)>,
    /// Whether a certificate of the harness is used.
    pub has_certificates: bool,
    _implicit: Option<Implicit>,
    /// Keeps the refusing address bound but not listening.
    _dead: Option<socket2::Socket>,
}

impl Places {
    /// Finds all placeholders in `texts` and binds what they need.
    pub(crate) fn new(directory: &str, texts: &[&str]) -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("no free port: {error}"));
        let mut places = Self {
            values: BTreeMap::new(),
            fronts: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            origins: BTreeMap::new(),
            sinks: BTreeMap::new(),
            name_servers: Vec::new(),
            has_certificates: false,
            _implicit: None,
            _dead: None,
        };
        places.set("dir", directory.to_owned());
        places.set("pid", format!("{directory}/nginx.pid"));
        let here = std::env::current_dir().map_err(|error| Failure::new(error.to_string()))?;
        places.set("here", here.display().to_string());
        for name in texts.iter().flat_map(|text| placeholders(text)) {
            if places.values.contains_key(name) {
                continue;
            }
            if let Some((_, file)) = certificates::FILES.iter().find(|(known, _)| *known == name) {
                places.has_certificates = true;
                places.set(name, format!("{directory}/{file}"));
                continue;
            }
            let address = if numbered(name, "front") {
                let address = free(TcpListener::bind).map_err(failed)?.0;
                places.fronts.insert(name.to_owned(), address);
                address
            } else if name == "implicit" {
                let implicit = Implicit::reserve().map_err(failed)?;
                let address = implicit.address;
                places._implicit = Some(implicit);
                places.fronts.insert(name.to_owned(), address);
                address
            } else if numbered(name, "u") && name != "u" {
                let address = free(UdpSocket::bind).map_err(failed)?.0;
                places.datagrams.insert(name.to_owned(), address);
                address
            } else if numbered(name, "o") && name != "o" {
                let (address, listener) = free(TcpListener::bind).map_err(failed)?;
                places.origins.insert(name.to_owned(), listener);
                address
            } else if is_sink(name) {
                let (address, socket) = free(UdpSocket::bind).map_err(failed)?;
                places.sinks.insert(name.to_owned(), socket);
                address
            } else if numbered(name, "n") && name != "n" {
                let (address, socket) = free(UdpSocket::bind).map_err(failed)?;
                places.name_servers.push((name.to_owned(), socket));
                address
            } else if name == "dead" {
                let (address, socket) = free(bound_only).map_err(failed)?;
                places._dead = Some(socket);
                address
            } else {
                continue;
            };
            places.set(&format!("port:{name}"), address.port().to_string());
            places.set(name, address.to_string());
        }
        Ok(places)
    }

    fn set(&mut self, name: &str, value: String) {
        self.values.insert(name.to_owned(), value);
    }

    /// The text with placeholders in place of their values, long values first. A port within a longer number stays.
    pub(crate) fn unfill(&self, text: &str) -> String {
        let mut values: Vec<_> = self.values.iter().collect();
        values.sort_by_key(|(name, value)| (std::cmp::Reverse(value.len()), *name));
        let replaced = |text: String, (name, value): (&String, &String)| {
            let mut replaced = String::with_capacity(text.len());
            let mut rest = text.as_str();
            while let Some(at) = rest.find(value.as_str()) {
                let (before, after) = (&rest[..at], &rest[at + value.len()..]);
                replaced.push_str(before);
                let is_digit = |c: char| c.is_ascii_digit();
                if before.ends_with(is_digit) || after.starts_with(is_digit) {
                    replaced.push_str(value);
                } else {
                    replaced.push_str(&format!("{{{name}}}"));
                }
                rest = after;
            }
            replaced + rest
        };
        values.into_iter().fold(text.to_owned(), replaced)
    }

    /// The text with placeholders filled.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            filled.push_str(&rest[..start]);
            let after = &rest[start + 1..];
            match after.find('}').and_then(|end| Some((end, self.values.get(&after[..end])?))) {
                Some((end, value)) => {
                    filled.push_str(value);
                    rest = &after[end + 1..];
                }
                None => {
                    filled.push('{');
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        filled
    }
}

/// The port of servers without `listen`. It is the same for all cases, so one uses it after the other, those
/// of other runs on this machine included.
#[derive(Debug)]
pub(crate) struct Implicit {
    address: SocketAddr,
    /// Locked while the port is in use.
    _lock: std::fs::File,
}

impl Implicit {
    /// Waits for the other cases; an error when another program has the port.
    pub(crate) fn reserve() -> std::io::Result<Self> {
        let port = if rustix::process::geteuid().is_root() { 80 } else { 8000 };
        let name = std::env::temp_dir().join(format!("tidegate-cases-port-{port}"));
        let lock = std::fs::File::create(name)?;
        lock.lock()?;
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
        Ok(Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), _lock: lock })
    }
}

fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|part| {
        let name = &part[..part.find('}')?];
        Some(name.strip_prefix("port:").unwrap_or(name))
    })
}

fn numbered(name: &str, base: &str) -> bool {
    name.strip_prefix(base).is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Binds a socket on a free port outside the range for outgoing connections.
pub(crate) fn free<T>(
    bind: impl Fn(SocketAddr) -> std::io::Result<T>,
) -> std::io::Result<(SocketAddr, T)> {
    let mut last = std::io::Error::other("none tried");
    for _ in PORTS {
        let port = {
            let mut next = locked(&NEXT);
            let count = u32::from(PORTS.end - PORTS.start);
            let first = || PORTS.start + (std::process::id().wrapping_mul(97) % count) as u16;
            let port = next.unwrap_or_else(first);
            *next = Some(if port + 1 < PORTS.end { port + 1 } else { PORTS.start });
            port
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match bind(address) {
            Ok(bound) => return Ok((address, bound)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bound_only(address: SocketAddr) -> std::io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
