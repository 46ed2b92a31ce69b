//! Which address of those that proxies told is the client's. No connection, no clock.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tidegate_core::client::Address;

use tidegate_conf::network::Network;

/// A proxy whose word is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trusted {
    Unix,
    Network(Network),
}

/// Whether `address` is one of the trusted ones.
pub(crate) fn is_trusted(trusted: &[Trusted], address: &Address) -> bool {
    trusted.iter().any(|one| match (one, address) {
        (Trusted::Unix, Address::Unix(_)) => true,
        (Trusted::Network(network), Address::Inet(address)) => network.contains(address.ip()),
        _ => false,
    })
}

/// The client that the trusted `peer` tells of in lists of addresses (`X-Forwarded-For`), where each proxy
/// has added its own client at the end: the last address or, if `recursive`, the last that is not trusted.
/// What is behind something that is no address is believed, what is before it is not looked at.
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

/// Reads an address as RFC 3986 writes it, `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80`, or an IPv6
/// address without brackets. Without a port it has port 0. Brackets around an IPv4 address are taken, as nginx does.
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
