//! Helpers for lists of tokens and for numbers in fields.

/// Returns whether a comma-separated list contains this token, in any case (RFC 9110 section 5.6.1).
/// Parameters behind a `;` are ignored.
pub fn has_token(list: &[u8], token: &[u8]) -> bool {
    tokens(list).any(|item| item.eq_ignore_ascii_case(token))
}

/// Returns whether a text is a token, as names of fields are (RFC 9110 section 5.6.2).
pub fn is_token(text: &[u8]) -> bool {
    let is_token_byte = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !text.is_empty() && text.iter().all(is_token_byte)
}

/// The options of a `Connection` field (RFC 9110 section 7.6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionOptions {
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
}

impl ConnectionOptions {
    #[inline]
    pub(crate) fn of(list: &[u8]) -> ConnectionOptions {
        let none = ConnectionOptions::default();
        match list {
            // A fast path for nearly all fields.
            b"keep-alive" => ConnectionOptions { keep_alive: true, ..none },
            b"close" => ConnectionOptions { close: true, ..none },
            list => ConnectionOptions {
                close: has_token(list, b"close"),
                keep_alive: has_token(list, b"keep-alive"),
                upgrade: has_token(list, b"upgrade"),
            },
        }
    }
}

/// Returns the items of a comma-separated list without spaces, parameters and empty items.
pub fn tokens(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let items = list.split(|byte| *byte == b',');
    let names = items.map(|item| trim(item.split(|byte| *byte == b';').next().unwrap_or(item)));
    names.filter(|item| !item.is_empty())
}

/// Removes spaces and tabs at both ends.
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Parses a decimal number of digits only that fits a file offset (63 bits); returns `None` otherwise.
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
