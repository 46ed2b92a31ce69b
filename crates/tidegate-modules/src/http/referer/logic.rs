//! What a `Referer` must be to be valid.

use std::sync::Arc;

use tidegate_core::host_names::{HostNames, NotTaken};
use tidegate_core::regex::Regex;

/// Hosts are not longer in nginx.
const HOST_BYTES_MAX: usize = 256;
/// Less than `http://i.ru` is no address, as in nginx.
const ADDRESS_BYTES_MIN: usize = 11;

/// A location's `valid_referers`.
#[derive(Default)]
pub(super) struct Rules {
    /// No field is valid.
    pub none: bool,
    /// A field without an address is valid: a proxy has removed it.
    pub blocked: bool,
    /// Hosts with what the path must begin with.
    hosts: HostNames<Option<Box<[u8]>>>,
    /// Regular expressions for what is behind the scheme.
    pub regexes: Vec<Arc<Regex>>,
    /// Those of `server_name`, for the host.
    pub server_regexes: Vec<Arc<Regex>>,
}

impl Rules {
    /// Adds a host or wildcard, and the beginning of the path if it matters.
    pub(super) fn add_host(
        &mut self,
        host: &[u8],
        path: Option<&[u8]>,
    ) -> Result<(), NotTaken<'_, Option<Box<[u8]>>>> {
        self.hosts.add(&host.to_ascii_lowercase(), path.map(Box::from))
    }

    /// Whether a request with this field may come.
    pub(super) fn allow(&self, referer: Option<&[u8]>) -> bool {
        let Some(referer) = referer else { return self.none };
        let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
            referer.get(..scheme.len()).is_some_and(|text| text.eq_ignore_ascii_case(scheme))
        });
        let address = scheme.map(|scheme| &referer[scheme.len()..]);
        match address.filter(|_| referer.len() >= ADDRESS_BYTES_MIN) {
            Some(address) => self.allow_address(address),
            None => self.blocked,
        }
    }

    fn allow_address(&self, address: &[u8]) -> bool {
        let end = address.iter().position(|byte| matches!(byte, b'/' | b':'));
        let (host, rest) = address.split_at(end.unwrap_or(address.len()));
        if host.len() > HOST_BYTES_MAX {
            return false;
        }
        let host = host.to_ascii_lowercase();
        if let Some(path) = self.hosts.find(&host) {
            let slash = rest.iter().position(|byte| *byte == b'/');
            let told = slash.map_or(&b""[..], |slash| &rest[slash..]);
            return path.as_ref().is_none_or(|path| told.starts_with(path));
        }
        // What cannot be matched in time is no page of ours.
        self.server_regexes.iter().any(|regex| regex.is_match(&host).unwrap_or(false))
            || self.regexes.iter().any(|regex| regex.is_match(address).unwrap_or(false))
    }
}
