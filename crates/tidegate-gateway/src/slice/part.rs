//! One part: which bytes it is, and whether an answer is that part. Pure.

use std::fmt;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::range::{ByteRange, ContentRange};
use tidegate_core::exchange::Response;
use tidegate_core::plan::LocationId;

/// The part that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it was chosen.
    pub location: LocationId,
    pub start: u64,
    /// Bytes of a part; the last one has fewer.
    size: u64,
}

impl Part {
    /// The part that a byte lies in.
    pub(super) fn of(location: LocationId, byte: u64, size: u64) -> Part {
        let size = size.max(1);
        Part { location, start: byte - byte % size, size }
    }

    /// The part of the same sizes that another byte lies in.
    pub(super) fn at(&self, byte: u64) -> Part {
        Part::of(self.location, byte, self.size)
    }

    /// Its last byte.
    pub(super) fn last(&self) -> u64 {
        self.start.saturating_add(self.size - 1)
    }
}

/// What an answer with the right part tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub range: ByteRange,
    /// Size of the whole.
    pub size: u64,
    pub etag: Option<Bytes>,
}

/// Why an answer is not the part that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Status(u16),
    Etag,
    ContentRange,
    Size,
    Range(ByteRange),
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Status(status) => {
                write!(formatter, "unexpected status code {status} in slice response")
            }
            Problem::Etag => formatter.write_str("etag mismatch in slice response"),
            Problem::ContentRange => formatter.write_str("invalid range in slice response"),
            Problem::Size => formatter.write_str("no complete length in slice response"),
            Problem::Range(ByteRange { start, end }) => {
                write!(formatter, "unexpected range in slice response: {start}-{end}")
            }
        }
    }
}

/// The byte that a `Range` field begins at, as far as it decides about the first part: 0 for several
/// ranges, which are answered with the whole, and for a suffix, whose place is not known.
pub(super) fn first_byte(range: &[u8]) -> u64 {
    let Some((unit, rest)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.contains(&b',') {
        return 0;
    }
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at(digits);
    if behind.trim_ascii_start().first() != Some(&b'-') {
        return 0;
    }
    let step = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    // A byte that no number names lies behind every end: the origin shall say so of the first.
    digits.iter().try_fold(0, step).unwrap_or(0)
}

/// Whether an answer is this part, and what it tells.
pub(super) fn judge(status: u16, response: &Response, part: &Part) -> Result<Told, Problem> {
    if status != 206 {
        return Err(Problem::Status(status));
    }
    let field = response.headers.first(Known::ContentRange).unwrap_or_default();
    let told = ContentRange::parse(field).ok_or(Problem::ContentRange)?;
    let Some(size) = told.size else { return Err(Problem::Size) };
    let expected = ByteRange { start: part.start, end: part.last().saturating_add(1).min(size) };
    if told.range != expected {
        return Err(Problem::Range(told.range));
    }
    let etag = response.headers.first(Known::Etag).map(Bytes::copy_from_slice);
    Ok(Told { range: told.range, size, etag })
}

/// The same for a part behind the first, which must be of the same whole. nginx compares entity tags and
/// nothing else; a size that has changed is another whole, too.
pub(super) fn judge_next(
    status: u16,
    response: &Response,
    part: &Part,
    first: &Told,
) -> Result<Told, Problem> {
    let told = judge(status, response, part)?;
    if first.etag.is_some() && told.etag != first.etag {
        return Err(Problem::Etag);
    }
    if told.size != first.size {
        return Err(Problem::Range(told.range));
    }
    Ok(told)
}
