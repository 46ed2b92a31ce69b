//! The identity of a representation: the common properties of the parts of a response, and whether a further response
//! is one of them.
//!
//! It requires a strong validator (RFC 9110 section 8.8.1), and every part must carry the same one: a visibly broken
//! response is better than one assembled from two representations.

use std::fmt;

use tidegate_codec::range::ContentRange;
use tidegate_codec::{Headers, Known, date};

/// Seconds after which `Last-Modified` is a strong validator of the response (RFC 9110 section 8.8.2.2): a change
/// within the same second would not show.
const SETTLED_SECONDS: i64 = 60;

/// The common properties of the parts of one representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The field of the validator: `ETag` or `Last-Modified`.
    field: Known,
    validator: Vec<u8>,
    /// Length of the complete representation in bytes, once it is known.
    size: Option<u64>,
}

/// A part that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatchingPart {
    /// Number of known bytes at its start.
    pub skip: u64,
    /// Offset of its end in the complete body, if known.
    pub end: Option<u64>,
}

/// The reason why a response is not the missing part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartMismatch {
    Status(u16),
    Validator,
    Encoding,
    Range,
    Length,
}

impl fmt::Display for PartMismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartMismatch::Status(status) => write!(formatter, "status {status}"),
            PartMismatch::Validator => formatter.write_str("another or no validator"),
            PartMismatch::Encoding => formatter.write_str("an encoded body"),
            PartMismatch::Range => formatter.write_str("another or no \"Content-Range\""),
            PartMismatch::Length => formatter.write_str("another length"),
        }
    }
}

impl Identity {
    /// Returns the identity of a complete response. `None` without a strong validator, for encoded bodies (whose
    /// bytes may differ each time they are made) and where the origin declares that it has no ranges.
    pub(crate) fn of(status: u16, headers: &Headers, size: Option<u64>) -> Option<Identity> {
        let no_ranges = headers
            .first(Known::AcceptRanges)
            .is_some_and(|units| units.trim_ascii().eq_ignore_ascii_case(b"none"));
        if status != 200 || no_ranges || is_encoded(headers) {
            return None;
        }
        let (field, validator) = strong_validator(headers)?;
        Some(Identity { field, validator: validator.to_vec(), size })
    }

    /// Returns the validator for `If-Range`.
    pub(crate) fn validator(&self) -> &[u8] {
        &self.validator
    }

    /// Returns the length of the complete representation in bytes, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Checks whether a response holds the bytes that are missing behind `at`. `length` is the announced length of
    /// its body.
    ///
    /// A 206 must begin at the first missing byte and name the complete size (RFC 9110 sections 14.4 and 15.3.7). A
    /// 200 is the complete body again, since the origin supports no ranges, and the known bytes are skipped. Either
    /// way the validator and the size are those of the first response: the size, once it is known, never changes.
    ///
    /// # Errors
    /// The property that does not match.
    pub(crate) fn judge(
        &mut self,
        status: u16,
        headers: &Headers,
        length: Option<u64>,
        at: u64,
    ) -> Result<MatchingPart, PartMismatch> {
        if !matches!(status, 200 | 206) {
            return Err(PartMismatch::Status(status));
        }
        if headers.first(self.field) != Some(&self.validator) {
            return Err(PartMismatch::Validator);
        }
        if is_encoded(headers) {
            return Err(PartMismatch::Encoding);
        }
        // The complete body again: only its length has to match.
        if status == 200 {
            let fits = length.is_none_or(|length| match self.size {
                Some(size) => length == size,
                None => length >= at,
            });
            self.size = self.size.or(length).filter(|_| fits);
            return if fits {
                Ok(MatchingPart { skip: at, end: self.size })
            } else {
                Err(PartMismatch::Length)
            };
        }
        let field = headers.first(Known::ContentRange).and_then(ContentRange::parse);
        let Some(ContentRange { range, size }) = field.filter(|field| field.range.start == at)
        else {
            return Err(PartMismatch::Range);
        };
        let size = match (self.size, size) {
            (Some(known), Some(announced)) if known != announced => {
                return Err(PartMismatch::Length);
            }
            (Some(known), _) if range.end > known => return Err(PartMismatch::Length),
            (Some(size), _) | (None, Some(size)) => size,
            // Without a size the end of the body would be unknown.
            (None, None) => return Err(PartMismatch::Length),
        };
        if length.is_some_and(|length| length != range.len()) {
            return Err(PartMismatch::Length);
        }
        self.size = Some(size);
        Ok(MatchingPart { skip: 0, end: Some(range.end) })
    }
}

fn is_encoded(headers: &Headers) -> bool {
    headers.all(Known::ContentEncoding).any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Returns the field that tells one representation from every other: a date only where there is no entity tag (RFC
/// 9110 section 13.1.5).
fn strong_validator(headers: &Headers) -> Option<(Known, &[u8])> {
    if let Some(etag) = headers.first(Known::Etag) {
        let is_strong = etag.len() >= 2 && etag.starts_with(b"\"") && etag.ends_with(b"\"");
        return is_strong.then_some((Known::Etag, etag));
    }
    let text = headers.first(Known::LastModified)?;
    let modified = date::parse_http(text)?;
    let made = date::parse_http(headers.first(Known::Date)?)?;
    (made.checked_sub(modified)? >= SETTLED_SECONDS).then_some((Known::LastModified, text))
}
