//! Conditional requests: 304, 412 or the response itself (RFC 9110 section 13; directive
//! `if_modified_since`).

#[cfg(test)]
mod tests;

use crate::connection::trim;
use crate::date::parse_http;
use crate::headers::{Headers, Known};

/// The directive `if_modified_since`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// The field is ignored: the response is always sent.
    Off,
    /// 304 when the dates are equal.
    #[default]
    Exact,
    /// 304 when the response was modified at or before the field's date.
    Before,
    /// The same, and each date counts only without the entity tag beside it. This is not a value of the
    /// directive, but the order of RFC 9110 section 13.2.2.
    Rfc9110,
}

/// The result of the preconditions of a request whose response would be 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The response is sent as it is.
    Proceed,
    /// The response is 304.
    NotModified,
    /// The response is 412.
    Failed,
}

/// Evaluates the preconditions of a request against a response's validators.
///
/// `last_modified` is Unix seconds. In nginx's order (unless `mode` is another one): `If-Unmodified-Since`
/// and `If-Match` may fail the request; then `If-Modified-Since` and `If-None-Match` give 304 only if each of
/// them that is present permits it.
pub fn evaluate(
    request: &Headers,
    etag: Option<&[u8]>,
    last_modified: Option<i64>,
    mode: IfModifiedSince,
) -> Condition {
    let by_tags = |tags: Known| mode == IfModifiedSince::Rfc9110 && request.contains(tags);
    if let Some(field) = request.first(Known::IfUnmodifiedSince)
        && !by_tags(Known::IfMatch)
        && !unmodified_since(field, last_modified)
    {
        return Condition::Failed;
    }
    if let Some(field) = request.first(Known::IfMatch)
        && !matches_any(field, etag, Comparison::Strong)
    {
        return Condition::Failed;
    }
    let since = request.first(Known::IfModifiedSince);
    let none_match = request.first(Known::IfNoneMatch);
    if since.is_none() && none_match.is_none() {
        return Condition::Proceed;
    }
    if let Some(field) = since
        && !by_tags(Known::IfNoneMatch)
        && modified_since(field, last_modified, mode)
    {
        return Condition::Proceed;
    }
    if let Some(field) = none_match
        && !matches_any(field, etag, Comparison::Weak)
    {
        return Condition::Proceed;
    }
    Condition::NotModified
}

/// The comparison of entity tags (RFC 9110 section 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both must be strong and equal.
    Strong,
    /// The opaque parts must be equal.
    Weak,
}

/// Returns whether a list of entity tags, or `*`, contains this one.
pub fn matches_any(list: &[u8], etag: Option<&[u8]>, comparison: Comparison) -> bool {
    let list = trim(list);
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    let etag = match (comparison, etag.strip_prefix(b"W/")) {
        (Comparison::Strong, Some(_)) => return false,
        (_, opaque) => opaque.unwrap_or(etag),
    };
    let mut rest = list;
    loop {
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
        let (weak, tag) = match rest.strip_prefix(b"W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let Some(len) = tag_len(tag) else { return false };
        if &tag[..len] == etag && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = &tag[len..];
    }
}

/// Returns the length of the item at the start: quoted (with commas inside), or up to a comma.
fn tag_len(text: &[u8]) -> Option<usize> {
    let len = match text.first()? {
        b'"' => memchr::memchr(b'"', &text[1..])? + 2,
        _ => text.iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(text.len()),
    };
    Some(len)
}

fn unmodified_since(field: &[u8], last_modified: Option<i64>) -> bool {
    // A date that cannot be read is no condition (RFC 9110 section 13.1.4); neither is one for a response
    // that has no date.
    match (parse_http(field), last_modified) {
        (Some(date), Some(modified)) => modified <= date,
        _ => true,
    }
}

fn modified_since(field: &[u8], last_modified: Option<i64>, mode: IfModifiedSince) -> bool {
    let (Some(date), Some(modified)) = (parse_http(field), last_modified) else { return true };
    match mode {
        IfModifiedSince::Off => true,
        IfModifiedSince::Exact => date != modified,
        IfModifiedSince::Before | IfModifiedSince::Rfc9110 => modified > date,
    }
}

/// Appends a file's entity tag in nginx's format: `"mtime-size"` in hexadecimal.
pub fn write_etag(modified_seconds: i64, size: u64, out: &mut Vec<u8>) {
    out.push(b'"');
    write_hex(modified_seconds as u64, out);
    out.push(b'-');
    write_hex(size, out);
    out.push(b'"');
}

fn write_hex(number: u64, out: &mut Vec<u8>) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(number >> (digit * 4) & 15) as usize]);
    }
}
