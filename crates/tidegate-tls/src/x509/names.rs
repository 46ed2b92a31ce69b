//! Distinguished names: as text, in the two formats of nginx, and their comparison.

use std::fmt::Write as _;

use super::der::{OBJECT_ID, SEQUENCE, SET, any, element, whole};

const NUMERIC_STRING: u8 = 0x12;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const VISIBLE_STRING: u8 = 0x1a;
const UNIVERSAL_STRING: u8 = 0x1c;
const BMP_STRING: u8 = 0x1e;

/// The type of each attribute, whether it is joined to the one before, and its value.
pub(super) type Canonical = Vec<(Vec<u8>, bool, Vec<u8>)>;

/// One attribute of a name.
struct Attribute<'a> {
    id: &'a [u8],
    tag: u8,
    value: &'a [u8],
    /// The value with its tag and length.
    encoded: &'a [u8],
    /// Whether it belongs to the same relative name as the one before.
    joined: bool,
}

/// Returns a name in the format of RFC 2253, as OpenSSL writes it (`XN_FLAG_RFC2253`): the last part first,
/// `,` between parts, bytes beyond ASCII as `\XX`. `name` is the content of a Name.
pub fn rfc2253(name: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for attribute in attributes(name) {
        let text = rfc2253_attribute(&attribute);
        match parts.last_mut() {
            // Parts are reversed as a whole, and the attributes of a part as well.
            Some(last) if attribute.joined => *last = format!("{text}+{last}"),
            _ => parts.push(text),
        }
    }
    parts.reverse();
    parts.join(",")
}

/// Returns a name in the format of `X509_NAME_oneline`: `/C=US/CN=a`, bytes beyond printable ASCII as `\xXX`.
pub fn oneline(name: &[u8]) -> String {
    let mut text = String::new();
    for attribute in attributes(name) {
        let _ = write!(text, "/{}=", short_name(attribute.id).unwrap_or(&dotted(attribute.id)));
        let zeros = attribute.tag == BMP_STRING || attribute.tag == UNIVERSAL_STRING;
        for byte in attribute.value.iter().filter(|byte| !zeros || **byte != 0) {
            let _ = match byte {
                b' '..=b'~' => write!(text, "{}", char::from(*byte)),
                _ => write!(text, "\\x{byte:02X}"),
            };
        }
    }
    text
}

/// Returns whether two names are equal: letters of either case, and runs of spaces, count as one (RFC 5280
/// section 7.1, as far as OpenSSL follows it).
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    one == other || canonical(one) == canonical(other)
}

/// Returns the canonical form for comparison: equal if and only if the names match (RFC 5280 section 7.1).
pub(super) fn canonical(name: &[u8]) -> Canonical {
    let attributes = attributes(name);
    let parts = attributes.iter().map(|attribute| {
        let value = match utf8(attribute.tag, attribute.value) {
            Some(text) => {
                let words: Vec<&str> = text.split_ascii_whitespace().collect();
                words.join(" ").to_ascii_lowercase().into_bytes()
            }
            None => attribute.encoded.to_vec(),
        };
        (attribute.id.to_vec(), attribute.joined, value)
    });
    parts.collect()
}

/// Returns the attributes of a name; an invalid one ends the list.
fn attributes(name: &[u8]) -> Vec<Attribute<'_>> {
    let mut found = Vec::new();
    let mut sets = name;
    while let Some((mut set, after)) = element(sets, SET) {
        let mut joined = false;
        while let Some((pair, next)) = element(set, SEQUENCE) {
            if let Some((id, rest)) = element(pair, OBJECT_ID)
                && let Some((tag, value, _)) = any(rest)
                && let Some(encoded) = whole(rest)
            {
                found.push(Attribute { id, tag, value, encoded, joined });
                joined = true;
            }
            set = next;
        }
        sets = after;
    }
    found
}

fn rfc2253_attribute(attribute: &Attribute<'_>) -> String {
    let Some(name) = short_name(attribute.id) else {
        return format!("{}=#{}", dotted(attribute.id), hexadecimal(attribute.encoded));
    };
    match utf8(attribute.tag, attribute.value) {
        Some(value) => format!("{name}={}", escaped(&value)),
        None => format!("{name}=#{}", hexadecimal(attribute.encoded)),
    }
}

/// Escapes by RFC 2253 section 2.4, control characters and non-ASCII characters included.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    let last = value.len().wrapping_sub(1);
    for (index, byte) in value.bytes().enumerate() {
        let _ = match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                write!(text, "\\{}", char::from(byte))
            }
            b'#' | b' ' if index == 0 => write!(text, "\\{}", char::from(byte)),
            b' ' if index == last => write!(text, "\\ "),
            b' '..=b'~' => write!(text, "{}", char::from(byte)),
            _ => write!(text, "\\{byte:02X}"),
        };
    }
    text
}

/// Returns the value of a string; `None` for other types of values.
fn utf8(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING => std::str::from_utf8(value).ok().map(str::to_owned),
        NUMERIC_STRING | PRINTABLE_STRING | TELETEX_STRING | IA5_STRING | VISIBLE_STRING => {
            Some(value.iter().copied().map(char::from).collect())
        }
        BMP_STRING if value.len().is_multiple_of(2) => {
            let units = value.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        UNIVERSAL_STRING if value.len().is_multiple_of(4) => {
            let units = value.chunks_exact(4);
            let units = units.map(|unit| u32::from_be_bytes([unit[0], unit[1], unit[2], unit[3]]));
            units.map(char::from_u32).collect()
        }
        _ => None,
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// Returns digits and dots (ITU-T X.690 section 8.19).
fn dotted(id: &[u8]) -> String {
    let mut text = String::new();
    let mut number = 0_u128;
    for byte in id {
        // Larger than in any identifier; the rest is not shown.
        let Some(shifted) = number.checked_mul(128) else { return text };
        number = shifted + u128::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        let _ = match text.is_empty() {
            true => write!(text, "{}.{}", (number / 40).min(2), number - (number / 40).min(2) * 40),
            false => write!(text, ".{number}"),
        };
        number = 0;
    }
    text
}

/// Returns OpenSSL's short name of an attribute.
fn short_name(id: &[u8]) -> Option<&'static str> {
    let directory = |last: u8| {
        Some(match last {
            3 => "CN",
            4 => "SN",
            5 => "serialNumber",
            6 => "C",
            7 => "L",
            8 => "ST",
            9 => "street",
            10 => "O",
            11 => "OU",
            12 => "title",
            13 => "description",
            14 => "searchGuide",
            15 => "businessCategory",
            16 => "postalAddress",
            17 => "postalCode",
            18 => "postOfficeBox",
            19 => "physicalDeliveryOfficeName",
            20 => "telephoneNumber",
            41 => "name",
            42 => "GN",
            43 => "initials",
            44 => "generationQualifier",
            45 => "x500UniqueIdentifier",
            46 => "dnQualifier",
            54 => "dmdName",
            65 => "pseudonym",
            72 => "role",
            97 => "organizationIdentifier",
            98 => "c3",
            99 => "n3",
            100 => "dnsName",
            _ => return None,
        })
    };
    match id {
        [0x55, 4, last] => directory(*last),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, last] => match last {
            1 => Some("emailAddress"),
            2 => Some("unstructuredName"),
            8 => Some("unstructuredAddress"),
            _ => None,
        },
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, last] => match last {
            1 => Some("UID"),
            3 => Some("mail"),
            25 => Some("DC"),
            _ => None,
        },
        [0x2b, 6, 1, 4, 1, 0x82, 0x37, 60, 2, 1, last] => match last {
            1 => Some("jurisdictionL"),
            2 => Some("jurisdictionST"),
            3 => Some("jurisdictionC"),
            _ => None,
        },
        _ => None,
    }
}
