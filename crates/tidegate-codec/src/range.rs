//! `Range` and `If-Range`: the bytes of a representation to be sent (RFC 9110 sections 13.1.5, 14).

#[cfg(test)]
mod tests;

use crate::connection::trim;
use crate::date::parse_http;
use crate::decimal;

/// The bytes from `start` to `end`, the last not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The offset of the first byte.
    pub start: u64,
    /// The offset behind the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// The value of `Content-Range` in a 206 (RFC 9110 section 14.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes of the representation that follow.
    pub range: ByteRange,
    /// The length of the whole representation in bytes; `None` where the sender does not know it.
    pub size: Option<u64>,
}

impl ContentRange {
    /// Parses the field; returns `None` for anything but a satisfied range of bytes: another unit, `*`, an
    /// end before the start, a range beyond its size.
    pub fn parse(field: &[u8]) -> Option<ContentRange> {
        let field = trim(field);
        let unit = field.get(..6)?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let rest = trim(&field[6..]);
        let (range, size) = rest.split_at(memchr::memchr(b'/', rest)?);
        let (first, last) = range.split_at(memchr::memchr(b'-', range)?);
        let (start, last) = (parse_position(first)?, parse_position(&last[1..])?);
        let size = match &size[1..] {
            b"*" => None,
            digits => Some(parse_position(digits)?),
        };
        let end = last.checked_add(1)?;
        let fits = start < end && size.is_none_or(|size| end <= size && size < u64::MAX);
        fits.then_some(ContentRange { range: ByteRange { start, end }, size })
    }
}

/// The response to a `Range` request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeDecision {
    /// 200 with the whole representation: no `bytes` unit, too many ranges, or more bytes than the
    /// representation has.
    Whole,
    /// 206 with one part.
    Single(ByteRange),
    /// 206 as `multipart/byteranges`, in the requested order.
    Multiple(Vec<ByteRange>),
    /// 416 with `Content-Range: bytes */size`.
    Unsatisfiable,
}

/// Decides the response to a `Range` field for a representation of `size` bytes.
///
/// `ranges_max` is `max_ranges`: 0 disables ranges, `usize::MAX` is unlimited. As in nginx: wrong syntax is
/// 416; ranges beyond the end are left out and do not count; when the parts together are larger than the
/// whole, the whole is sent.
pub fn decide(field: &[u8], size: u64, ranges_max: usize) -> RangeDecision {
    let unit = field.get(..6).unwrap_or(&[]);
    if ranges_max == 0 || field.len() < 7 || !unit.eq_ignore_ascii_case(b"bytes=") {
        return RangeDecision::Whole;
    }
    let mut first = None;
    let mut more: Vec<ByteRange> = Vec::new();
    let mut total: u64 = 0;
    for item in field[6..].split(|byte| *byte == b',') {
        let range = match parse_item(trim(item), size) {
            Item::Range(range) => range,
            Item::OutOfReach => continue,
            Item::Broken => return RangeDecision::Unsatisfiable,
        };
        total = total.saturating_add(range.len());
        let count = if more.is_empty() { usize::from(first.is_some()) } else { more.len() };
        if count >= ranges_max || total > size || !is_worth_parts(count + 1, total, size) {
            return RangeDecision::Whole;
        }
        match first {
            None => first = Some(range),
            Some(first) => {
                if more.is_empty() {
                    more.push(first);
                }
                more.push(range);
            }
        }
    }
    match first {
        None => RangeDecision::Unsatisfiable,
        Some(range) if more.is_empty() => RangeDecision::Single(range),
        Some(_) => RangeDecision::Multiple(more),
    }
}

/// Bytes that count for a part beside its content: boundary, fields, and the work of finding it.
const PART_OVERHEAD: u64 = 256;

/// Bytes by which parts may exceed the whole, so that a few parts of a small representation are still sent.
const PARTS_ALLOWANCE: u64 = 4096;

/// Returns whether this number of parts of `total` bytes cost less than the whole, or not much more (RFC 9110
/// section 14.2: many small ranges are a way to load a server). The bound is that of nginx since 1.31.
fn is_worth_parts(count: usize, total: u64, size: u64) -> bool {
    let overhead = PART_OVERHEAD.saturating_mul(count as u64);
    total.saturating_add(overhead) <= size.saturating_add(PARTS_ALLOWANCE)
}

enum Item {
    Range(ByteRange),
    OutOfReach,
    Broken,
}

fn parse_item(item: &[u8], size: u64) -> Item {
    let Some(dash) = memchr::memchr(b'-', item) else { return Item::Broken };
    let (first, last) = (trim(&item[..dash]), trim(&item[dash + 1..]));
    if first.is_empty() {
        return match parse_position(last) {
            None => Item::Broken,
            Some(0) => Item::OutOfReach,
            Some(_) if size == 0 => Item::OutOfReach,
            Some(suffix) => {
                Item::Range(ByteRange { start: size.saturating_sub(suffix), end: size })
            }
        };
    }
    let Some(start) = parse_position(first) else { return Item::Broken };
    let end = if last.is_empty() {
        size
    } else {
        match parse_position(last) {
            None => return Item::Broken,
            Some(last) => last.saturating_add(1).min(size),
        }
    };
    if start >= size || start >= end {
        return Item::OutOfReach;
    }
    Item::Range(ByteRange { start, end })
}

/// Parses digits only; beyond 64 bits the largest number, which is behind the end of every representation.
fn parse_position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let step =
        |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, step))
}

/// Returns whether `If-Range` permits the range: the entity tag compares strongly, or the date is exactly
/// `last_modified` (Unix seconds). A field that is neither does not permit it.
pub fn if_range_holds(field: &[u8], etag: Option<&[u8]>, last_modified: Option<i64>) -> bool {
    let field = trim(field);
    if field.ends_with(b"\"") {
        return etag.is_some_and(|etag| etag == field && !field.starts_with(b"W/"));
    }
    match (parse_http(field), last_modified) {
        (Some(date), Some(modified)) => date == modified,
        _ => false,
    }
}

/// Appends `bytes 0-8/1000`, the value of `Content-Range`; `*` for an unknown size.
pub fn write_content_range(range: ByteRange, size: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes ");
    write_number(range.start, out);
    out.push(b'-');
    write_number(range.end.saturating_sub(1), out);
    out.push(b'/');
    match size {
        Some(size) => write_number(size, out),
        None => out.push(b'*'),
    }
}

/// Appends `bytes */1000`, for a 416.
pub fn write_unsatisfied_range(size: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    write_number(size, out);
}

/// Appends the head of a part of `multipart/byteranges`. `boundary` has no leading dashes; `content_type` is
/// that of the whole representation, `None` leaves the line out.
pub fn write_part_head(
    boundary: &[u8],
    content_type: Option<&[u8]>,
    range: ByteRange,
    size: u64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary);
    if let Some(content_type) = content_type {
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(content_type);
    }
    out.extend_from_slice(b"\r\nContent-Range: ");
    write_content_range(range, Some(size), out);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends the end behind the last part.
pub fn write_parts_end(boundary: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary);
    out.extend_from_slice(b"--\r\n");
}

/// Returns the `Content-Length` of the whole multipart body; `None` beyond 64 bits.
pub fn multipart_len(
    boundary: &[u8],
    content_type: Option<&[u8]>,
    ranges: &[ByteRange],
    size: u64,
) -> Option<u64> {
    let mut head = Vec::new();
    write_parts_end(boundary, &mut head);
    let mut total = head.len() as u64;
    for range in ranges {
        head.clear();
        write_part_head(boundary, content_type, *range, size, &mut head);
        total = total.checked_add(head.len() as u64)?.checked_add(range.len())?;
    }
    Some(total)
}

/// Appends a number in decimal, without the formatting machinery.
pub fn write_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(decimal::digits(number, &mut [0; decimal::DIGITS_MAX]));
}
