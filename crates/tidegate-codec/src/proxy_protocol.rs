//! The PROXY protocol, versions 1 and 2: the address of the client behind a load balancer.
//!
//! Format: the specification "The PROXY protocol, versions 1 & 2" of HAProxy.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::range::write_number;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Version 1: the longest line in bytes, CRLF included, by the specification.
const LINE_BYTES_MAX: usize = 107;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2: bytes before the addresses.
const FIXED_BYTES: usize = 16;
/// Version 2: the largest accepted header in bytes; those with certificates in TLVs stay below that.
pub const HEADER_BYTES_MAX: usize = 4096;

/// The bytes are no PROXY protocol header (log: `broken header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyProtocolError;

impl fmt::Display for ProxyProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are no header of the PROXY protocol")
    }
}

impl std::error::Error for ProxyProtocolError {}

/// A parsed header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The address of the client and the one it connected to; `None` for `UNKNOWN`, `LOCAL` and Unix sockets:
    /// the connection's own addresses count.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Version 2: the raw type-length-value list.
    pub tlvs: Vec<u8>,
}

/// The result of a call of `parse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedProxy {
    /// The header, and its length in bytes.
    Complete(ProxyHeader, usize),
    /// More bytes are needed.
    Partial,
}

/// Reads a header of either version from the start of `buffer`.
pub fn parse(buffer: &[u8]) -> Result<ParsedProxy, ProxyProtocolError> {
    let common = buffer.len().min(SIGNATURE.len());
    if buffer[..common] == SIGNATURE[..common] {
        return if common < SIGNATURE.len() { Ok(ParsedProxy::Partial) } else { parse_v2(buffer) };
    }
    parse_v1(buffer)
}

/// Parses version 1: one line of words, `PROXY TCP4 SOURCE DESTINATION PORT PORT` with CR LF, or `PROXY
/// UNKNOWN` and any words (the PROXY protocol's specification, section 2.1). It is refused as soon as it
/// cannot become a header: at the first wrong byte of the prefix, and at the largest length of the
/// specification without a line end.
fn parse_v1(buffer: &[u8]) -> Result<ParsedProxy, ProxyProtocolError> {
    let prefix = b"PROXY ";
    let common = buffer.len().min(prefix.len());
    if buffer[..common] != prefix[..common] {
        return Err(ProxyProtocolError);
    }
    let searched = &buffer[..buffer.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', searched) else {
        let too_long = buffer.len() >= LINE_BYTES_MAX;
        let hopeless = !may_be_family(buffer.get(prefix.len()..).unwrap_or_default());
        return if too_long || hopeless {
            Err(ProxyProtocolError)
        } else {
            Ok(ParsedProxy::Partial)
        };
    };
    let line = buffer[..end].strip_suffix(b"\r").ok_or(ProxyProtocolError)?;
    let rest = line.get(prefix.len()..).ok_or(ProxyProtocolError)?;
    let complete = |addresses| {
        let header = ProxyHeader { addresses, tlvs: Vec::new() };
        Ok(ParsedProxy::Complete(header, end + 1))
    };
    if rest == b"UNKNOWN" || rest.starts_with(b"UNKNOWN ") {
        return complete(None);
    }
    let text = std::str::from_utf8(rest).map_err(|_| ProxyProtocolError)?;
    let parts: Vec<&str> = text.split(' ').collect();
    let [family, source, destination, source_port, destination_port] = parts[..] else {
        return Err(ProxyProtocolError);
    };
    let address = |host: &str, port: &str| {
        let ip: IpAddr = match family {
            "TCP4" => IpAddr::V4(host.parse().ok()?),
            // Some proxies leave the IPv4 side unchanged; nginx accepts it.
            "TCP6" => host.parse().ok()?,
            _ => return None,
        };
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port: u16 = if digits { port.parse().ok()? } else { return None };
        Some(SocketAddr::new(ip, port))
    };
    let source = address(source, source_port).ok_or(ProxyProtocolError)?;
    let destination = address(destination, destination_port).ok_or(ProxyProtocolError)?;
    complete(Some((source, destination)))
}

/// Returns whether the bytes behind `PROXY ` can become a header.
fn may_be_family(rest: &[u8]) -> bool {
    [&b"TCP4 "[..], b"TCP6 ", b"UNKNOWN"].iter().any(|family| {
        let common = rest.len().min(family.len());
        rest[..common] == family[..common]
    })
}

/// The transport of TCP and of stream sockets, in the lower half of version 2's family byte.
const STREAM: u8 = 1;

fn parse_v2(buffer: &[u8]) -> Result<ParsedProxy, ProxyProtocolError> {
    let Some(fixed) = buffer.get(SIGNATURE.len()..FIXED_BYTES) else {
        return Ok(ParsedProxy::Partial);
    };
    let [version_command, family, high, low] = *fixed else { return Err(ProxyProtocolError) };
    let len = usize::from(u16::from_be_bytes([high, low]));
    let total = FIXED_BYTES + len;
    let (version, command) = (version_command >> 4, version_command & 15);
    if version != 2 || command > 1 || total > HEADER_BYTES_MAX {
        return Err(ProxyProtocolError);
    }
    let Some(body) = buffer.get(FIXED_BYTES..total) else { return Ok(ParsedProxy::Partial) };
    // `LOCAL`: a health check by the balancer itself; the rest is ignored.
    if command == 0 {
        return Ok(ParsedProxy::Complete(ProxyHeader::default(), total));
    }
    // Addresses of anything but a stream are not those of this connection: skipped, as nginx does.
    if family & 15 != STREAM {
        return Ok(ParsedProxy::Complete(ProxyHeader::default(), total));
    }
    let (addresses, used) = match family >> 4 {
        0 => (None, 0),
        1 => (v4_addresses(body), 12),
        2 => (v6_addresses(body), 36),
        3 => (None, 216),
        // An unknown family: skipped with its addresses, as nginx does.
        _ => (None, len),
    };
    if matches!(family >> 4, 1 | 2) && addresses.is_none() {
        return Err(ProxyProtocolError);
    }
    let tlvs = body.get(used..).ok_or(ProxyProtocolError)?.to_vec();
    Ok(ParsedProxy::Complete(ProxyHeader { addresses, tlvs }, total))
}

fn v4_addresses(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (source, rest) = body.split_first_chunk::<4>()?;
    let (destination, ports) = rest.split_first_chunk::<4>()?;
    let (source_port, destination_port) = two_ports(ports)?;
    let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(*source)), source_port);
    let destination = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(*destination)), destination_port);
    Some((source, destination))
}

fn v6_addresses(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (source, rest) = body.split_first_chunk::<16>()?;
    let (destination, ports) = rest.split_first_chunk::<16>()?;
    let (source_port, destination_port) = two_ports(ports)?;
    let source = SocketAddr::new(IpAddr::V6(Ipv6Addr::from(*source)), source_port);
    let destination = SocketAddr::new(IpAddr::V6(Ipv6Addr::from(*destination)), destination_port);
    Some((source, destination))
}

fn two_ports(bytes: &[u8]) -> Option<(u16, u16)> {
    let ports: &[u8; 4] = bytes.first_chunk()?;
    Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
}

/// Type of the TLV with TLS data: one byte of flags, four of verify result, then TLVs.
const TLV_SSL: u8 = 0x20;

impl ProxyHeader {
    /// Returns the first TLV of a type: `$proxy_protocol_tlv_0xNN`.
    pub fn tlv(&self, wanted: u8) -> Option<&[u8]> {
        find_tlv(&self.tlvs, wanted)
    }

    /// Returns a TLV within the TLS one: `$proxy_protocol_tlv_ssl_0xNN`.
    pub fn ssl_tlv(&self, wanted: u8) -> Option<&[u8]> {
        find_tlv(self.tlv(TLV_SSL)?.get(5..)?, wanted)
    }

    /// Returns 0 when the client's certificate was verified: `$proxy_protocol_tlv_ssl_verify`.
    pub fn ssl_verify(&self) -> Option<u32> {
        let bytes = self.tlv(TLV_SSL)?.get(1..5)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}

/// Returns the type of a name that `$proxy_protocol_tlv_NAME` uses, or of `0x` and hexadecimal digits. The
/// flag is whether it is within the TLS one (prefix `ssl_`).
pub fn tlv_type(name: &str) -> Option<(bool, u8)> {
    let number = |text: &str| {
        let digits = text.strip_prefix("0x")?;
        let hexadecimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if hexadecimal { u8::from_str_radix(digits, 16).ok() } else { None }
    };
    if let Some(inner) = name.strip_prefix("ssl_") {
        let known = match inner {
            "version" => Some(0x21),
            "cn" => Some(0x22),
            "cipher" => Some(0x23),
            "sig_alg" => Some(0x24),
            "key_alg" => Some(0x25),
            _ => number(inner),
        };
        return known.map(|tlv| (true, tlv));
    }
    let known = match name {
        "alpn" => Some(0x01),
        "authority" => Some(0x02),
        "unique_id" => Some(0x05),
        "ssl" => Some(TLV_SSL),
        "netns" => Some(0x30),
        _ => number(name),
    };
    known.map(|tlv| (false, tlv))
}

fn find_tlv(mut list: &[u8], wanted: u8) -> Option<&[u8]> {
    while let [kind, high, low, rest @ ..] = list {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let value = rest.get(..len)?;
        if *kind == wanted {
            return Some(value);
        }
        list = &rest[len..];
    }
    None
}

/// Appends a version 1 line; `UNKNOWN` where the address families differ.
pub fn write_v1(source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    let family = match (source, destination) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => "TCP4",
        (SocketAddr::V6(_), SocketAddr::V6(_)) => "TCP6",
        _ => return out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
    };
    let line = format!("PROXY {family} {} {} ", source.ip(), destination.ip());
    out.extend_from_slice(line.as_bytes());
    write_number(source.port().into(), out);
    out.push(b' ');
    write_number(destination.port().into(), out);
    out.extend_from_slice(b"\r\n");
}

/// Version 2: the type of the checksum.
const CHECKSUM: u8 = 3;
/// Version 2: bytes of the checksum with its type and length.
const CHECKSUM_BYTES: u8 = 7;

/// Appends a version 2 header with a checksum. Without addresses, or where their families differ, it is
/// `LOCAL`, as for a connection of the server's own.
pub fn write_v2(addresses: Option<(SocketAddr, SocketAddr)>, datagrams: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    let transport = if datagrams { 2 } else { 1 };
    match addresses {
        Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
            out.extend_from_slice(&[0x21, 0x10 | transport, 0, 12 + CHECKSUM_BYTES]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&destination.ip().octets());
        }
        Some((SocketAddr::V6(source), SocketAddr::V6(destination))) => {
            out.extend_from_slice(&[0x21, 0x20 | transport, 0, 36 + CHECKSUM_BYTES]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&destination.ip().octets());
        }
        _ => out.extend_from_slice(&[0x20, 0, 0, CHECKSUM_BYTES]),
    }
    if let Some((source, destination)) = addresses
        && source.is_ipv4() == destination.is_ipv4()
    {
        out.extend_from_slice(&source.port().to_be_bytes());
        out.extend_from_slice(&destination.port().to_be_bytes());
    }
    out.extend_from_slice(&[CHECKSUM, 0, 4]);
    // The checksum field counts as zeros.
    let checksum = !crc32c(crc32c(!0, &out[start..]), &[0; 4]);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// Returns the CRC32c (RFC 3309), without the inversions at its begin and end.
fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(before, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
