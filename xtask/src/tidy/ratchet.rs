//! `xtask/ratchet.toml`: files and functions that are longer than the limit, with their size.
//!
//! An entry may only shrink. One that grew fails, one that shrank fails until it is lowered, and
//! one that is no longer needed fails until it is removed: so the list only gets shorter
//! without a reminder.

use std::collections::BTreeMap;

use super::Violation;

/// Path of the list, from the repository's root.
pub(super) const PATH: &str = "xtask/ratchet.toml";

const HEADER: &str = "\
# Files and functions over the limit, with their present number of lines.
# Entries only shrink: `cargo xtask tidy --update-ratchet` lowers and removes them.
";

/// Sizes by key: a file's path, or `path::function`.
pub(super) type Sizes = BTreeMap<String, usize>;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ratchet {
    pub files: Sizes,
    pub functions: Sizes,
}

impl Ratchet {
    /// Parses the subset of TOML that `render` writes.
    pub(super) fn parse(text: &str) -> Result<Ratchet, String> {
        let mut ratchet = Ratchet::default();
        let mut section = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            match line {
                "" => {}
                _ if line.starts_with('#') => {}
                "[files]" => section = Some(&mut ratchet.files),
                "[functions]" => section = Some(&mut ratchet.functions),
                _ => {
                    let entry = parse_entry(line);
                    let (Some((key, size)), Some(sizes)) = (entry, section.as_mut()) else {
                        return Err(format!("{PATH}:{}: cannot read `{line}`", index + 1));
                    };
                    sizes.insert(key, size);
                }
            }
        }
        Ok(ratchet)
    }

    pub(super) fn render(&self) -> String {
        let mut text = HEADER.to_owned();
        for (section, sizes) in [("files", &self.files), ("functions", &self.functions)] {
            text.push_str(&format!("\n[{section}]\n"));
            for (key, size) in sizes {
                text.push_str(&format!("\"{key}\" = {size}\n"));
            }
        }
        text
    }

    /// Returns the updated list. Without `add`, entries are only lowered or removed.
    pub(super) fn updated(&self, now: &Ratchet, add: bool) -> Ratchet {
        Ratchet {
            files: updated(&self.files, &now.files, add),
            functions: updated(&self.functions, &now.functions, add),
        }
    }
}

/// Compares the sizes over the limit with the list.
pub(super) fn compare(
    what: &str,
    limit: impl Fn(&str) -> usize,
    listed: &Sizes,
    now: &Sizes,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (key, &size) in now {
        let place = place_of(key);
        match listed.get(key) {
            None => violations.push(Violation::new(
                place,
                0,
                format!("{what} `{key}` has {size} lines, at most {} are allowed", limit(key)),
            )),
            Some(&allowed) if size > allowed => violations.push(Violation::new(
                place,
                0,
                format!("{what} `{key}` grew from {allowed} to {size} lines; it may only shrink"),
            )),
            Some(&allowed) if size < allowed => violations.push(Violation::new(
                PATH,
                0,
                format!(
                    "{what} `{key}` shrank from {allowed} to {size} lines: \
                     run `cargo xtask tidy --update-ratchet`"
                ),
            )),
            Some(_) => {}
        }
    }
    for key in listed.keys().filter(|key| !now.contains_key(*key)) {
        violations.push(Violation::new(
            PATH,
            0,
            format!(
                "the entry `{key}` is no longer needed: run `cargo xtask tidy --update-ratchet`"
            ),
        ));
    }
    violations
}

fn place_of(key: &str) -> &str {
    key.split("::").next().unwrap_or(key)
}

fn parse_entry(line: &str) -> Option<(String, usize)> {
    let (key, size) = line.split_once(" = ")?;
    let key = key.strip_prefix('"')?.strip_suffix('"')?;
    Some((key.to_owned(), size.parse().ok()?))
}

fn updated(listed: &Sizes, now: &Sizes, add: bool) -> Sizes {
    let mut sizes = Sizes::new();
    for (key, &size) in now {
        match listed.get(key) {
            Some(&allowed) if !add => sizes.insert(key.clone(), size.min(allowed)),
            None if !add => None,
            _ => sizes.insert(key.clone(), size),
        };
    }
    sizes
}
