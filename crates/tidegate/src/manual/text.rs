//! The manual in a terminal.

use std::fmt::Write as _;
use std::{error, fmt};

use tidegate_conf::closest;

use super::entry::{DirectiveOrigin, Entry};
use super::variables::VariableEntry;

/// No module has the requested name; the message may suggest a similar one.
#[derive(Debug)]
pub(super) struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for UnknownName {}

/// Columns of a terminal's line.
const WIDTH: usize = 80;

/// Returns the text of `tidegate help`: its usage, and all names.
pub(super) fn overview(entries: &[Entry], variables: &[VariableEntry]) -> String {
    let mut text = String::from(
        "\
usage: tidegate help DIRECTIVE...
       tidegate help '$VARIABLE'...

Prints what directives do, where they may stand, and how they differ from nginx.
`tidegate -h` lists the options of the command line. The directives are:

",
    );
    let mut names: Vec<_> = entries.iter().map(Entry::name).collect();
    names.dedup();
    text.push_str(&wrapped(&names.join(" "), "  "));
    text.push_str("\nThe variables are:\n\n");
    let names: Vec<_> = variables.iter().map(|entry| entry.name.as_str()).collect();
    text.push_str(&wrapped(&names.join(" "), "  "));
    text
}

/// Returns all entries of a directive.
///
/// # Errors
/// No module has it; the message may suggest a similar name.
pub(super) fn directive(name: &str, entries: &[Entry]) -> Result<String, UnknownName> {
    let found: Vec<_> = entries.iter().filter(|entry| entry.name() == name).collect();
    if found.is_empty() {
        return Err(unknown("directive", name, entries.iter().map(Entry::name)));
    }
    Ok(found.into_iter().map(entry).collect::<Vec<_>>().join("\n"))
}

/// Returns the entry of a variable, whose name is given without `$`.
///
/// # Errors
/// No module has it; the message may suggest a similar name.
pub(super) fn variable(name: &str, variables: &[VariableEntry]) -> Result<String, UnknownName> {
    let plain = |entry: &VariableEntry| entry.name.trim_start_matches('$').to_owned();
    let of_prefix = |entry: &&VariableEntry| {
        plain(entry).strip_suffix("NAME").is_some_and(|prefix| name.starts_with(prefix))
    };
    let exact = variables.iter().find(|entry| plain(entry) == name);
    let Some(found) = exact.or_else(|| variables.iter().find(of_prefix)) else {
        let names: Vec<_> = variables.iter().map(plain).collect();
        return Err(unknown("variable", name, names.iter().map(String::as_str)));
    };
    let mut text = format!("{}\n\n{}\n", found.name, wrapped(found.doc, "  "));
    let _ = writeln!(text, "  {:<10}{}", "contexts", found.contexts());
    let _ = writeln!(text, "  {:<10}{}", "from", found.provenance());
    if found.can_be_set {
        text.push_str("\n  `set`, `map` and the like may give it another value.\n");
    }
    Ok(text)
}

fn entry(entry: &Entry) -> String {
    let row = &entry.row;
    let mut text = format!("{}\n\n", row.name);
    text.push_str(&wrapped(row.doc, "  "));
    if !row.has_effect {
        let _ = write!(text, "\n  {}\n", entry.effect());
    }
    text.push('\n');
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<10}{value}");
    };
    line("contexts", &row.contexts.describe());
    line("takes", &format!("{}{}", row.arity.describe(), entry.ending()));
    line("default", entry.default());
    let of = match entry.origin {
        DirectiveOrigin::Nginx(_) => format!("nginx ({})", entry.provenance()),
        _ => entry.provenance().to_owned(),
    };
    line("from", &of);
    if let Some(example) = entry.notes.example {
        line("example", example);
    }
    if !entry.notes.differences.is_empty() {
        text.push_str("\n  Differences from nginx:\n");
    }
    for difference in &entry.notes.differences {
        let paragraph = wrapped(difference, "    ");
        text.push_str("  - ");
        text.push_str(paragraph.trim_start());
    }
    text
}

/// Makes the error for a name that no module has.
fn unknown<'a>(kind: &str, name: &str, names: impl Iterator<Item = &'a str>) -> UnknownName {
    UnknownName(match closest(name, names) {
        Some(meant) => format!("no {kind} \"{name}\"; did you mean \"{meant}\"?"),
        None => format!("no {kind} \"{name}\"; `tidegate help` lists them"),
    })
}

/// Wraps text into lines of at most [`WIDTH`] columns, each with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(lines, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(lines, "{indent}{line}");
    lines
}
