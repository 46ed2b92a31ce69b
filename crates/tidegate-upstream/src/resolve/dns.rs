//! The wire format of DNS questions for addresses and their answers (RFC 1035 section 4).

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The record type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordType {
    A,
    Aaaa,
    /// Places of a service (RFC 2782).
    Srv,
}

impl RecordType {
    fn code(self) -> u16 {
        match self {
            RecordType::A => 1,
            RecordType::Aaaa => 28,
            RecordType::Srv => 33,
        }
    }
}

/// Addresses of a name, or its alias.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DnsAnswer {
    /// The addresses, in the answer's order.
    pub addresses: Vec<IpAddr>,
    /// The places of a service.
    pub services: Vec<ServiceRecord>,
    /// The last alias, when the answer has no addresses.
    pub alias: Option<String>,
    /// Lifetime of all records in seconds.
    pub ttl: u32,
}

/// One place of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// The lowest is used first.
    pub priority: u16,
    /// Its share relative to others of the same priority.
    pub weight: u16,
    /// Where the service listens.
    pub port: u16,
    /// Host name without a trailing dot.
    pub target: String,
}

/// The reason why an answer is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DnsError {
    /// Not the answer to this question: wait for another one.
    Foreign,
    Malformed,
    /// Truncated: the question has to be repeated over TCP.
    Truncated,
    /// The server's code, 1 to 15; 3: no such name.
    Refused(u8),
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DnsError::Foreign => f.write_str("the answer to another question"),
            DnsError::Malformed => f.write_str("no message of RFC 1035"),
            DnsError::Truncated => f.write_str("the answer is cut off"),
            DnsError::Refused(code) => write!(f, "the name server's code is {code}"),
        }
    }
}

impl std::error::Error for DnsError {}

const CNAME: u16 = 5;
const IN: u16 = 1;
/// Maximum number of aliases within one answer.
const ALIASES_MAX: usize = 16;
/// Most letters and dots of a name. RFC 1035 section 3.1 ends at 253; nginx queries four labels of 63 as well.
const NAME_LETTERS_MAX: usize = 255;
/// Maximum number of compression pointers within one name.
const POINTERS_MAX: usize = 32;

/// Makes a question for one name; `None` for an invalid name.
pub(super) fn question(id: u16, name: &str, kind: RecordType) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len() + 18);
    out.extend_from_slice(&id.to_be_bytes());
    // Recursion desired; one question.
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    // Names of other letters have a form in ASCII (RFC 5890), which resolvers do not make of them.
    if name.is_empty() || name.len() > NAME_LETTERS_MAX || !name.is_ascii() {
        return None;
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return None;
        }
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&kind.code().to_be_bytes());
    out.extend_from_slice(&IN.to_be_bytes());
    Some(out)
}

/// Parses the answer to a question.
///
/// # Errors
/// [`DnsError`]: the answer belongs to another question, is truncated, refused or malformed.
pub(super) fn answer(
    bytes: &[u8],
    id: u16,
    name: &str,
    kind: RecordType,
) -> Result<DnsAnswer, DnsError> {
    let mut at = 0;
    // Whatever has not this id may be of anyone (RFC 5452).
    let mut header = || number(bytes, &mut at).map_err(|_| DnsError::Foreign);
    let (got, flags, queries, answers) = (header()?, header()?, header()?, header()?);
    at += 4;
    if got != id || flags & 0x8000 == 0 || queries != 1 {
        return Err(DnsError::Foreign);
    }
    let asked = read_name(bytes, &mut at)?;
    let (asked_kind, class) = (number(bytes, &mut at)?, number(bytes, &mut at)?);
    let wanted = name.strip_suffix('.').unwrap_or(name);
    if !asked.eq_ignore_ascii_case(wanted) || asked_kind != kind.code() || class != IN {
        return Err(DnsError::Foreign);
    }
    match (flags & 0xf, flags & 0x200) {
        (0, 0) => {}
        (0, _) => return Err(DnsError::Truncated),
        (code, _) => return Err(DnsError::Refused(code as u8)),
    }
    records(bytes, at, answers, asked, kind)
}

fn records(
    bytes: &[u8],
    mut at: usize,
    count: u16,
    asked: String,
    kind: RecordType,
) -> Result<DnsAnswer, DnsError> {
    let mut found = DnsAnswer { ttl: u32::MAX, ..DnsAnswer::default() };
    let mut owner = asked;
    let mut aliases = 0;
    for _ in 0..count {
        let name = read_name(bytes, &mut at)?;
        let (record, class) = (number(bytes, &mut at)?, number(bytes, &mut at)?);
        let ttl = u32::from(number(bytes, &mut at)?) << 16 | u32::from(number(bytes, &mut at)?);
        let length = usize::from(number(bytes, &mut at)?);
        let data = bytes.get(at..at + length).ok_or(DnsError::Malformed)?;
        let ours = class == IN && name.eq_ignore_ascii_case(&owner);
        if ours && record == CNAME && aliases < ALIASES_MAX {
            let mut place = at;
            owner = read_name(bytes, &mut place)?;
            aliases += 1;
            found.ttl = found.ttl.min(ttl);
        } else if ours && record == kind.code() {
            match kind {
                RecordType::Srv => found.services.push(service(bytes, at, length)?),
                _ => found.addresses.push(address(data).ok_or(DnsError::Malformed)?),
            }
            found.ttl = found.ttl.min(ttl);
        }
        at += length;
    }
    if found.addresses.is_empty() && found.services.is_empty() && aliases > 0 {
        found.alias = Some(owner);
    }
    Ok(found)
}

fn service(bytes: &[u8], mut at: usize, length: usize) -> Result<ServiceRecord, DnsError> {
    let end = at + length;
    let (priority, weight) = (number(bytes, &mut at)?, number(bytes, &mut at)?);
    let port = number(bytes, &mut at)?;
    let target = read_name(bytes, &mut at)?;
    match at == end {
        true => Ok(ServiceRecord { priority, weight, port, target }),
        false => Err(DnsError::Malformed),
    }
}

fn address(data: &[u8]) -> Option<IpAddr> {
    match data.len() {
        4 => <[u8; 4]>::try_from(data).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
        16 => <[u8; 16]>::try_from(data).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
        _ => None,
    }
}

fn number(bytes: &[u8], at: &mut usize) -> Result<u16, DnsError> {
    let pair = bytes.get(*at..*at + 2).ok_or(DnsError::Malformed)?;
    *at += 2;
    Ok(u16::from(pair[0]) << 8 | u16::from(pair[1]))
}

/// Reads a name in dotted form; follows compression pointers (RFC 1035 section 4.1.4).
///
/// `at` ends behind the name in the message: behind the first pointer, if there is one, wherever that leads. A
/// message may point at itself: at most [`POINTERS_MAX`] pointers are followed, and [`NAME_LETTERS_MAX`] letters
/// read.
fn read_name(bytes: &[u8], at: &mut usize) -> Result<String, DnsError> {
    let mut name = String::new();
    let mut place = *at;
    let mut pointers = 0;
    loop {
        let length = *bytes.get(place).ok_or(DnsError::Malformed)?;
        match length {
            0 => {
                place += 1;
                break;
            }
            0xc0.. => {
                let low = *bytes.get(place + 1).ok_or(DnsError::Malformed)?;
                if pointers == 0 {
                    *at = place + 2;
                }
                pointers += 1;
                if pointers > POINTERS_MAX {
                    return Err(DnsError::Malformed);
                }
                place = usize::from(length & 0x3f) << 8 | usize::from(low);
            }
            64.. => return Err(DnsError::Malformed),
            _ => {
                let label = bytes.get(place + 1..place + 1 + usize::from(length));
                let label = label.ok_or(DnsError::Malformed)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|byte| char::from(*byte)));
                place += 1 + usize::from(length);
                if name.len() > NAME_LETTERS_MAX {
                    return Err(DnsError::Malformed);
                }
            }
        }
    }
    if pointers == 0 {
        *at = place;
    }
    Ok(name)
}
