//! One field line of a head or trailer: the scanner of requests, responses and chunks.

use crate::headers::{Field, Known};

/// The treatment of names that are not letters, digits and `-`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRules {
    /// Whether such fields are left out; otherwise they are taken unchanged.
    pub(crate) ignore_odd_names: bool,
    /// Whether `_` is an ordinary letter.
    pub(crate) underscores: bool,
    /// Whether values may contain control characters beside tabs; line ends and zero bytes never (RFC 9110
    /// section 5.5).
    pub(crate) controls: bool,
}

/// The line at a position.
pub(crate) enum Line {
    /// A field, and the offset of the next line.
    Field(Field, usize),
    /// A field with an odd name that is to be left out, and the offset of the next line.
    Ignored(usize),
    /// The empty line, and the offset behind it.
    End(usize),
    Incomplete,
    /// Not a field, because of the byte at this offset of the line.
    Invalid(usize),
}

/// Reads one line at `start`.
#[inline]
pub(crate) fn read_field(buffer: &[u8], start: usize, rules: FieldRules) -> Line {
    let line = buffer.get(start..).unwrap_or(&[]);
    if let Some((known, name_len)) = Known::before_colon(line) {
        return read_value(line, start, name_len, known, rules);
    }
    let mut odd = false;
    let mut name_len = 0;
    loop {
        let Some(byte) = line.get(name_len) else { return Line::Incomplete };
        match NAME_CLASS[*byte as usize] {
            NAME_PLAIN => {}
            NAME_COLON => break,
            NAME_UNDERSCORE => odd |= !rules.underscores,
            NAME_ODD => odd = true,
            _ => return line_without_name(line, name_len, start),
        }
        name_len += 1;
    }
    if name_len == 0 {
        return Line::Invalid(0);
    }
    match read_value(line, start, name_len, Known::of(&line[..name_len]), rules) {
        Line::Field(_, next) if odd && rules.ignore_odd_names => Line::Ignored(next),
        line => line,
    }
}

/// Reads the rest of a line behind its name.
#[inline]
fn read_value(line: &[u8], start: usize, name_len: usize, known: Known, rules: FieldRules) -> Line {
    let mut from = name_len + 1;
    while line.get(from).is_some_and(|byte| is_blank(*byte, known)) {
        from += 1;
    }
    let Some(next) = value_end(line, from, rules.controls) else { return Line::Incomplete };
    let line_next = match (line[next], line.get(next + 1)) {
        (b'\n', _) => next + 1,
        (b'\r', Some(b'\n')) => next + 2,
        (b'\r', None) => return Line::Incomplete,
        _ => return Line::Invalid(next),
    };
    let Ok(name_len) = u16::try_from(name_len) else { return Line::Invalid(name_len) };
    let mut to = next;
    while to > from && is_blank(line[to - 1], known) {
        to -= 1;
    }
    let field = Field {
        name_start: start as u32,
        name_len,
        value_start: (start + from) as u32,
        value_len: (to - from) as u32,
        known,
    };
    Line::Field(field, start + line_next)
}

/// Returns whether this byte around a value is not part of it (OWS, RFC 9110 section 5.6.3). A tab around a
/// value that decides the framing is part of the value, and makes it invalid, as in nginx: not every server
/// trims it, and a server that sees another end of the message takes a body for a request.
#[inline]
fn is_blank(byte: u8, known: Known) -> bool {
    byte == b' '
        || (byte == b'\t' && !matches!(known, Known::ContentLength | Known::TransferEncoding))
}

/// Returns the end of a value that continues at `at`: a line feed, a carriage return or a zero byte, and,
/// where `controls` are not allowed, any of those. Values are short: a loop over eight bytes at a time costs
/// less than the start of a wider search.
#[inline]
fn value_end(line: &[u8], mut at: usize, controls: bool) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const CONTROLS_BELOW: u64 = 0x20;
    loop {
        while let Some(bytes) = line.get(at..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_le_bytes(*bytes);
            // The highest bit is set in each byte that is below, and in 0x7f, which is one less than a byte
            // that has it. A borrow may mark bytes behind the first match; a carry may mark any byte, which
            // is then checked in vain.
            let below = word.wrapping_sub(ONES * CONTROLS_BELOW);
            let found = (below | word.wrapping_add(ONES)) & !word & (ONES << 7);
            if found != 0 {
                at += found.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        match line.get(at)? {
            b'\n' | b'\r' | 0 => return Some(at),
            byte if !controls && is_control(*byte) => return Some(at),
            _ => at += 1,
        }
    }
}

/// Returns whether no text of a head may contain this byte (RFC 9110 section 5.5): a control character other
/// than a tab.
pub(crate) fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

/// Classifies a line whose first byte may not be in a name: at the very start it may be the empty line.
fn line_without_name(line: &[u8], at: usize, start: usize) -> Line {
    match (line[at], line.get(at + 1)) {
        (b'\n', _) if at == 0 => Line::End(start + 1),
        (b'\r', Some(b'\n')) if at == 0 => Line::End(start + 2),
        (b'\r', None) => Line::Incomplete,
        _ => Line::Invalid(at),
    }
}

const NAME_PLAIN: u8 = 0;
const NAME_UNDERSCORE: u8 = 1;
/// Allowed only with `ignore_invalid_headers off`, otherwise the field is left out.
const NAME_ODD: u8 = 2;
const NAME_COLON: u8 = 3;
/// Spaces and controls: the request is refused.
const NAME_BAD: u8 = 4;

static NAME_CLASS: [u8; 256] = {
    let mut classes = [NAME_ODD; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => NAME_PLAIN,
            b'_' => NAME_UNDERSCORE,
            b':' => NAME_COLON,
            0..=b' ' | 0x7f => NAME_BAD,
            _ => NAME_ODD,
        };
        byte += 1;
    }
    classes
};

/// Returns the end of a line's text, before LF or CRLF.
pub(crate) fn trim_line_end(buffer: &[u8], start: usize, next: usize) -> usize {
    let line = &buffer[start..next];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    start + line.strip_suffix(b"\r").unwrap_or(line).len()
}

/// Returns received bytes in a form for the error log: at most 2048, and everything that is not plain ASCII
/// text as `\xHH`, so that a line of the log stays one line.
pub(crate) fn loggable(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 2048;
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let mut text = String::with_capacity(cut.len() + 3);
    for byte in cut {
        match byte {
            b' '..=b'~' if !matches!(byte, b'"' | b'\\') => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    if cut.len() < bytes.len() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::value_end;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    const BYTES: &[u8] = b"a\x7e\x7f\x80\xff\t\x01\x1f\r\n\0 ";

    proptest! {
        #[test]
        fn a_value_ends_at_the_first_line_end_or_zero(
            line in vec(select(BYTES), 0..40), at in 0usize..44,
        ) {
            let naive = (at..line.len()).find(|at| matches!(line[*at], b'\r' | b'\n' | 0));
            prop_assert_eq!(value_end(&line, at, true), naive);
            let strict = (at..line.len()).find(|at| line[*at] != b'\t' && line[*at].is_ascii_control());
            prop_assert_eq!(value_end(&line, at, false), strict);
        }

        #[test]
        fn other_bytes_before_the_end_are_of_the_value(
            line in vec(select(&b"a\x7e\x80\xff\x20"[..]), 0..40), at in 0usize..8,
            end in select(&b"\x7f\x1f\n\t"[..]),
        ) {
            let length = line.len();
            let line = [&line[..], &[end], &[b'a'; 20]].concat();
            let found = (at <= length && end != b'\t').then_some(length);
            prop_assert_eq!(value_end(&line, at, false), found);
        }
    }
}
