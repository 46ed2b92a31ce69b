//! Helpers for lists of tokens and for numbers in fields.

/// Whether a comma-separated list holds this token, in any case (RFC 9110 section 5.6.1).
/// Parameters behind a `;` are not looked at.
pub fn has_token(list: &[u8], token: &[u8]) -> bool {
    // Most lists are the one token, which needs no taking apart.
    list == token || tokens(list).any(|item| item.eq_ignore_ascii_case(token))
}

/// The items of a comma-separated list without spaces, parameters and empty items.
pub fn tokens(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let items = list.split(|byte| *byte == b',');
    let names = items.map(|item| trim(item.split(|byte| *byte == b';').next().unwrap_or(item)));
    names.filter(|item| !item.is_empty())
}

/// Cuts spaces and tabs at both ends.
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// A decimal number of digits only that fits a file offset (63 bits); `None` otherwise.
pub fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    (value <= i64::MAX as u64).then_some(value)
}
