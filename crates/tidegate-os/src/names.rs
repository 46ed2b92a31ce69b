//! Which names of files are unambiguous: the rules of Windows, where one file has many names.
//!
//! A location is chosen by the name in the request, so a file may be served only under its own name. Two checks ensure
//! that. Before a file is opened, [`check`] refuses names that the system would read as another name or as no file at
//! all. After that [`is_own`] compares the name that the system reports for the open file with the requested one, which
//! finds short names (with a tilde or without), other cases, links, and any other alias. All functions are pure, so
//! they are tested and fuzzed on every system.
//!
//! Paths are bytes with `/` between names. `from` is the length of the path's start that the configuration wrote: an
//! administrator may spell a directory in any way.

mod fuzz;

pub use fuzz::fuzz_names;

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Not of the form `C:/…`: relative to a directory or drive, of another machine (`//server/share`), or exempt from
    /// the rules (`//?/C:/…`).
    Prefix,
    /// Not UTF-8.
    Encoding,
    /// A name longer than a file system allows, or a path longer than the system takes.
    Length,
    /// `.` or `..`.
    Dots,
    /// An empty name between two slashes.
    Empty,
    /// A stream of a file (`file::$DATA`), or a drive.
    Stream,
    /// A control character or one of `< > " | ? * \`.
    Character,
    /// A dot or space at the end, which the system drops.
    End,
    /// A device: `CON`, `nul.txt`.
    Device,
}

/// Longest name in UTF-16 units (NTFS, and all other file systems of Windows).
const NAME_UNITS_MAX: usize = 255;
/// Longest path in bytes. Windows takes 32767 UTF-16 units, of which a prefix may be added.
pub const PATH_BYTES_MAX: usize = 32_000;

/// Checks that the names in a path from byte `from` on can be files' own names.
///
/// # Errors
/// The first reason against it.
pub fn check(path: &[u8], from: usize) -> Result<(), Refusal> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Refusal::Length);
    }
    let mut rest = requested_part(path, from);
    if rest.len() == path.len() {
        rest = drive_path(path).ok_or(Refusal::Prefix)?;
    }
    let rest = std::str::from_utf8(rest).map_err(|_| Refusal::Encoding)?;
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    if rest.starts_with('/') || rest.contains("//") {
        return Err(Refusal::Empty);
    }
    rest.split('/').filter(|name| !name.is_empty()).try_for_each(check_name)
}

/// Returns the part of a path that the configuration did not write. It begins with a whole name: where the
/// configuration ends within a name, that whole name is checked.
fn requested_part(path: &[u8], from: usize) -> &[u8] {
    let trusted = path.get(..from).unwrap_or_default();
    let rest = path.get(trusted.len()..).unwrap_or_default();
    if trusted.is_empty() || rest.is_empty() || rest.starts_with(b"/") {
        return rest;
    }
    match trusted.iter().rposition(|byte| matches!(byte, b'/' | b'\\')) {
        Some(slash) => path.get(slash + 1..).unwrap_or_default(),
        None => path,
    }
}

/// Returns the part after `C:` in `C:/…`.
fn drive_path(path: &[u8]) -> Option<&[u8]> {
    match path {
        [letter, b':', rest @ ..] if letter.is_ascii_alphabetic() && rest.starts_with(b"/") => {
            Some(rest)
        }
        _ => None,
    }
}

/// Whether a path is `C:/…` or `C:\…`.
pub fn is_drive_path(path: &[u8]) -> bool {
    matches!(path, [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
}

/// Checks that one name can be a file's own.
///
/// # Errors
/// The first reason against it.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    if name == "." || name == ".." {
        return Err(Refusal::Dots);
    }
    if name.contains(':') {
        return Err(Refusal::Stream);
    }
    let forbidden = |c: char| c < ' ' || matches!(c, '<' | '>' | '"' | '|' | '?' | '*' | '\\');
    if name.contains(forbidden) {
        return Err(Refusal::Character);
    }
    if name.ends_with(['.', ' ']) {
        return Err(Refusal::End);
    }
    if is_device(name) {
        return Err(Refusal::Device);
    }
    // Each unit of UTF-16 takes at least one byte of UTF-8.
    if name.len() > NAME_UNITS_MAX && name.encode_utf16().count() > NAME_UNITS_MAX {
        return Err(Refusal::Length);
    }
    Ok(())
}

/// Whether the system may treat a name as a device, in any directory and with any extension.
fn is_device(name: &str) -> bool {
    let base = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    if DEVICES.iter().any(|device| base.eq_ignore_ascii_case(device)) {
        return true;
    }
    let Some((kind, number)) = base.split_at_checked(3) else { return false };
    let mut number = number.chars();
    let port = number.next().is_some_and(|c| matches!(c, '0'..='9' | '¹' | '²' | '³'));
    port && number.next().is_none()
        && (kind.eq_ignore_ascii_case("com") || kind.eq_ignore_ascii_case("lpt"))
}

const DEVICES: &[&str] = &["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"];

/// Whether the requested path is the own name of the opened file, from byte `from` on: the same names in the same
/// spelling. `found` is the name reported by the system (`\\?\C:\www\file`); without a `from` it must be the whole
/// path, whose drive letter may have any case.
pub fn is_own(path: &[u8], from: usize, found: &str) -> bool {
    let rest = requested_part(path, from);
    let mut found = found.trim_end_matches('\\').split('\\').rev();
    let names = rest.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    if rest.len() < path.len() {
        return names.rev().all(|name| found.next().is_some_and(|own| own.as_bytes() == name));
    }
    let mut names = names.rev().peekable();
    while let Some(name) = names.next() {
        let Some(own) = found.next() else { return false };
        let same = match names.peek() {
            Some(_) => own.as_bytes() == name,
            None => own.as_bytes().eq_ignore_ascii_case(name) && name.ends_with(b":"),
        };
        if !same {
            return false;
        }
    }
    // The part before the drive.
    found.eq(["?", "", ""])
}

/// Returns the last name of a path that the system reported.
pub fn last_name(found: &str) -> &str {
    found.trim_end_matches('\\').rsplit('\\').next().unwrap_or_default()
}

/// Returns the ends of all names of a path from byte `from` on: `path[..end]` is one prefix after the other.
pub fn steps(path: &[u8], from: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
    // No step ends at a drive: it is the start of the path.
    let drive = if is_drive_path(path) { "C:".len() } else { 0 };
    let mut position = (path.len() - requested_part(path, from).len()).max(drive);
    std::iter::from_fn(move || {
        let rest = path.get(position..)?;
        let skipped = rest.iter().position(|byte| *byte != b'/')?;
        let begin = position + skipped;
        let length = path.get(begin..)?.iter().position(|byte| *byte == b'/');
        let end = length.map_or(path.len(), |length| begin + length);
        position = end;
        Some((path.get(..end)?, path.get(begin..end)?))
    })
}

#[cfg(test)]
mod tests;
