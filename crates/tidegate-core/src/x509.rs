//! As much of X.509 (RFC 5280 section 4.1) as both sides of TLS need: a certificate's public key, its
//! names and its time. Versions are none of our business: nginx takes certificates of version 1 as well.

#[cfg(test)]
mod tests;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The explicit version, which certificates of version 1 lack.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// Kinds of names in a SubjectAltName (RFC 5280 section 4.2.1.6).
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

const COMMON_NAME_ID: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME_ID: &[u8] = &[0x55, 29, 17];

/// A certificate taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    pub issuer: &'a [u8],
    validity: &'a [u8],
    pub subject: &'a [u8],
    /// The whole SubjectPublicKeyInfo.
    pub key_info: &'a [u8],
    extensions: &'a [u8],
}

/// A name that a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AltName<'a> {
    Dns(&'a [u8]),
    Ip(&'a [u8]),
}

impl<'a> Certificate<'a> {
    /// Takes a certificate apart; `None` for what is none.
    pub fn parse(der: &'a [u8]) -> Option<Certificate<'a>> {
        let (certificate, _) = element(der, SEQUENCE)?;
        let (mut rest, _) = element(certificate, SEQUENCE)?;
        if let Some((_, after)) = element(rest, VERSION) {
            rest = after;
        }
        (_, rest) = element(rest, INTEGER)?;
        let mut parts: [&[u8]; 4] = [&[]; 4];
        for part in &mut parts {
            (*part, rest) = element(rest, SEQUENCE)?;
        }
        let [_, issuer, validity, subject] = parts;
        let (_, after) = element(rest, SEQUENCE)?;
        let key_info = rest.get(..rest.len() - after.len())?;
        let mut extensions: &[u8] = &[];
        // Unique identifiers may stand before the extensions.
        rest = after;
        while let Some((tag, content, after)) = any(rest) {
            if tag == EXTENSIONS {
                (extensions, _) = element(content, SEQUENCE)?;
            }
            rest = after;
        }
        Some(Certificate { issuer, validity, subject, key_info, extensions })
    }

    /// First and last second of the certificate's life, since 1970.
    pub fn validity(&self) -> Option<(i64, i64)> {
        let (tag, first, rest) = any(self.validity)?;
        let first = time(tag, first)?;
        let (tag, last, _) = any(rest)?;
        Some((first, time(tag, last)?))
    }

    /// The names of the SubjectAltName extension.
    pub fn alt_names(&self) -> Vec<AltName<'a>> {
        let mut names = Vec::new();
        let Some(mut rest) = self.extension(SUBJECT_ALT_NAME_ID) else { return names };
        while let Some((tag, content, after)) = any(rest) {
            match tag {
                DNS_NAME => names.push(AltName::Dns(content)),
                IP_ADDRESS => names.push(AltName::Ip(content)),
                _ => {}
            }
            rest = after;
        }
        names
    }

    /// The common names of the subject.
    pub fn common_names(&self) -> Vec<&'a [u8]> {
        let mut names = Vec::new();
        let mut sets = self.subject;
        while let Some((mut set, after)) = element(sets, SET) {
            while let Some((pair, next)) = element(set, SEQUENCE) {
                if let Some((COMMON_NAME_ID, value)) = element(pair, OBJECT_ID)
                    && let Some((_, text, _)) = any(value)
                {
                    names.push(text);
                }
                set = next;
            }
            sets = after;
        }
        names
    }

    /// The content of the sequence that an extension holds.
    fn extension(&self, id: &[u8]) -> Option<&'a [u8]> {
        let mut rest = self.extensions;
        while let Some((extension, after)) = element(rest, SEQUENCE) {
            let (found, mut value) = element(extension, OBJECT_ID)?;
            if found == id {
                if let Some((_, after)) = element(value, BOOLEAN) {
                    value = after;
                }
                let (octets, _) = element(value, OCTET_STRING)?;
                return element(octets, SEQUENCE).map(|(content, _)| content);
            }
            rest = after;
        }
        None
    }
}

/// The bits of a certificate's public key.
pub fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    key_bits(Certificate::parse(certificate)?.key_info)
}

/// The bits of a SubjectPublicKeyInfo, which may have more behind it.
pub fn key_bits(info: &[u8]) -> Option<&[u8]> {
    let (info, _) = element(info, SEQUENCE)?;
    let (_, rest) = element(info, SEQUENCE)?;
    element(rest, BIT_STRING).map(|(bits, _)| bits)
}

/// The algorithm of a SubjectPublicKeyInfo: the content of its AlgorithmIdentifier.
pub fn key_algorithm(info: &[u8]) -> Option<&[u8]> {
    let (info, _) = element(info, SEQUENCE)?;
    element(info, SEQUENCE).map(|(algorithm, _)| algorithm)
}

/// Seconds since 1970 of a time (RFC 5280 section 4.1.2.5): always UTC, always with seconds.
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let text = text.strip_suffix(b"Z")?;
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_i64, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year = number(&text[..2])?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&text[..4])?, &text[4..]),
        _ => return None,
    };
    let part = |index: usize| number(&rest[2 * index..2 * index + 2]);
    let (month, day) = (part(0)?, part(1)?);
    // Days from the civil calendar, years beginning in March so that leap days come last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some(days * 86_400 + part(2)? * 3600 + part(3)? * 60 + part(4)?)
}

/// The content of an element with this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(der)?;
    (found == tag).then_some((content, rest))
}

/// The next element: tag, content, and what follows it.
fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        // Four bytes of length are more than any certificate needs.
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}
