//! Rules about text: each file states its purpose, no file has a path of a developer's machine,
//! and the changelog has one form.

use super::Violation;
use super::source::Source;

/// Kinds of change in the changelog.
const CHANGELOG_KINDS: &[&str] = &["Added", "Changed", "Fixed", "Removed", "Security"];
/// Areas below a kind of change, in their order.
const CHANGELOG_AREAS: &[&str] = &[
    "Configuration",
    "HTTP server",
    "Reverse proxy",
    "Cache",
    "Static files",
    "TLS",
    "stream",
    "Logs and figures",
    "Process and operation",
    "Extending",
    "Tests and tools",
];

/// Checks that a Rust file begins with a comment about its purpose.
pub(super) fn check_header(source: &Source) -> Option<Violation> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let says = first.strip_prefix("//!").is_some_and(|words| !words.trim().is_empty());
    let reason = "the file does not begin with a `//!` comment that says what it is for";
    (!says).then(|| Violation::new(&source.path, 1, reason.to_owned()))
}

/// Finds modules that are `x/mod.rs`: a module is `x.rs`, beside the directory of its parts, so that each file's name says
/// which one it is. The modules that several test programs share are left: Cargo takes `tests/x.rs` for a program.
pub(super) fn check_module_file(source: &Source) -> Option<Violation> {
    let directory = source.path.strip_suffix("/mod.rs").filter(|path| path.contains("/src/"))?;
    let reason = format!("a module is `x.rs` beside its directory: move it to `{directory}.rs`");
    Some(Violation::new(&source.path, 1, reason))
}

/// Finds absolute paths of a developer's machine: the checkout's own directory, or a home directory.
pub(super) fn check_machine_paths(path: &str, text: &str, checkout: &str) -> Vec<Violation> {
    // A checkout directly under the root (`/src`) is too common a word to search for.
    let checkout = (checkout.matches('/').count() >= 2).then_some(checkout);
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if checkout.is_some_and(|directory| names_directory(line, directory)) || names_home(line) {
            let reason = "an absolute path of a developer's machine".to_owned();
            violations.push(Violation::new(path, index + 1, reason));
        }
    }
    violations
}

/// `CHANGELOG.md`: `# Changelog`, `## Unreleased`, then `## 1.2.3 - 2026-01-31` newest first;
/// below each the kinds of change, below each kind areas in the order of [`CHANGELOG_AREAS`] and entries of
/// whole sentences.
pub(super) fn check_changelog(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut releases: Vec<[u64; 3]> = Vec::new();
    let mut headings = 0;
    // The place in CHANGELOG_AREAS from which the next area may be; `None` outside a kind of change.
    let mut next_area = None;
    let mut inside_entry = false;
    let mut refuse = |line: usize, reason: &str| {
        violations.push(Violation::new(path, line, reason.to_owned()));
    };
    if text.lines().next() != Some("# Changelog") {
        refuse(1, "the first line is `# Changelog`");
    }
    for (index, line) in text.lines().enumerate().skip(1) {
        let number = index + 1;
        let ends_here = entry_ends(text, index);
        if let Some(area) = line.strip_prefix("#### ") {
            inside_entry = false;
            match (next_area, CHANGELOG_AREAS.iter().position(|known| *known == area)) {
                (None, _) => refuse(number, "an area is below a kind of change"),
                (_, None) => {
                    refuse(number, "no area of `CHANGELOG_AREAS` (xtask/src/tidy/texts.rs)")
                }
                (Some(next), Some(found)) if found < next => {
                    refuse(number, "areas are in the order of `CHANGELOG_AREAS`, each once");
                }
                (_, Some(found)) => next_area = Some(found + 1),
            }
        } else if let Some(kind) = line.strip_prefix("### ") {
            inside_entry = false;
            next_area = Some(0);
            if !CHANGELOG_KINDS.contains(&kind) {
                refuse(number, "a kind of change is Added, Changed, Fixed, Removed or Security");
            }
        } else if let Some(title) = line.strip_prefix("## ") {
            inside_entry = false;
            next_area = None;
            headings += 1;
            match (headings, title, parse_release(title)) {
                (1, "Unreleased", _) => {}
                (1, ..) => refuse(number, "the first section is `## Unreleased`"),
                (_, _, None) => refuse(number, "a release is `## 1.2.3 - 2026-01-31`"),
                (_, _, Some(release)) => {
                    if releases.last().is_some_and(|newer| *newer <= release) {
                        refuse(number, "releases are listed newest first, each once");
                    }
                    releases.push(release);
                }
            }
        } else if line.starts_with("- ") || (inside_entry && line.starts_with("  ")) {
            inside_entry = true;
            if ends_here && !line.ends_with('.') {
                refuse(number, "an entry is a sentence and ends with a period");
            }
        } else if !line.is_empty() && headings > 0 {
            refuse(
                number,
                "below a heading there are only entries (`- `) and their indented lines",
            );
        }
    }
    if headings == 0 {
        refuse(1, "there is no `## Unreleased`");
    }
    violations
}

/// Whether the entry's last line is the one at `index`.
fn entry_ends(text: &str, index: usize) -> bool {
    !text.lines().nth(index + 1).is_some_and(|next| next.starts_with("  "))
}

fn parse_release(title: &str) -> Option<[u64; 3]> {
    let (version, date) = title.split_once(" - ")?;
    let date_is_whole = date.len() == 10
        && date.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let numbers: Vec<u64> = version.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    if date_is_whole { numbers.try_into().ok() } else { None }
}

/// `directory` as a whole path, or followed by more of a path.
fn names_directory(line: &str, directory: &str) -> bool {
    line.match_indices(directory).any(|(at, _)| {
        let after = line[at + directory.len()..].chars().next();
        !after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
    })
}

fn names_home(line: &str) -> bool {
    // Joined here, so that this file does not contain the searched text.
    let homes = [["/ho", "me/"].concat(), ["/Use", "rs/"].concat()];
    let in_home = homes.iter().any(|home| {
        line.match_indices(home.as_str()).any(|(at, _)| {
            begins_path(line, at)
                && line[at + home.len()..].starts_with(|c: char| c.is_ascii_alphabetic())
        })
    });
    let root_dot = ["/ro", "ot/."].concat();
    in_home || line.match_indices(root_dot.as_str()).any(|(at, _)| begins_path(line, at))
}

/// A path on a machine begins after a space, a quotation mark or the like, not within a URL.
fn begins_path(line: &str, at: usize) -> bool {
    line[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || "/._-$}".contains(c)))
}
