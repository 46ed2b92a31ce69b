//! Which bytes names and values may have (RFC 9113 section 8.2.1, RFC 9110 sections 5.1 and 5.5).

/// What a name is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameClass {
    /// Lower-case letters, digits and `-`.
    Plain,
    /// The same with `_`.
    Underscore,
    /// Another token (RFC 9110 section 5.6.2) without upper case.
    Odd,
    /// No name.
    Invalid,
}

const PLAIN: u8 = 0;
const UNDERSCORE: u8 = 1;
const ODD: u8 = 2;
const UPPER: u8 = 4;
const INVALID: u8 = 8;

/// One bit each, so that the classes of all bytes of a name are put together by "or".
static CLASSES: [u8; 256] = {
    let mut classes = [INVALID; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => PLAIN,
            b'_' => UNDERSCORE,
            b'A'..=b'Z' => UPPER,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'.' | b'^' | b'`' | b'|'
            | b'~' => ODD,
            _ => INVALID,
        };
        byte += 1;
    }
    classes
};

fn classes(name: &[u8]) -> u8 {
    name.iter().fold(0, |classes, byte| classes | CLASSES[usize::from(*byte)])
}

/// Classifies a name that was received.
pub(crate) fn name(name: &[u8]) -> NameClass {
    match classes(name) {
        _ if name.is_empty() => NameClass::Invalid,
        PLAIN => NameClass::Plain,
        UNDERSCORE => NameClass::Underscore,
        classes if classes < UPPER => NameClass::Odd,
        _ => NameClass::Invalid,
    }
}

/// Whether a name may be sent once it is in lower case.
pub(crate) fn is_sendable_name(name: &[u8]) -> bool {
    !name.is_empty() && classes(name) < INVALID
}

/// Whether a value has neither a line end nor a zero byte.
#[inline]
pub(crate) fn is_value(value: &[u8]) -> bool {
    !any(value, |byte| byte == 0 || byte == b'\n' || byte == b'\r')
}

/// Whether a value has no control characters but tabs.
#[inline]
pub(crate) fn has_no_controls(value: &[u8]) -> bool {
    !any(value, |byte| (byte < b' ' && byte != b'\t') || byte == 0x7f)
}

/// Whether a value begins or ends with a space or a tab.
#[inline]
pub(crate) fn has_outer_space(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_space(value.first()) || is_space(value.last())
}

/// Whether this may be a part of a request line: no spaces, no control characters.
pub(crate) fn is_visible(text: &[u8]) -> bool {
    !any(text, |byte| byte <= b' ' || byte == 0x7f)
}

/// Whether this is a method: a token.
pub(crate) fn is_method(text: &[u8]) -> bool {
    is_sendable_name(text)
}

/// Whether this is a scheme (RFC 3986 section 3.1).
pub(crate) fn is_scheme(text: &[u8]) -> bool {
    let may_follow = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(may_follow)
}

/// Looks at blocks of bytes at once, as the compiler makes wide instructions of them. The last block overlaps the one
/// before it.
#[inline]
fn any(text: &[u8], found: impl Fn(u8) -> bool) -> bool {
    if let Some(last) = text.last_chunk::<16>() {
        let (blocks, _) = text.as_chunks::<16>();
        return blocks.iter().any(|block| in_block(block, &found)) || in_block(last, &found);
    }
    match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(first), Some(last)) => in_block(first, &found) | in_block(last, &found),
        _ => text.iter().any(|byte| found(*byte)),
    }
}

#[inline]
fn in_block<const BYTES: usize>(block: &[u8; BYTES], found: &impl Fn(u8) -> bool) -> bool {
    block.iter().fold(false, |any, byte| any | found(*byte))
}
