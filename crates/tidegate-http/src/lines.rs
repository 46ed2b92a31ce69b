//! One field line of a head or trailer: the scanner that requests, responses and chunks share.

use crate::headers::{Field, Known};
use memchr::memchr3;

/// What to do about names that are not letters, digits and `-`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRules {
    /// Leave such fields out; else they are taken as they are.
    pub(crate) ignore_odd_names: bool,
    /// `_` is an ordinary letter.
    pub(crate) underscores: bool,
}

/// What stands at the start of a line.
pub(crate) enum Line {
    /// A field, and where the next line begins.
    Field(Field, usize),
    /// A field with an odd name that is to be left out.
    Ignored(usize),
    /// The empty line.
    End(usize),
    Incomplete,
    Invalid,
}

/// Reads one line at `start`.
#[inline]
pub(crate) fn read_field(buffer: &[u8], start: usize, rules: FieldRules) -> Line {
    let line = buffer.get(start..).unwrap_or(&[]);
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
    let value_from = name_len + 1;
    let next = match memchr3(b'\n', b'\r', 0, &line[value_from..]) {
        None => return Line::Incomplete,
        Some(end) => value_from + end,
    };
    let line_next = match (line[next], line.get(next + 1)) {
        (b'\n', _) => next + 1,
        (b'\r', Some(b'\n')) => next + 2,
        (b'\r', None) => return Line::Incomplete,
        _ => return Line::Invalid,
    };
    let Ok(name_len16) = u16::try_from(name_len) else { return Line::Invalid };
    if name_len == 0 {
        return Line::Invalid;
    }
    if odd && rules.ignore_odd_names {
        return Line::Ignored(start + line_next);
    }
    let (mut from, mut to) = (value_from, next);
    while from < to && matches!(line[from], b' ' | b'\t') {
        from += 1;
    }
    while to > from && matches!(line[to - 1], b' ' | b'\t') {
        to -= 1;
    }
    let field = Field {
        name_start: start as u32,
        name_len: name_len16,
        value_start: (start + from) as u32,
        value_len: (to - from) as u32,
        known: Known::of(&line[..name_len]),
    };
    Line::Field(field, start + line_next)
}

/// A byte that no name may hold: right at the start it may be the empty line.
fn line_without_name(line: &[u8], at: usize, start: usize) -> Line {
    match (line[at], line.get(at + 1)) {
        (b'\n', _) if at == 0 => Line::End(start + 1),
        (b'\r', Some(b'\n')) if at == 0 => Line::End(start + 2),
        (b'\r', None) => Line::Incomplete,
        _ => Line::Invalid,
    }
}

const NAME_PLAIN: u8 = 0;
const NAME_UNDERSCORE: u8 = 1;
/// Allowed only with `ignore_invalid_headers off`, else the field is left out.
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

/// Where a line's text ends: before LF or CRLF.
pub(crate) fn trim_line_end(buffer: &[u8], start: usize, next: usize) -> usize {
    let line = &buffer[start..next];
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    start + line.strip_suffix(b"\r").unwrap_or(line).len()
}

/// Bytes from outside as the error log may show them: at most 2048, and everything that is not
/// plain ASCII text as `\xHH`, so that a line of the log stays one line.
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
