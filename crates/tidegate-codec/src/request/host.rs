//! Host names of `Host` fields, targets and TLS hellos: checked, in lower case, without port and last dot.

use std::net::Ipv6Addr;

/// A checked host, borrowed where it was in lower case already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostName<'a> {
    /// The host as received, in lower case already.
    Borrowed(&'a [u8]),
    /// A copy in lower case.
    Lowered(Vec<u8>),
}

impl HostName<'_> {
    /// Returns the host without port and trailing dot, in lower case; an IPv6 literal keeps its brackets.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            HostName::Borrowed(bytes) => bytes,
            HostName::Lowered(bytes) => bytes,
        }
    }
}

/// Splits `host[:port]` (RFC 3986 section 3.2, without user information, which is not allowed in HTTP: RFC
/// 9110 section 4.2.4). Returns `None` when it is invalid: an empty host, a byte that no host may contain, a
/// `%` without two hexadecimal digits, two dots in a row, brackets around something that is no address, a
/// port that is not 0 to 65535.
#[inline]
pub fn parse_authority(text: &[u8]) -> Option<(HostName<'_>, Option<u16>)> {
    parse(text, NAME_BAD)
}

/// Splits the authority of a request target. As in nginx, a name may only have letters, digits, `-` and `.`
/// there.
#[inline]
pub(super) fn parse_target_authority(text: &[u8]) -> Option<(HostName<'_>, Option<u16>)> {
    parse(text, NAME_BAD | NAME_RARE | NAME_PERCENT)
}

/// Parses a host alone, as in TLS (RFC 6066 section 3); otherwise as [`parse_authority`].
#[inline]
pub fn parse_host(host: &[u8]) -> Option<HostName<'_>> {
    parse_name(host, NAME_BAD)
}

#[inline]
fn parse(text: &[u8], refused: u8) -> Option<(HostName<'_>, Option<u16>)> {
    let (host, rest) = match text.first()? {
        b'[' => text.split_at(literal_len(text)?),
        _ => text.split_at(memchr::memchr(b':', text).unwrap_or(text.len())),
    };
    Some((parse_name(host, refused)?, parse_port(rest)?))
}

/// Parses a host without bytes of the `refused` classes.
#[inline]
fn parse_name(host: &[u8], refused: u8) -> Option<HostName<'_>> {
    if host.first()? == &b'[' {
        let whole = literal_len(host)? == host.len();
        return whole.then(|| kept(host, host.iter().any(u8::is_ascii_uppercase)));
    }
    let seen = host.iter().fold(0, |seen, byte| seen | NAME_CLASS[*byte as usize]);
    if seen & refused != 0
        || (seen & NAME_DOT != 0 && host.windows(2).any(|two| two == b".."))
        || (seen & NAME_PERCENT != 0 && !percents_are_whole(host))
    {
        return None;
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    (!host.is_empty()).then(|| kept(host, seen & NAME_UPPER != 0))
}

/// Returns the length of the address in brackets at the start, brackets included: an IPv6 address or a later
/// form (RFC 3986 section 3.2.2).
fn literal_len(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| *byte == b']')?;
    let inside = &text[1..end];
    let valid = match inside.first()? {
        b'v' | b'V' => is_future_address(&inside[1..]),
        _ => std::str::from_utf8(inside).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    };
    valid.then_some(end + 1)
}

/// Checks the text behind the `v`: hexadecimal digits, a dot, the address.
fn is_future_address(text: &[u8]) -> bool {
    let Some(dot) = text.iter().position(|byte| *byte == b'.') else { return false };
    let (version, address) = (&text[..dot], &text[dot + 1..]);
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(|byte| is_literal_byte(*byte))
}

fn percents_are_whole(host: &[u8]) -> bool {
    let mut rest = host;
    while let Some(at) = memchr::memchr(b'%', rest) {
        match &rest[at + 1..] {
            [high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = behind;
            }
            _ => return false,
        }
    }
    true
}

/// Parses `""`, `":"` or `":80"`; leading zeros are ignored.
fn parse_port(rest: &[u8]) -> Option<Option<u16>> {
    let Some((b':', digits)) = rest.split_first() else {
        return rest.is_empty().then_some(None);
    };
    if digits.is_empty() {
        return Some(None);
    }
    let mut port = 0u16;
    for digit in digits {
        let digit = digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
        port = port.checked_mul(10)?.checked_add(digit)?;
    }
    Some(Some(port))
}

#[inline]
fn kept(host: &[u8], upper: bool) -> HostName<'_> {
    match upper {
        true => HostName::Lowered(host.to_ascii_lowercase()),
        false => HostName::Borrowed(host),
    }
}

const NAME_PLAIN: u8 = 0;
const NAME_UPPER: u8 = 1;
const NAME_DOT: u8 = 2;
const NAME_BAD: u8 = 4;
const NAME_PERCENT: u8 = 8;
const NAME_RARE: u8 = 16;

/// Unreserved characters, sub-delimiters and `%` (RFC 3986 section 3.2.2, reg-name).
static NAME_CLASS: [u8; 256] = {
    let mut classes = [NAME_BAD; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'A'..=b'Z' => NAME_UPPER,
            b'.' => NAME_DOT,
            b'%' => NAME_PERCENT,
            b'a'..=b'z' | b'0'..=b'9' | b'-' => NAME_PLAIN,
            b'_' | b'~' => NAME_RARE,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {
                NAME_RARE
            }
            _ => NAME_BAD,
        };
        byte += 1;
    }
    classes
};

/// Returns whether it is a hexadecimal digit, an unreserved character, a sub-delimiter or a colon.
fn is_literal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":.-_~!$&'()*+,;=".contains(&byte)
}
