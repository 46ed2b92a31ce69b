//! Listening addresses and the choice of a server by name.

use std::net::IpAddr;
use std::time::Duration;

use crate::client::Address;
use crate::exchange::modules::Captures;
use crate::host_names::{HostNames, NotTaken};
use crate::ids::ServerId;
use crate::regex::Regex;

/// TCP keepalive as `so_keepalive` sets it; `None` fields keep the system's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoKeepalive {
    pub on: bool,
    pub idle: Option<Duration>,
    pub interval: Option<Duration>,
    pub count: Option<u32>,
}

/// Socket options of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    pub backlog: Option<i32>,
    pub rcvbuf: Option<usize>,
    pub sndbuf: Option<usize>,
    pub fastopen: Option<i32>,
    pub deferred: bool,
    pub reuseport: bool,
    pub ipv6only: Option<bool>,
    pub so_keepalive: Option<SoKeepalive>,
    pub multipath: bool,
    /// Any socket option (or `bind`) was written: nginx allows that once for each address.
    pub written: bool,
}

/// What a listening socket is found again by over reloads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub address: Address,
    /// UDP.
    pub datagram: bool,
}

/// One listening address.
pub struct ListenerPlan {
    pub address: Address,
    /// UDP, in `stream` only.
    pub datagram: bool,
    pub tls: bool,
    pub proxy_protocol: bool,
    pub socket: SocketOptions,
    pub servers: VirtualServers,
    /// For particular local addresses of a wildcard socket, in the order of the addresses.
    pub by_local: Vec<LocalServers>,
}

/// What one local address of a wildcard socket leads to.
pub struct LocalServers {
    pub address: IpAddr,
    pub servers: VirtualServers,
    pub tls: bool,
    pub proxy_protocol: bool,
}

impl ListenerPlan {
    /// Where the local address stands in `by_local`: one look for each connection, however many there are.
    pub fn local(&self, address: IpAddr) -> Option<usize> {
        self.by_local.binary_search_by_key(&address, |local| local.address).ok()
    }

    pub fn place(&self) -> Place {
        Place { address: self.address.clone(), datagram: self.datagram }
    }
}

/// The servers of one address.
pub struct VirtualServers {
    /// For names that none claims.
    pub default: ServerId,
    pub names: Names,
    /// They do not read heads all by the same rules.
    pub read_differently: bool,
}

impl VirtualServers {
    /// The server for a lower-cased host; captures of a regular-expression name go to `captures` with its
    /// expression for named groups.
    pub fn find<'a>(
        &'a self,
        host: &[u8],
        captures: &mut Captures,
    ) -> (ServerId, Option<&'a Regex>) {
        self.find_named(host, captures).unwrap_or((self.default, None))
    }

    /// The same, but `None` for a host that no server claims.
    pub fn find_named<'a>(
        &'a self,
        host: &[u8],
        captures: &mut Captures,
    ) -> Option<(ServerId, Option<&'a Regex>)> {
        self.names.find(host, captures)
    }

    /// True when every host leads to the default server, so that none need be looked up.
    pub fn is_single(&self) -> bool {
        self.names.only == Some(self.default)
    }
}

/// Server names of one address: those of [`HostNames`], then regular expressions in order.
#[derive(Default)]
pub struct Names {
    hosts: HostNames<ServerId>,
    regexes: Vec<(Regex, ServerId)>,
    only: Option<ServerId>,
    several: bool,
}

impl Names {
    fn note(&mut self, id: ServerId) {
        self.several |= self.only.is_some_and(|only| only != id);
        self.only = if self.several { None } else { Some(id) };
    }

    /// Adds a name or wildcard in lower case.
    ///
    /// # Errors
    /// For bad wildcards, and for a name of another server.
    pub fn add(&mut self, name: &[u8], id: ServerId) -> Result<(), NotTaken<'_, ServerId>> {
        self.note(id);
        own_is_fine(self.hosts.add(name, id), id)
    }

    /// Adds a name that is no pattern.
    ///
    /// # Errors
    /// For a name of another server.
    pub fn add_exact(&mut self, name: &[u8], id: ServerId) -> Result<(), NotTaken<'_, ServerId>> {
        self.note(id);
        own_is_fine(self.hosts.add_exact(name, id), id)
    }

    pub fn add_regex(&mut self, regex: Regex, id: ServerId) {
        self.note(id);
        // A regular expression stores captures even when it leads to the only server.
        self.several = true;
        self.only = None;
        self.regexes.push((regex, id));
    }

    fn find(&self, host: &[u8], captures: &mut Captures) -> Option<(ServerId, Option<&Regex>)> {
        if let Some(id) = self.hosts.find(host) {
            return Some((*id, None));
        }
        if host.is_empty() {
            return None;
        }
        self.regexes.iter().find_map(|(regex, id)| {
            let matched = regex.capture_into(captures, host).unwrap_or(false);
            matched.then_some((*id, Some(regex)))
        })
    }
}

/// A server may name itself twice.
fn own_is_fine(
    added: Result<(), NotTaken<'_, ServerId>>,
    id: ServerId,
) -> Result<(), NotTaken<'_, ServerId>> {
    match added {
        Err(NotTaken::Known(known)) if *known == id => Ok(()),
        added => added,
    }
}
