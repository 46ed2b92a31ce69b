//! One part: its bytes, and whether a response is that part. Pure.

use std::fmt;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::range::{ByteRange, ContentRange};
use tidegate_core::exchange::Response;
use tidegate_core::plan::LocationId;

/// The part that a request fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The location that chose it.
    pub location: LocationId,
    pub start: u64,
    /// Bytes of a part; the last one has fewer.
    size: u64,
}

impl Part {
    /// Returns the part that contains a byte.
    pub(super) fn of(location: LocationId, byte: u64, size: u64) -> Part {
        let size = size.max(1);
        Part { location, start: byte - byte % size, size }
    }

    /// Returns the part of the same size that contains another byte.
    pub(super) fn at(&self, byte: u64) -> Part {
        Part::of(self.location, byte, self.size)
    }

    /// Returns the offset of its last byte.
    pub(super) fn last(&self) -> u64 {
        self.start.saturating_add(self.size - 1)
    }
}

/// The properties of a response with the right part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartInfo {
    pub range: ByteRange,
    /// Size of the complete object in bytes.
    pub size: u64,
    pub etag: Option<Bytes>,
}

/// The reason why a response is not the requested part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartError {
    Status(u16),
    Etag,
    ContentRange,
    Size,
    Range(ByteRange),
}

impl fmt::Display for PartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartError::Status(status) => {
                write!(formatter, "unexpected status code {status} in slice response")
            }
            PartError::Etag => formatter.write_str("etag mismatch in slice response"),
            PartError::ContentRange => formatter.write_str("invalid range in slice response"),
            PartError::Size => formatter.write_str("no complete length in slice response"),
            PartError::Range(ByteRange { start, end }) => {
                write!(formatter, "unexpected range in slice response: {start}-{end}")
            }
        }
    }
}

/// Returns the byte at which a `Range` field begins, as far as it decides about the first part: 0 for several ranges,
/// which are served the complete object, and for a suffix, whose start is not known.
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
    // A byte beyond the largest number is beyond every end: the origin refuses the range of the first part.
    digits.iter().try_fold(0, step).unwrap_or(0)
}

/// Checks whether a response is this part, and returns its properties.
///
/// # Errors
/// The property in which the response differs from the requested part.
pub(super) fn judge(status: u16, response: &Response, part: &Part) -> Result<PartInfo, PartError> {
    if status != 206 {
        return Err(PartError::Status(status));
    }
    let field = response.headers.first(Known::ContentRange).unwrap_or_default();
    let info = ContentRange::parse(field).ok_or(PartError::ContentRange)?;
    let Some(size) = info.size else { return Err(PartError::Size) };
    let expected = ByteRange { start: part.start, end: part.last().saturating_add(1).min(size) };
    if info.range != expected {
        return Err(PartError::Range(info.range));
    }
    let etag = response.headers.first(Known::Etag).map(Bytes::copy_from_slice);
    Ok(PartInfo { range: info.range, size, etag })
}

/// Checks a part behind the first, which must be of the same object. nginx compares entity tags only; a size that has
/// changed is another object, too.
pub(super) fn judge_next(
    status: u16,
    response: &Response,
    part: &Part,
    first: &PartInfo,
) -> Result<PartInfo, PartError> {
    let info = judge(status, response, part)?;
    if first.etag.is_some() && info.etag != first.etag {
        return Err(PartError::Etag);
    }
    if info.size != first.size {
        return Err(PartError::Range(info.range));
    }
    Ok(info)
}
