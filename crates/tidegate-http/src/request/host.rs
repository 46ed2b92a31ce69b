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
    if text.first()? == &b'[' {
        let (host, rest) = text.split_at(literal_len(text)?);
        let upper = host.iter().any(u8::is_ascii_uppercase);
        return Some((kept(host, upper), parse_port(rest)?));
    }
    let end = memchr::memchr(b':', text).unwrap_or(text.len());
    let (host, rest) = text.split_at(end);
    let seen = host.iter().fold(0, |seen, byte| seen | NAME_CLASS[*byte as usize]);
    if seen & NAME_BAD != 0 || (seen & NAME_DOT != 0 && host.windows(2).any(|two| two == b"..")) {
        return None;
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.is_empty() {
        return None;
    }
    Some((kept(host, seen & NAME_UPPER != 0), parse_port(rest)?))
}

fn literal_len(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| *byte == b']')?;
    let inside = &text[1..end];
    let two_dots = inside.windows(2).any(|pair| pair == b"..");
    let valid = !inside.is_empty() && !two_dots && inside.iter().all(|byte| is_literal_byte(*byte));
    valid.then_some(end + 1)
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

static NAME_CLASS: [u8; 256] = {
    let mut classes = [NAME_PLAIN; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'A'..=b'Z' => NAME_UPPER,
            b'.' => NAME_DOT,
            0..=b' ' | 0x7f | b'/' | b'\\' | b'[' | b']' | b'@' | b'?' | b'#' => NAME_BAD,
            _ => NAME_PLAIN,
        };
        byte += 1;
    }
    classes
};

/// IPv6 address or IPvFuture: hexadecimal digits, unreserved and sub-delimiters.
fn is_literal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":.-_~!$&'()*+,;=%".contains(&byte)
}
