//! Braces of regular expressions in words without quotes: `a{2}`, `a{1,3}`, `\\p{L}`.

/// Longest text between the braces that is examined, in bytes: `{1000,2000}`, `\\p{Old_North_Arabian}`.
const INNER_BYTES_MAX: usize = 32;

/// Returns the length of the braces at `at`, in a word that begins at `start`, when they are part of a
/// regular expression; `None` for the beginning of a block.
pub(super) fn length(text: &[u8], start: usize, at: usize) -> Option<usize> {
    let before = text.get(start..at)?;
    let rest = text.get(at + 1..)?;
    let rest = &rest[..rest.len().min(INNER_BYTES_MAX + 1)];
    let inner = &rest[..rest.iter().position(|byte| *byte == b'}')?];
    let named = [b"\\p", b"\\P", b"\\x"].iter().any(|escape| before.ends_with(*escape));
    let fits = if named { is_name(inner) } else { is_count(inner) };
    (fits && !before.is_empty()).then_some(inner.len() + 2)
}

/// Returns whether it is `2`, `2,`, `2,3`, or `,3` of newer PCRE.
fn is_count(inner: &[u8]) -> bool {
    let commas = inner.iter().filter(|byte| **byte == b',').count();
    let digits = inner.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits > 0 && commas <= 1 && digits + commas == inner.len()
}

fn is_name(inner: &[u8]) -> bool {
    !inner.is_empty()
        && inner.iter().all(|byte| byte.is_ascii_alphanumeric() || b"^_&".contains(byte))
}

#[cfg(test)]
mod tests;
