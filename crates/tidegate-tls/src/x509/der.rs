//! Elements of DER (ITU-T X.690) and times, as certificates and revocation lists use them.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_ID: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Returns the seconds since 1970 of a time (RFC 5280 section 4.1.2.5): always UTC, always with seconds.
pub(crate) fn time(tag: u8, text: &[u8]) -> Option<i64> {
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

/// Returns the content of an element with this tag, and the rest behind it.
pub(crate) fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(der)?;
    (found == tag).then_some((content, rest))
}

/// Returns the content of the next element, if it has this tag, and the rest behind it; otherwise everything
/// is the rest.
pub(crate) fn optional(der: &[u8], tag: u8) -> (Option<&[u8]>, &[u8]) {
    match element(der, tag) {
        Some((content, rest)) => (Some(content), rest),
        None => (None, der),
    }
}

/// Returns the next element: tag, content, and the rest behind it.
pub(crate) fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
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

/// Returns the whole first element of `der`, its tag and length included.
pub(crate) fn whole(der: &[u8]) -> Option<&[u8]> {
    let (_, _, rest) = any(der)?;
    der.get(..der.len() - rest.len())
}
