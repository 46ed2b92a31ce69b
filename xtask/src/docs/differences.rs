//! The rows of `docs/differences.md` by the directives that they name.

use std::collections::BTreeSet;

use super::{Scope, Subject};

/// Returns directives with their differences.
pub(super) fn collect(page: &str, names: &BTreeSet<String>) -> Vec<(Subject, String)> {
    let mut found = Vec::new();
    let mut scopes: &[Scope] = &[];
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            scopes = scopes_of(title);
        }
        let Some((subject, text)) = row(line) else { continue };
        for name in codes(&subject).flat_map(|code| meant(code, names)) {
            found.extend(scopes.iter().map(|scope| ((name.clone(), *scope), text.clone())));
        }
    }
    found
}

/// Returns the scopes of a section's directives.
fn scopes_of(title: &str) -> &'static [Scope] {
    match title {
        "Sessions (`stream`)" => &[Scope::Stream],
        "Processes" | "TLS" | "Windows" => &[Scope::Http, Scope::Stream],
        _ => &[Scope::Http],
    }
}

/// Returns the subject of a row, and the row as text.
fn row(line: &str) -> Option<(String, String)> {
    let cells: Vec<_> = cells(line);
    let [_, subject, nginx, tidegate, because, _] = &cells[..] else { return None };
    if nginx == "nginx" || subject.starts_with("---") {
        return None;
    }
    // Links are relative to the page, not to the place of this text.
    let text = format!("{subject}: nginx: {nginx}. Tidegate: {tidegate}. Reason: {because}.");
    Some((subject.clone(), without_links(&text)))
}

/// Returns the cells of a table's row; `\|` is not a border.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{1}");
    line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("](") {
        let Some(end) = rest[start..].find(')') else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + end + 1..];
    }
    out.push_str(rest);
    out.replace('[', "")
}

/// Returns the texts between backticks.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the directives that a code span names: by its first word, or with `*` for the beginning.
fn meant(code: &str, names: &BTreeSet<String>) -> Vec<String> {
    let word = code.split_whitespace().next().unwrap_or_default();
    match word.strip_prefix('*') {
        Some(ending) if ending.starts_with('_') => {
            names.iter().filter(|name| name.ends_with(ending)).cloned().collect()
        }
        _ => names.get(word).into_iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::collect;
    use crate::docs::Scope;

    #[test]
    fn a_row_belongs_to_the_directives_that_its_first_cell_names() {
        let page = "## Sessions (`stream`)\n\n| | nginx | Tidegate | because |\n|---|---|---|---|\n\
                    | `a 1`, `*_size` of `x\\|y` | takes `b` | [none](c.md) | why |\n";
        let names = ["a", "b", "a_size", "b_size"].map(str::to_owned).into();
        let found = collect(page, &names);
        let subjects: Vec<_> =
            found.iter().map(|((name, scope), _)| (name.as_str(), *scope)).collect();
        let stream = |name| (name, Scope::Stream);
        assert_eq!(subjects, [stream("a"), stream("a_size"), stream("b_size")]);
        let text = "`a 1`, `*_size` of `x|y`: nginx: takes `b`. Tidegate: none. Reason: why.";
        assert!(found.iter().all(|(_, found)| found == text), "{found:?}");
    }
}
