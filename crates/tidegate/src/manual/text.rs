//! The manual in a terminal.

use std::fmt::Write as _;

use tidegate_conf::closest;

use super::entry::{Entry, Origin};

/// Columns of a terminal's line.
const WIDTH: usize = 80;

/// `tidegate help`: how to ask, and all names.
pub(super) fn overview(entries: &[Entry]) -> String {
    let mut text = String::from(
        "\
usage: tidegate help DIRECTIVE...

Prints what directives do, where they may stand, and how they differ from nginx.
`tidegate -h` lists the options of the command line. The directives are:

",
    );
    let mut names: Vec<_> = entries.iter().map(Entry::name).collect();
    names.dedup();
    text.push_str(&wrapped(&names.join(" "), "  "));
    text
}

/// Entries of one name, one behind the other.
pub(super) fn entries(found: &[&Entry]) -> String {
    found.iter().map(|found| entry(found)).collect::<Vec<_>>().join("\n")
}

fn entry(entry: &Entry) -> String {
    let row = &entry.row;
    let mut text = format!("{}\n\n", row.name);
    text.push_str(&wrapped(row.doc, "  "));
    if entry.notes.without_effect {
        text.push_str("\n  A valid value is accepted and has no effect.\n");
    }
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<10}{value}");
    };
    line("", "");
    line("contexts", &row.contexts.describe());
    line("takes", &format!("{}{}", row.arity.describe(), entry.ending()));
    line("default", entry.default());
    let of = match entry.origin {
        Origin::Nginx(_) => format!("nginx ({})", entry.provenance()),
        Origin::Plus | Origin::Own => entry.provenance().to_owned(),
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
    while text.contains(" \n") {
        text = text.replace(" \n", "\n");
    }
    text
}

/// What is said of a name that no module has.
pub(super) fn unknown(name: &str, entries: &[Entry]) -> String {
    let suggestion = closest(name, entries.iter().map(Entry::name));
    match suggestion {
        Some(meant) => format!("tidegate: no directive \"{name}\"; did you mean \"{meant}\"?"),
        None => format!("tidegate: no directive \"{name}\"; `tidegate help` lists them"),
    }
}

/// Text in lines of at most [`WIDTH`] columns, each behind `indent`.
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
