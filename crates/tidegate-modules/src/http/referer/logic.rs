//! Checks whether a `Referer` is valid.

use std::sync::Arc;

use tidegate_core::host_names::{AddNameError, HostNames};
use tidegate_core::regex::Regex;

/// Bytes of the longest host, as in nginx.
const HOST_BYTES_MAX: usize = 256;
/// Bytes of the shortest address, that of `http://i.ru`, as in nginx.
const ADDRESS_BYTES_MIN: usize = 11;

/// The `valid_referers` of a location.
#[derive(Default)]
pub(super) struct RefererRules {
    /// Whether an absent field is valid.
    pub none: bool,
    /// Whether a field without a scheme is valid: a proxy has removed the address.
    pub blocked: bool,
    /// Hosts, with the prefix that the path must have.
    hosts: HostNames<Option<Box<[u8]>>>,
    /// Regular expressions for the text behind the scheme.
    pub regexes: Vec<Arc<Regex>>,
    /// Regular expressions of `server_name`, for the host.
    pub server_regexes: Vec<Arc<Regex>>,
}

impl RefererRules {
    /// Adds a host or wildcard, with a prefix of the path if there is one.
    pub(super) fn add_host(
        &mut self,
        host: &[u8],
        path: Option<&[u8]>,
    ) -> Result<(), AddNameError<'_, Option<Box<[u8]>>>> {
        self.hosts.add(&host.to_ascii_lowercase(), path.map(Box::from))
    }

    /// Returns whether a request with this field is allowed.
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
        if let Some(prefix) = self.hosts.find(&host) {
            let slash = rest.iter().position(|byte| *byte == b'/');
            let path = slash.map_or(&b""[..], |slash| &rest[slash..]);
            return prefix.as_ref().is_none_or(|prefix| path.starts_with(prefix));
        }
        // A match that exceeds its time limit counts as none: the referer is invalid.
        self.server_regexes.iter().any(|regex| regex.is_match(&host).unwrap_or(false))
            || self.regexes.iter().any(|regex| regex.is_match(address).unwrap_or(false))
    }
}
