//! Parses texts with variables, and the conditions of `if`.

use tidegate_core::template::is_name_byte;

/// A condition as written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    /// The text is not empty.
    Present(&'a [u8]),
    Equal {
        left: &'a [u8],
        right: &'a [u8],
        negated: bool,
    },
    /// The text matches the regular expression between the slashes.
    Match {
        left: &'a [u8],
        regex: &'a [u8],
        negated: bool,
    },
}

/// Parses a condition; `None` if it is invalid.
pub(super) fn condition(text: &[u8]) -> Option<Condition<'_>> {
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'=' | b'!')).unwrap_or(text.len());
    let (left, rest) = text.split_at(end);
    let rest = rest.trim_ascii_start();
    if rest.is_empty() {
        return (!left.is_empty() || text.is_empty()).then_some(Condition::Present(left));
    }
    if left.is_empty() {
        return None;
    }
    let (negated, right) = match rest {
        [b'=', right @ ..] => (false, right),
        [b'!', b'=', right @ ..] => (true, right),
        _ => return None,
    };
    match right.trim_ascii_start() {
        [b'/', regex @ .., b'/'] => Some(Condition::Match { left, regex, negated }),
        [b'/', ..] => None,
        right => Some(Condition::Equal { left, right, negated }),
    }
}

/// A dollar sign without the name of a variable behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameMissing;

impl std::fmt::Display for NameMissing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("invalid variable name")
    }
}

impl std::error::Error for NameMissing {}

/// Appends `text`, with each variable replaced by what `look_up` appends for its name. `\$` is a dollar sign. In an
/// expression (`lenient`) a dollar sign without a name is copied.
///
/// # Errors
/// A dollar sign has no name.
pub(super) fn expand(
    text: &[u8],
    lenient: bool,
    out: &mut Vec<u8>,
    mut look_up: impl FnMut(&[u8], &mut Vec<u8>),
) -> Result<(), NameMissing> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        rest = after;
        if let Some(before) = before.strip_suffix(b"\\") {
            out.extend_from_slice(before);
            // A regular expression keeps the backslash, which escapes the dollar sign.
            out.extend_from_slice(if lenient { b"\\$" } else { b"$" });
            continue;
        }
        out.extend_from_slice(before);
        let name = match after {
            [b'{', inner @ ..] => {
                let end = inner.iter().position(|byte| *byte == b'}');
                end.map(|end| (&inner[..end], &inner[end + 1..]))
            }
            [b'0'..=b'9', ..] => Some(after.split_at(1)),
            _ => {
                let end = after.iter().position(|byte| !is_name_byte(*byte));
                Some(after.split_at(end.unwrap_or(after.len())))
            }
        };
        match name.filter(|(name, _)| !name.is_empty() && name.iter().all(|b| is_name_byte(*b))) {
            Some((name, behind)) => {
                look_up(&name.to_ascii_lowercase(), out);
                rest = behind;
            }
            None if lenient => out.push(b'$'),
            None => return Err(NameMissing),
        }
    }
    out.extend_from_slice(rest);
    Ok(())
}
