//! The stored responses that an unsafe request invalidates (RFC 9111 section 4.4).

use crate::connection::trim;
use crate::headers::{Headers, Known};
use crate::request::Method;

/// Returns whether a method may change its target. An unknown method may.
pub fn is_unsafe(method: Method) -> bool {
    !matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Trace | Method::Propfind
    )
}

/// Returns whether a response is a success (2xx or 3xx), so that the request may have changed its target.
pub fn succeeded(status: u16) -> bool {
    (200..400).contains(&status)
}

/// The target URI of a request, as the client has it.
#[derive(Clone, Copy, Debug)]
pub struct TargetUri<'a> {
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// The value of the `Host` field, with a port if there is one.
    pub authority: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
}

/// Returns the paths, with queries, that `Location` and `Content-Location` name of the same origin. URIs of
/// other origins are left out: a response may not invalidate those.
pub fn related(place: TargetUri<'_>, response: &Headers) -> Vec<Vec<u8>> {
    let locations = response.first(Known::Location).into_iter();
    let locations = locations.chain(response.first_named(b"Content-Location"));
    let mut targets: Vec<Vec<u8>> = locations.filter_map(|field| resolve(place, field)).collect();
    targets.dedup();
    targets.retain(|target| target != place.target);
    targets
}

/// Resolves a reference against a target URI (RFC 3986 section 5.2); returns `None` for another origin.
fn resolve(place: TargetUri<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    let reference = trim(reference).split(|byte| *byte == b'#').next().unwrap_or_default();
    let own_path = place.target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (base, path): (&[u8], &[u8]) = match scheme_end(reference) {
        Some(end) if reference[..end].eq_ignore_ascii_case(place.scheme) => {
            (b"/", own_authority(place, reference.get(end + 1..)?)?)
        }
        Some(_) => return None,
        None if reference.starts_with(b"//") => (b"/", own_authority(place, reference)?),
        None if own_path.starts_with(b"/") => (own_path, reference),
        None => (b"/", reference),
    };
    let directory = base.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    Some(match path.first() {
        // The target itself, or the root of its authority.
        None if path.len() == reference.len() => place.target.to_vec(),
        None => base.to_vec(),
        Some(b'/') => without_dots(path),
        Some(b'?') => [base, path].concat(),
        Some(_) => without_dots(&[&base[..directory], path].concat()),
    })
}

/// Returns the end of a scheme, the position of its colon.
fn scheme_end(reference: &[u8]) -> Option<usize> {
    let end = reference.iter().position(|byte| b":/?".contains(byte))?;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    (reference[end] == b':' && end > 0 && reference[..end].iter().all(is_scheme)).then_some(end)
}

/// Returns the rest behind `//authority`, when the authority is the one of `place`.
fn own_authority<'r>(place: TargetUri<'_>, rest: &'r [u8]) -> Option<&'r [u8]> {
    let rest = rest.strip_prefix(b"//")?;
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let default: &[u8] = if place.scheme == b"https" { b":443" } else { b":80" };
    let bare = |authority: &'_ [u8]| -> Vec<u8> {
        authority.strip_suffix(default).unwrap_or(authority).to_ascii_lowercase()
    };
    (bare(&rest[..end]) == bare(place.authority)).then_some(&rest[end..])
}

/// Returns a path without `.` and `..` segments (RFC 3986 section 5.2.4); the query is unchanged.
fn without_dots(target: &[u8]) -> Vec<u8> {
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_in_directory = false;
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        ends_in_directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut out = Vec::with_capacity(target.len());
    for segment in &segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if ends_in_directory || out.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(query);
    out
}
