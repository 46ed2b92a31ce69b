//! Where the bytes of an object lie that is stored in parts: numbers and keys, no I/O.

use tidegate_cache::Key;
use tidegate_codec::range::ByteRange;

/// Parts begin at multiples of this. Large enough that a part is worth a file of its own, small enough
/// that a player that jumps about does not fetch much in vain.
pub(crate) const BLOCK_BYTES: u64 = 1 << 20;

/// A fill that is so many bytes short of a range is waited for rather than the origin asked once more:
/// less than that comes in the time of a request.
pub(crate) const FAR_BYTES: u64 = BLOCK_BYTES;

/// A range as it is asked for, before the size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestedRange {
    pub start: u64,
    /// The first byte that is not wanted; `None`: all to the end.
    pub end: Option<u64>,
}

impl RequestedRange {
    /// `None` for several ranges, those that count from the end, and what cannot be read.
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

    /// The same, widened to whole parts.
    pub(crate) fn widened(self) -> RequestedRange {
        let start = self.start - self.start % BLOCK_BYTES;
        let end = self.end.and_then(|end| end.checked_next_multiple_of(BLOCK_BYTES));
        RequestedRange { start, end }
    }
}

/// The part that a byte lies in.
pub(crate) fn block_of(byte: u64, size: u64) -> ByteRange {
    let start = byte - byte % BLOCK_BYTES;
    ByteRange { start, end: start.saturating_add(BLOCK_BYTES).min(size) }
}

/// The key of the part that begins at `start`. The number is unguessable, so that no request can make a
/// key of its own that is a part's.
pub(crate) fn key(object: &Key, id: u64, start: u64) -> Key {
    let mut text = Vec::with_capacity(object.text().len() + 40);
    text.extend_from_slice(object.text());
    text.extend_from_slice(b"\0\0part ");
    text.extend_from_slice(format!("{id:x} {BLOCK_BYTES:x} {start:x}").as_bytes());
    Key::new(text)
}

/// The key under which those meet who want a part of an object of which nothing is known.
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
