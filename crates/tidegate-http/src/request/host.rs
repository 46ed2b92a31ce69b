//! Host names out of `Host` fields and targets: checked, lower-cased, port and last dot cut.

/// A checked host, kept where it is when it was lower-case already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostName<'a> {
    Borrowed(&'a [u8]),
    Lowered(Vec<u8>),
}

impl HostName<'_> {
    /// Without port and trailing dot, in lower case; an IPv6 literal keeps its brackets.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            HostName::Borrowed(bytes) => bytes,
            HostName::Lowered(bytes) => bytes,
        }
    }
}

/// Splits `host[:port]` (RFC 3986 section 3.2, without user information). `None` when it is not
/// one: empty host, a slash or control byte, two dots in a row, a port that is not 0 to 65535.
pub fn parse_authority(text: &[u8]) -> Option<(HostName<'_>, Option<u16>)> {
    let host_len = match text.first()? {
        b'[' => literal_len(text)?,
        _ => text.iter().position(|byte| *byte == b':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(host_len);
    let port = parse_port(rest)?;
    let host = if host[0..].first() == Some(&b'[') { host } else { checked_name(host)? };
    Some((lowered(host), port))
}

fn literal_len(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| *byte == b']')?;
    let inside = &text[1..end];
    let two_dots = inside.windows(2).any(|pair| pair == b"..");
    let valid = !inside.is_empty() && !two_dots && inside.iter().all(|byte| is_literal_byte(*byte));
    valid.then_some(end + 1)
}

fn checked_name(name: &[u8]) -> Option<&[u8]> {
    let mut dot_before = false;
    for byte in name {
        if !is_name_byte(*byte) || (*byte == b'.' && dot_before) {
            return None;
        }
        dot_before = *byte == b'.';
    }
    let name = name.strip_suffix(b".").unwrap_or(name);
    (!name.is_empty()).then_some(name)
}

/// `""`, `":"` or `":80"`.
fn parse_port(rest: &[u8]) -> Option<Option<u16>> {
    let Some((b':', digits)) = rest.split_first() else {
        return rest.is_empty().then_some(None);
    };
    if digits.is_empty() {
        return Some(None);
    }
    if digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let port = digits.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    u16::try_from(port).ok().map(Some)
}

fn lowered(host: &[u8]) -> HostName<'_> {
    if host.iter().any(u8::is_ascii_uppercase) {
        HostName::Lowered(host.to_ascii_lowercase())
    } else {
        HostName::Borrowed(host)
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, 0x7f | b'/' | b'\\' | b'[' | b']' | b'@' | b'?' | b'#')
}

/// IPv6 address or IPvFuture: hexadecimal digits, unreserved and sub-delimiters.
fn is_literal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":.-_~!$&'()*+,;=%".contains(&byte)
}
