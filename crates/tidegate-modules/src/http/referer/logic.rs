//! Checks whether a `Referer` is valid.

use std::convert::Infallible;

use tidegate_core::host_names::{AddNameError, HostNames};
use tidegate_core::regex::{Regex, RegexList};

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
    pub regexes: RegexList<()>,
    /// Regular expressions of `server_name`, for the host.
    pub server_regexes: RegexList<()>,
}

impl RefererRules {
    /// Prepares the search, once all are there.
    pub(super) fn finish(&mut self) {
        self.regexes.finish();
        self.server_regexes.finish();
    }

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
        is_any(&self.server_regexes, &host) || is_any(&self.regexes, address)
    }
}

/// Whether an expression matches. A match that exceeds its limit counts as none: the referer is invalid.
fn is_any(regexes: &RegexList<()>, subject: &[u8]) -> bool {
    let matches = |regex: &Regex| Ok(regex.is_match(subject).unwrap_or(false));
    let Ok(first) = regexes.first::<Infallible>(subject, matches);
    first.is_some()
}
