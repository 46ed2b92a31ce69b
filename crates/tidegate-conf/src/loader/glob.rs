//! A small `glob(3)`: `*`, `?` and `[...]` within path components, `\` before a literal character.

use std::io;
use std::path::{Path, PathBuf};

/// Returns whether nginx's `include` takes the path as a pattern.
pub(crate) fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Returns all existing paths that match `pattern`, sorted by bytes.
pub(super) fn expand(pattern: &str) -> io::Result<Vec<PathBuf>> {
    let (mut found, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (vec![PathBuf::from("/")], rest),
        None => (vec![PathBuf::new()], pattern),
    };
    for component in rest.split('/').filter(|component| !component.is_empty()) {
        let mut next = Vec::new();
        for directory in &found {
            step(directory, component, &mut next);
        }
        found = next;
    }
    found.sort_by(|left, right| {
        left.as_os_str().as_encoded_bytes().cmp(right.as_os_str().as_encoded_bytes())
    });
    Ok(found)
}

/// Adds the entries of `directory` that match one component. A directory that cannot be read has none, as in
/// `glob(3)` without `GLOB_ERR`.
fn step(directory: &Path, component: &str, found: &mut Vec<PathBuf>) {
    if !is_pattern(component.as_bytes()) {
        let path = directory.join(unescape(component));
        if path.symlink_metadata().is_ok() {
            found.push(path);
        }
        return;
    }
    let here = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let Ok(entries) = std::fs::read_dir(here) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches(component.as_bytes(), name.as_encoded_bytes()) {
            found.push(directory.join(name));
        }
    }
}

fn unescape(component: &str) -> String {
    let mut text = String::with_capacity(component.len());
    let mut characters = component.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next().unwrap_or('\\')),
            _ => text.push(character),
        }
    }
    text
}

/// Returns whether `name` (one path component) matches `pattern`. A leading dot is matched by a dot only.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') && !pattern.starts_with(b"\\.")
    {
        return false;
    }
    let (mut at_pattern, mut at_name) = (0, 0);
    // The position to continue from after a mismatch: the last `*` takes one byte more. Greedy matching needs
    // no deeper backtracking, hence the cost is at most pattern times name.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if let Some(b'*') = pattern.get(at_pattern) {
            retry = Some((at_pattern, at_name));
            at_pattern += 1;
            continue;
        }
        let Some(byte) = name.get(at_name) else {
            return at_pattern == pattern.len();
        };
        match one(&pattern[at_pattern..], *byte) {
            Some(width) => {
                at_pattern += width;
                at_name += 1;
            }
            None => {
                let Some((star, taken)) = retry else { return false };
                retry = Some((star, taken + 1));
                at_pattern = star + 1;
                at_name = taken + 1;
            }
        }
    }
}

/// Returns the length of the pattern element at the beginning of `pattern`, if it matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match bracket(pattern, byte) {
            Some((width, true)) => Some(width),
            Some((_, false)) => None,
            // Without a closing bracket the bracket is literal.
            None => (byte == b'[').then_some(1),
        },
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        plain => (plain == byte).then_some(1),
    }
}

/// Returns the length of the set `[...]` and whether it contains `byte`; `None` when it is not closed.
fn bracket(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    if negated {
        at += 1;
    }
    let first = at;
    let mut holds = false;
    loop {
        let mut low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((at + 1, holds != negated));
        }
        if low == b'\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        at += 1;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && !matches!(pattern.get(at + 1), None | Some(b']')) {
            high = pattern[at + 1];
            at += 2;
        }
        holds |= (low..=high).contains(&byte);
    }
}
