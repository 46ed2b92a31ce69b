//! The layout of an object that is stored in parts: numbers and keys, no I/O.

use tidegate_cache::Key;
use tidegate_codec::range::ByteRange;

/// Size of a part in bytes; parts begin at multiples of it. Large enough for a file of its own, small enough that a
/// player that seeks does not fetch much in vain.
pub(crate) const BLOCK_BYTES: u64 = 1 << 20;

/// A range that begins less than this number of bytes ahead of a fill waits for the fill: these bytes arrive in less
/// time than another request to the origin takes.
pub(crate) const FAR_BYTES: u64 = BLOCK_BYTES;

/// A requested range, before the size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestedRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset behind the last byte; `None`: to the end.
    pub end: Option<u64>,
}

impl RequestedRange {
    /// Parses a `Range` field; `None` for several ranges, for suffix ranges, and for invalid ones.
    pub(crate) fn parse(field: &[u8]) -> Option<RequestedRange> {
        let unit = field.get(..6)?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        let (first, last) = std::str::from_utf8(&field[6..]).ok()?.split_once('-')?;
        let start = number(first)?;
        let end = match last.trim() {
            "" => None,
            digits => Some(number(digits)?.checked_add(1)?),
        };
        end.is_none_or(|end| end > start).then_some(RequestedRange { start, end })
    }

    /// Returns the range widened to whole parts.
    pub(crate) fn widened(self) -> RequestedRange {
        let start = self.start - self.start % BLOCK_BYTES;
        let end = self.end.and_then(|end| end.checked_next_multiple_of(BLOCK_BYTES));
        RequestedRange { start, end }
    }
}

/// Returns the part that contains a byte.
pub(crate) fn block_of(byte: u64, size: u64) -> ByteRange {
    let start = byte - byte % BLOCK_BYTES;
    ByteRange { start, end: start.saturating_add(BLOCK_BYTES).min(size) }
}

/// Returns the key of the part that begins at `start`. The id is unpredictable, so that no request can make the key
/// of a part.
pub(crate) fn key(object: &Key, id: u64, start: u64) -> Key {
    let mut text = Vec::with_capacity(object.text().len() + 40);
    text.extend_from_slice(object.text());
    text.extend_from_slice(b"\0\0part ");
    text.extend_from_slice(format!("{id:x} {BLOCK_BYTES:x} {start:x}").as_bytes());
    Key::new(text)
}

/// Returns the key that coalesces the first range requests of an unknown object.
pub(crate) fn probe_key(object: &Key) -> Key {
    let mut text = Vec::with_capacity(object.text().len() + 10);
    text.extend_from_slice(object.text());
    text.extend_from_slice(b"\0\0parts");
    Key::new(text)
}

fn number(digits: &str) -> Option<u64> {
    let digits = digits.trim();
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}
