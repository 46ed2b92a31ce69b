//! The header fields of WebDAV (RFC 4918 section 10).

use tidegate_codec::{Known, uri};
use tidegate_core::Exchange;

/// The `Depth` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
}

/// Parses `Depth`; infinity if there is no field, `None` if its value is invalid.
pub(super) fn depth(field: Option<&[u8]>) -> Option<Depth> {
    match field {
        None => Some(Depth::Infinity),
        Some(b"0") => Some(Depth::Zero),
        Some(b"1") => Some(Depth::One),
        Some(text) => text.eq_ignore_ascii_case(b"infinity").then_some(Depth::Infinity),
    }
}

/// Parses `Overwrite`; true if there is no field, `None` if its value is neither T nor F.
pub(super) fn overwrite(field: Option<&[u8]>) -> Option<bool> {
    match field {
        None | Some(b"T" | b"t") => Some(true),
        Some(b"F" | b"f") => Some(false),
        Some(_) => None,
    }
}

/// The parsed `Destination`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A decoded path of this server.
    Path(Vec<u8>),
    Missing,
    Invalid,
}

/// Parses the `Destination` of a request.
pub(super) fn destination(x: &Exchange) -> Destination {
    match x.request.header(Known::Destination) {
        None => Destination::Missing,
        Some(field) => match destination_path(field, x.host()) {
            Some(path) => Destination::Path(path),
            None => Destination::Invalid,
        },
    }
}

/// Returns the decoded path of a `Destination` on `host`. Ports are not compared, and either scheme is accepted: a
/// server behind a proxy cannot know the client's.
pub(super) fn destination_path(field: &[u8], host: &[u8]) -> Option<Vec<u8>> {
    let target = match field.first()? {
        b'/' => field,
        _ => {
            let rest = ["http://", "https://"].iter().find_map(|scheme| {
                let (start, rest) = field.split_at_checked(scheme.len())?;
                start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
            })?;
            let slash = rest.iter().position(|byte| *byte == b'/')?;
            let (authority, target) = rest.split_at(slash);
            let (name, _) = tidegate_codec::request::parse_authority(authority)?;
            if !name.as_bytes().eq_ignore_ascii_case(host) {
                return None;
            }
            target
        }
    };
    let mut decoded = Vec::new();
    let parsed = uri::normalise(target, true, &mut decoded).ok()?;
    let path = parsed.path(target, &decoded);
    (path.starts_with(b"/") && !path.contains(&0)).then(|| path.to_vec())
}
