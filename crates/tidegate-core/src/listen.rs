//! Listening addresses and the choice of a server by name.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Address;
use crate::exchange::modules::Captures;
use crate::host_names::{AddNameError, HostNames};
use crate::ids::ServerId;
use crate::regex::{Regex, RegexList};

/// TCP keepalive as set by `so_keepalive`; `None` fields keep the system's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoKeepalive {
    /// Whether it is used.
    pub on: bool,
    /// Idle time before the first probe (`TCP_KEEPIDLE`).
    pub idle: Option<Duration>,
    /// Time between probes (`TCP_KEEPINTVL`).
    pub interval: Option<Duration>,
    /// Probes before the connection is closed (`TCP_KEEPCNT`).
    pub count: Option<u32>,
}

/// Socket options of an address, the parameters of `listen`; `None` is the system's or nginx's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Longest queue of connections that are not accepted yet.
    pub backlog: Option<i32>,
    /// Receive buffer in bytes (`SO_RCVBUF`).
    pub rcvbuf: Option<usize>,
    /// Send buffer in bytes (`SO_SNDBUF`).
    pub sndbuf: Option<usize>,
    /// Longest queue of connections with TCP Fast Open (RFC 7413).
    pub fastopen: Option<i32>,
    /// Accept when data has arrived (`TCP_DEFER_ACCEPT`).
    pub deferred: bool,
    /// A socket for each worker thread (`SO_REUSEPORT`).
    pub reuseport: bool,
    /// Whether a wildcard IPv6 socket accepts IPv6 alone.
    pub ipv6only: Option<bool>,
    /// TCP keepalive.
    pub so_keepalive: Option<SoKeepalive>,
    /// Multipath TCP (RFC 8684).
    pub multipath: bool,
    /// Permissions of the file of a Unix socket, in place of 0666 (`admin_socket`).
    pub unix_mode: Option<u32>,
    /// Whether any socket option (or `bind`) was written: nginx allows that once for each address.
    pub written: bool,
}

/// The identity of a listening socket across reloads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerKey {
    /// The listening address.
    pub address: Address,
    /// Whether the socket is UDP.
    pub datagram: bool,
}

/// One listening address.
pub struct ListenerPlan {
    /// The address that the socket is bound to.
    pub address: Address,
    /// Whether the socket is UDP: `udp` in `stream`, `quic` in `http`.
    pub datagram: bool,
    /// Whether HTTP/3 is served there (`quic`).
    pub quic: bool,
    /// Whether connections use TLS (`ssl`).
    pub tls: bool,
    /// Whether connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Whether HTTP/2 is spoken for all of its servers (`listen … http2`).
    pub http2: bool,
    /// Socket options.
    pub socket: SocketOptions,
    /// The servers of the address.
    pub servers: VirtualServers,
    /// The servers for particular local addresses of a wildcard socket, sorted by address.
    pub by_local: Vec<LocalServers>,
}

/// The servers of one local address that shares a wildcard socket.
pub struct LocalServers {
    /// The local address.
    pub address: IpAddr,
    /// The servers of the address.
    pub servers: VirtualServers,
    /// Whether connections use TLS (`ssl`).
    pub tls: bool,
    /// Whether connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Whether HTTP/2 is spoken for all of its servers (`listen … http2`).
    pub http2: bool,
}

impl ListenerPlan {
    /// Returns the index of the local address in `by_local`. A binary search: it runs for each connection.
    pub fn local(&self, address: IpAddr) -> Option<usize> {
        self.by_local.binary_search_by_key(&address, |local| local.address).ok()
    }

    /// Returns the identity of the socket across reloads.
    pub fn place(&self) -> ListenerKey {
        ListenerKey { address: self.address.clone(), datagram: self.datagram }
    }
}

/// The servers of one address.
pub struct VirtualServers {
    /// The server for names that no server has.
    pub default: ServerId,
    /// Server names.
    pub names: Names,
    /// Whether the servers parse request heads by different rules.
    pub parse_rules_differ: bool,
}

impl VirtualServers {
    /// Returns the server for a lower-cased host. Captures of a regular-expression name go to `captures`; its
    /// expression is returned for the named groups.
    pub fn find<'a>(
        &'a self,
        host: &[u8],
        captures: &mut Captures,
    ) -> (ServerId, Option<&'a Regex>) {
        self.find_named(host, captures).unwrap_or((self.default, None))
    }

    /// Like [`VirtualServers::find`], but `None` for a host that no server has.
    pub fn find_named<'a>(
        &'a self,
        host: &[u8],
        captures: &mut Captures,
    ) -> Option<(ServerId, Option<&'a Regex>)> {
        self.names.find(host, captures)
    }

    /// Returns whether every host leads to the default server, so that no lookup is needed.
    pub fn is_single(&self) -> bool {
        self.names.only == Some(self.default)
    }
}

/// Server names of one address: those of [`HostNames`], then regular expressions in order.
#[derive(Default)]
pub struct Names {
    hosts: HostNames<ServerId>,
    regexes: RegexList<ServerId>,
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
    pub fn add(&mut self, name: &[u8], id: ServerId) -> Result<(), AddNameError<'_, ServerId>> {
        self.note(id);
        own_is_fine(self.hosts.add(name, id), id)
    }

    /// Adds a name without wildcard.
    ///
    /// # Errors
    /// For a name of another server.
    pub fn add_exact(
        &mut self,
        name: &[u8],
        id: ServerId,
    ) -> Result<(), AddNameError<'_, ServerId>> {
        self.note(id);
        own_is_fine(self.hosts.add_exact(name, id), id)
    }

    /// Adds a regular expression.
    pub fn add_regex(&mut self, regex: Arc<Regex>, id: ServerId) {
        self.note(id);
        // A regular expression stores captures, so it is looked up even for the only server.
        self.several = true;
        self.only = None;
        self.regexes.push(regex, id);
    }

    /// Prepares the search, once all names are there.
    pub fn finish(&mut self) {
        self.regexes.finish();
    }

    fn find(&self, host: &[u8], captures: &mut Captures) -> Option<(ServerId, Option<&Regex>)> {
        if let Some(id) = self.hosts.find(host) {
            return Some((*id, None));
        }
        if host.is_empty() {
            return None;
        }
        // A match that exceeds its limit counts as none.
        let matches = |regex: &Regex| Ok(regex.capture_into(captures, host).unwrap_or(false));
        let Ok(first) = self.regexes.first::<Infallible>(host, matches);
        first.map(|(regex, id)| (*id, Some(&**regex)))
    }
}

/// Allows a server to repeat its own name.
fn own_is_fine(
    added: Result<(), AddNameError<'_, ServerId>>,
    id: ServerId,
) -> Result<(), AddNameError<'_, ServerId>> {
    match added {
        Err(AddNameError::Known(known)) if *known == id => Ok(()),
        added => added,
    }
}
