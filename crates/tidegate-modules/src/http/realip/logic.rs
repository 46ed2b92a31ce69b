//! Chooses the client's address from those that proxies report. No connection, no clock.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tidegate_core::client::Address;

use tidegate_conf::network::Network;

/// A proxy whose report is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trusted {
    Unix,
    Network(Network),
}

/// Returns whether `address` is one of the trusted ones.
pub(crate) fn is_trusted(trusted: &[Trusted], address: &Address) -> bool {
    trusted.iter().any(|one| match (one, address) {
        (Trusted::Unix, Address::Unix(_)) => true,
        (Trusted::Network(network), Address::Inet(address)) => network.contains(address.ip()),
        _ => false,
    })
}

/// Returns the client that the trusted `peer` reports in lists of addresses (`X-Forwarded-For`), to the end of
/// which each proxy has added its own client: the last address or, if `recursive`, the last that is not trusted.
/// Addresses behind an invalid one are used, those before it are ignored.
pub(crate) fn client<'v>(
    values: impl DoubleEndedIterator<Item = &'v [u8]>,
    trusted: &[Trusted],
    recursive: bool,
) -> Option<SocketAddr> {
    let mut client = None;
    let is_gap = |byte: &u8| matches!(byte, b',' | b' ');
    for text in values.rev().flat_map(|value| value.rsplit(is_gap)).filter(|text| !text.is_empty())
    {
        let Some(address) = parse_address(text) else { break };
        client = Some(address);
        if !recursive || !is_trusted(trusted, &Address::Inet(address)) {
            break;
        }
    }
    client
}

/// Parses an address as in RFC 3986, `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80`, or an IPv6
/// address without brackets. The default port is 0. Brackets around an IPv4 address are accepted, as in nginx.
pub(super) fn parse_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, 0));
    }
    if let Some(host) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return Some(SocketAddr::new(host.parse().ok()?, 0));
    }
    let (host, port) = text.rsplit_once(':')?;
    let address = match host.strip_prefix('[') {
        Some(host) => IpAddr::V6(host.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?),
        None => IpAddr::V4(host.parse().ok()?),
    };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0)?;
    Some(SocketAddr::new(address, port))
}
