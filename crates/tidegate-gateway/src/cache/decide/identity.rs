//! Which bytes belong to one representation: what the parts of a response have in common, and whether a further
//! response is one of them.
//!
//! It takes a strong validator (RFC 9110 section 8.8.1), and every part has to bear the same one: rather a response
//! that is visibly broken than one that is patched together of two.

use std::fmt;

use tidegate_codec::range::ContentRange;
use tidegate_codec::{Headers, Known, date};

/// `Last-Modified` is a strong validator when the response was made so much later (RFC 9110 section
/// 8.8.2.2): a change within the same second would not show.
const SETTLED_SECONDS: i64 = 60;

/// What the parts of one representation have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `ETag` or `Last-Modified`.
    field: Known,
    validator: Vec<u8>,
    /// Length of the whole, once it is known.
    size: Option<u64>,
}

/// A part that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub skip: u64,
    pub end: Option<u64>,
}

/// Why an answer is not the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Status(u16),
    Validator,
    Encoding,
    Range,
    Length,
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Status(status) => write!(formatter, "status {status}"),
            Unfit::Validator => formatter.write_str("another or no validator"),
            Unfit::Encoding => formatter.write_str("an encoded body"),
            Unfit::Range => formatter.write_str("another or no \"Content-Range\""),
            Unfit::Length => formatter.write_str("another length"),
        }
    }
}

impl Identity {
    /// Of a whole response. `None` without a strong validator, for encoded bodies (whose bytes may
    /// differ each time they are made) and where the origin says that it has no ranges.
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

    /// What `If-Range` names.
    pub(crate) fn validator(&self) -> &[u8] {
        &self.validator
    }

    /// Length of the whole, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Whether an answer holds what is missing behind `at` bytes. `length` is that of its body as
    /// announced.
    ///
    /// A 206 has to begin where the bytes are missing and to name the size (RFC 9110 sections 14.4 and 15.3.7); a 200 is
    /// the whole once more, since the origin has no ranges, and what is known of it is skipped. Either way the validator
    /// and the size are those of the first response: the size, once it is known, never changes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge(
        &mut self,
        status: u16,
        headers: &Headers,
        length: Option<u64>,
        at: u64,
    ) -> Result<Part, Unfit> {
        if !matches!(status, 200 | 206) {
            return Err(Unfit::Status(status));
        }
        if headers.first(self.field) != Some(&self.validator) {
            return Err(Unfit::Validator);
        }
        if is_encoded(headers) {
            return Err(Unfit::Encoding);
        }
        if status == 200 {
            let fits = length.is_none_or(|length| match self.size {
                Some(size) => length == size,
                None => length >= at,
            });
            self.size = self.size.or(length).filter(|_| fits);
            return if fits { Ok(Part { skip: at, end: self.size }) } else { Err(Unfit::Length) };
        }
        let field = headers.first(Known::ContentRange).and_then(ContentRange::parse);
        let Some(ContentRange { range, size }) = field.filter(|field| field.range.start == at)
        else {
            return Err(Unfit::Range);
        };
        let size = match (self.size, size) {
            (Some(known), Some(told)) if known != told => return Err(Unfit::Length),
            (Some(known), _) if range.end > known => return Err(Unfit::Length),
            (Some(size), _) | (None, Some(size)) => size,
            // Nobody would know when it is whole.
            (None, None) => return Err(Unfit::Length),
        };
        if length.is_some_and(|length| length != range.len()) {
            return Err(Unfit::Length);
        }
        self.size = Some(size);
        Ok(Part { skip: 0, end: Some(range.end) })
    }
}

fn is_encoded(headers: &Headers) -> bool {
    headers.all(Known::ContentEncoding).any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// The field that tells one representation from every other. A date only where there is no entity tag
/// (RFC 9110 section 13.1.5).
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
