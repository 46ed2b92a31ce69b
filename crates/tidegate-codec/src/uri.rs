//! Request targets: percent decoding, dot segments and slashes, as location matching needs them.
//!
//! Most targets need none of that; `normalise` detects this in one pass and copies nothing.

mod escape;
#[cfg(test)]
mod tests;

pub use escape::{Escape, escape, escape_html, escape_where, escaped_len, unescape};

use std::fmt;

use crate::span::Span;

/// The target cannot be decoded (400): a wrong `%XX`, an encoded zero byte, or `..` above the
/// root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriError;

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the target cannot be decoded")
    }
}

impl std::error::Error for UriError {}

/// The positions of the parts of a target. The spans are within the given target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uri {
    /// Whether the path needed no change: it is `raw_path` of the target.
    pub plain: bool,
    /// The path as received, without arguments and fragment.
    pub raw_path: Span,
    /// The arguments behind the `?`, undecoded, without fragment; `Some` of nothing for a bare `?`.
    pub args: Option<Span>,
}

impl Uri {
    /// Returns the decoded and normalised path: `$uri`. Takes the target and buffer of `normalise`.
    #[inline]
    pub fn path<'a>(&self, target: &'a [u8], decoded: &'a [u8]) -> &'a [u8] {
        if self.plain { self.raw_path.of(target) } else { decoded }
    }

    /// Returns the arguments, empty without any: `$args`.
    #[inline]
    pub fn args<'a>(&self, target: &'a [u8]) -> &'a [u8] {
        self.args.map_or(&[][..], |args| args.of(target))
    }
}

/// Splits a target (`RequestHead::path_and_args`) and normalises its path.
///
/// `decoded` is overwritten, and only where the path needs a change: percent codes, `.` and `..`
/// segments, or with `merge_slashes` several slashes in a row. An encoded slash or dot counts
/// like a plain one; an encoded `?` or `#` becomes part of the path; `+` stays.
pub fn normalise(
    target: &[u8],
    merge_slashes: bool,
    decoded: &mut Vec<u8>,
) -> Result<Uri, UriError> {
    decoded.clear();
    if is_plain(target) {
        return Ok(Uri { plain: true, raw_path: Span::new(0, target.len()), args: None });
    }
    let mut complex = target.first() == Some(&b'?') || target.is_empty();
    let mut path_len = target.len();
    let mut args = None;
    for (at, byte) in target.iter().enumerate() {
        if !IS_SPECIAL[*byte as usize] {
            continue;
        }
        match byte {
            b'/' => match target.get(at + 1) {
                Some(b'.') => complex = true,
                Some(b'/') => complex |= merge_slashes,
                _ => {}
            },
            b'%' => complex = true,
            b'?' => {
                path_len = at;
                args = Some(args_span(target, at + 1));
                break;
            }
            // A fragment is not for servers.
            _ => {
                path_len = at;
                break;
            }
        }
    }
    if complex {
        decode(&target[..path_len], merge_slashes, decoded)?;
    }
    Ok(Uri { plain: !complex, raw_path: Span::new(0, path_len), args })
}

/// Returns whether the target is only a path that needs no change. Blocks of fixed size are checked as a
/// whole, which a compiler keeps even when its profile has short paths only.
fn is_plain(target: &[u8]) -> bool {
    let Some((last, before)) = target.split_last() else { return false };
    let (blocks, rest) = before.as_chunks::<16>();
    let (nexts, rest_nexts) = target[1..].as_chunks::<16>();
    let odd_block = |(block, nexts): (&[u8; 16], &[u8; 16])| {
        (0..16).fold(false, |odd, at| odd | is_odd(block[at], nexts[at]))
    };
    !blocks.iter().zip(nexts).any(odd_block)
        && !rest.iter().zip(rest_nexts).any(|(byte, next)| is_odd(*byte, *next))
        && !is_odd(*last, 0)
}

/// Returns whether a byte, or that byte with the next one, is not part of an unchanged path.
fn is_odd(byte: u8, next: u8) -> bool {
    let special = (byte == b'%') | (byte == b'?') | (byte == b'#');
    special | ((byte == b'/') & ((next == b'.') | (next == b'/')))
}

static IS_SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    table[b'/' as usize] = true;
    table[b'%' as usize] = true;
    table[b'?' as usize] = true;
    table[b'#' as usize] = true;
    table
};

fn args_span(target: &[u8], start: usize) -> Span {
    let rest = &target[start..];
    let end = memchr::memchr(b'#', rest).unwrap_or(rest.len());
    Span::new(start, start + end)
}

fn decode(path: &[u8], merge_slashes: bool, out: &mut Vec<u8>) -> Result<(), UriError> {
    out.reserve(path.len() + 1);
    let mut rest = path;
    // The start of the segment that is being written: behind the last slash.
    let mut segment = 0;
    while let Some((first, behind)) = rest.split_first() {
        let mut byte = *first;
        rest = behind;
        if byte == b'%' {
            let [high, low, behind @ ..] = rest else { return Err(UriError) };
            byte = hex_digit(*high).ok_or(UriError)? << 4 | hex_digit(*low).ok_or(UriError)?;
            if byte == 0 {
                return Err(UriError);
            }
            rest = behind;
        }
        if byte != b'/' {
            out.push(byte);
            continue;
        }
        end_segment(out, &mut segment, true, merge_slashes)?;
    }
    end_segment(out, &mut segment, false, merge_slashes)?;
    if out.is_empty() {
        out.push(b'/');
    }
    Ok(())
}

/// Removes a dot segment at the end of `out`, or else ends the segment with its slash.
fn end_segment(
    out: &mut Vec<u8>,
    segment: &mut usize,
    slash: bool,
    merge_slashes: bool,
) -> Result<(), UriError> {
    // Without a slash before it this is the start of the path, where no dot segment can be.
    if *segment > 0 {
        match &out[*segment..] {
            b"." => {
                out.truncate(*segment);
                return Ok(());
            }
            b".." => {
                out.truncate(*segment - 1);
                let parent = memchr::memrchr(b'/', out).ok_or(UriError)?;
                out.truncate(parent + 1);
                *segment = parent + 1;
                return Ok(());
            }
            b"" if merge_slashes => return Ok(()),
            _ => {}
        }
    }
    if slash {
        out.push(b'/');
        *segment = out.len();
    }
    Ok(())
}

/// Percent-encodes bytes of `text` from `start` on (RFC 3986 section 2.1): those that a decoded variable may contain, and
/// that would end a field or a line.
pub fn encode_where(text: &mut Vec<u8>, start: usize, is_encoded: impl Fn(u8) -> bool) {
    if !text[start..].iter().any(|byte| is_encoded(*byte)) {
        return;
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.split_off(start) {
        match is_encoded(byte) {
            true => {
                let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                text.extend_from_slice(&[b'%', digits[0], digits[1]]);
            }
            false => text.push(byte),
        }
    }
}

/// Returns the value of a hexadecimal digit.
#[inline]
pub fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
