//! Addresses and paths of a configuration, mapped to free ports of this machine and into the scratch directory.

use super::stubs::Stubs;
use crate::bell::Failure;
use crate::places::free;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// An address that the configuration listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listen {
    pub address: SocketAddr,
    pub tls: bool,
    /// Connections begin with a line of the PROXY protocol.
    pub proxied: bool,
    /// No HTTP, but the bytes of a session.
    pub stream: bool,
}

/// The mapped addresses and paths.
#[derive(Debug)]
pub(super) struct Places {
    pub scratch: PathBuf,
    pub stubs: Stubs,
    /// By the address as it was written.
    pub listens: BTreeMap<String, Listen>,
    /// Directories for the sample files.
    pub roots: BTreeSet<PathBuf>,
    /// Files that are requested by name.
    pub files: BTreeSet<PathBuf>,
    /// Names of `upstream` blocks.
    pub upstreams: BTreeSet<String>,
    /// Variables of `root` and `alias`, without the `$`.
    pub root_variables: BTreeSet<String>,
}

impl Places {
    /// Nothing mapped yet.
    pub(super) fn new(scratch: &Path, stubs: Stubs) -> Self {
        Self {
            scratch: scratch.to_owned(),
            stubs,
            listens: BTreeMap::new(),
            roots: BTreeSet::from([scratch.join("html")]),
            files: BTreeSet::new(),
            upstreams: BTreeSet::new(),
            root_variables: BTreeSet::new(),
        }
    }

    /// Returns the address of a `listen`; the same text always has the same address.
    pub(super) fn listen(
        &mut self,
        written: &str,
        words: &[String],
        stream: bool,
    ) -> Result<SocketAddr, Failure> {
        let key = listen_key(written);
        let has = |name: &str| words.iter().any(|word| word == name);
        let (tls, proxied) = (has("ssl"), has("proxy_protocol"));
        if let Some(listen) = self.listens.get_mut(&key) {
            listen.tls |= tls;
            listen.proxied |= proxied;
            return Ok(listen.address);
        }
        let bound = free(TcpListener::bind);
        let (mut address, _) =
            bound.map_err(|error| Failure::new(format!("no free port: {error}")))?;
        let six = SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()));
        if key.starts_with('[') && TcpListener::bind(six).is_ok() {
            address = six;
        }
        self.listens.insert(key, Listen { address, tls, proxied, stream });
        Ok(address)
    }

    /// A directory for documents, whose static part gets the sample files.
    pub(super) fn root(&mut self, written: &str) -> String {
        let mapped = format!("{}/root/{}", self.scratch.display(), written.trim_start_matches('/'));
        let fixed = mapped.split_once('$').map_or(mapped.as_str(), |(fixed, _)| {
            fixed.rsplit_once('/').map_or(fixed, |(directory, _)| directory)
        });
        self.roots.insert(PathBuf::from(fixed));
        // A variable that holds a whole path begins it with its own slash.
        if written.starts_with('$') {
            return format!("{}/root{written}", self.scratch.display());
        }
        mapped
    }

    /// A place for `alias`, which may be one file.
    pub(super) fn alias(&mut self, written: &str) -> String {
        let last = written.rsplit('/').next().unwrap_or_default();
        let (stem, extension) = last.rsplit_once('.').unwrap_or((last, ""));
        if written.contains('$') || stem.is_empty() || extension.is_empty() {
            return self.root(written);
        }
        let mapped = format!("{}/root/{}", self.scratch.display(), written.trim_start_matches('/'));
        self.files.insert(PathBuf::from(&mapped));
        mapped
    }

    /// A path below one of the directories for logs and caches.
    pub(super) fn flat(&self, directory: &str, written: &str) -> String {
        let name = written.trim_start_matches('/').replace('/', "_");
        format!("{}/{directory}/{name}", self.scratch.display())
    }

    /// Returns the address of an origin, without a scheme: groups keep their names.
    pub(super) fn peer(&self, written: &str) -> String {
        let origin = self.stubs.origin;
        if self.upstreams.contains(&written.to_ascii_lowercase()) {
            return written.to_owned();
        }
        if !written.contains('$') {
            return origin.to_string();
        }
        match written.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{host}:{}", origin.port())
            }
            _ => written.to_owned(),
        }
    }

    /// The same for `proxy_pass`, with its path kept, and without TLS: the origin speaks plain HTTP.
    pub(super) fn url(&self, written: &str) -> String {
        let Some((scheme, rest)) = written.split_once("://") else { return written.to_owned() };
        let scheme = if scheme.contains('$') { scheme } else { "http" };
        let (host, path) = match rest.strip_prefix("unix:") {
            Some(socket) => {
                let (host, path) = socket.split_once(':').unwrap_or((socket, ""));
                (host, path.to_owned())
            }
            None => match rest.split_once('/') {
                Some((host, path)) => (host, format!("/{path}")),
                // Variables that begin a path may follow the host as well.
                None => match rest.find('$').filter(|at| *at > 0 && !rest[..*at].ends_with(':')) {
                    Some(at) if rest[..at].contains(['.', ':']) && !rest[..at].ends_with('.') => {
                        (&rest[..at], rest[at..].to_owned())
                    }
                    _ => (rest, String::new()),
                },
            },
        };
        format!("{scheme}://{}{path}", self.peer(host))
    }
}

/// One key for the ways to write the same address.
fn listen_key(written: &str) -> String {
    let any_host = |port: &str| format!("*:{port}");
    if written.starts_with("unix:") {
        return written.to_owned();
    }
    if written.bytes().all(|byte| byte.is_ascii_digit()) {
        return any_host(written);
    }
    let bracket = written.rfind(']').unwrap_or(0);
    match written[bracket..]
        .rfind(':')
        .map(|at| (&written[..bracket + at], &written[bracket + at + 1..]))
    {
        Some(("*" | "0.0.0.0", port)) => any_host(port),
        Some((host, port)) => format!("{host}:{port}"),
        None => format!("{written}:80"),
    }
}
