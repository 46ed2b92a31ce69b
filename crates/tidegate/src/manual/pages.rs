//! The reference: a page in Markdown for each module, one with all names, one with the variables, one with the command
//! line, and those for `man`.

use std::fmt::Write as _;

use super::entry::{DirectiveOrigin, Entry};
use super::man;
use super::variables::VariableEntry;
use crate::version;

/// Marks the start of a page; the file's name follows.
const FILE: &str = "=== ";

/// Returns all pages, each after a line with its file's name.
pub(super) fn all(entries: &[Entry], variables: &[VariableEntry]) -> String {
    let mut text = index(entries);
    variables_page(&mut text, variables);
    command_line(&mut text);
    for module in tidegate_modules::MODULES {
        let own: Vec<_> = entries.iter().filter(|entry| entry.module == module.name()).collect();
        if !own.is_empty() {
            page(&mut text, module.name(), &own);
        }
    }
    text.push_str(&man::all(entries, variables, FILE));
    text
}

fn index(entries: &[Entry]) -> String {
    let count = |wanted: fn(&Entry) -> bool| {
        let mut names: Vec<_> =
            entries.iter().filter(|entry| wanted(entry)).map(Entry::name).collect();
        names.dedup();
        names.len()
    };
    let mut text = format!(
        "{FILE}README.md\n# Reference of directives\n\n\
         Written by `cargo xtask docs` from the rows that a configuration is checked against; `tidegate help NAME` \
         prints the same. [Variables](variables.md) and the [command line](command_line.md) have pages of their own.\n\n\
         {} directives are nginx's (version {}), {} are nginx Plus', {} are other modules', {} are \
         Tidegate's own.\n\n\
         | directive | contexts | default | from |\n|---|---|---|---|\n",
        count(|entry| matches!(entry.origin, DirectiveOrigin::Nginx(_))),
        version::NGINX,
        count(|entry| entry.origin == DirectiveOrigin::Plus),
        count(|entry| matches!(entry.origin, DirectiveOrigin::Other(_))),
        count(|entry| entry.origin == DirectiveOrigin::Own),
    );
    for entry in entries {
        let (name, module) = (entry.name(), entry.module);
        let _ = writeln!(
            text,
            "| [`{name}`]({module}.md#{}) | {} | {} | {} |",
            anchor(name),
            entry.row.contexts.describe(),
            cell(entry.default()),
            entry.provenance(),
        );
    }
    text
}

fn page(text: &mut String, module: &str, entries: &[&Entry]) {
    let _ = writeln!(text, "{FILE}{module}.md\n# Module `{module}`");
    for entry in entries {
        let row = &entry.row;
        let _ = writeln!(text, "\n## `{}`\n\n{}\n", row.name, row.doc);
        if !row.has_effect {
            let _ = writeln!(text, "{}\n", entry.effect());
        }
        let _ = writeln!(text, "- contexts: {}", row.contexts.describe());
        let _ = writeln!(text, "- takes: {}{}", row.arity.describe(), entry.ending());
        let _ = writeln!(text, "- default: {}", cell(entry.default()));
        let _ = writeln!(text, "- from: {}", entry.provenance());
        if let Some(example) = entry.notes.example {
            let _ = writeln!(text, "- example: `{example}`");
        }
        if !entry.notes.differences.is_empty() {
            text.push_str("\nDifferences from nginx:\n\n");
        }
        for difference in &entry.notes.differences {
            let _ = writeln!(text, "- {difference}");
        }
    }
}

fn variables_page(text: &mut String, variables: &[VariableEntry]) {
    let _ = writeln!(
        text,
        "{FILE}variables.md\n# Variables\n\n`set`, `map` and the like may change the value of those marked *. Captures (`$1`, `$name`) and the variables that `map`, `geo`, `split_clients`, `geoip_country`, `geoip_city` and `geoip2` define are not listed.\n\n| variable | meaning | contexts | from |\n|---|---|---|---|"
    );
    for entry in variables {
        let mark = if entry.can_be_set { " *" } else { "" };
        let doc = entry.doc.replace('|', "\\|");
        let (contexts, from) = (entry.contexts(), entry.provenance());
        let _ = writeln!(text, "| `{}`{mark} | {doc} | {contexts} | {from} |", entry.name);
    }
}

fn command_line(text: &mut String) {
    let (synopsis, options) = version::usage();
    let synopsis = synopsis.join("\n");
    let _ = writeln!(
        text,
        "{FILE}command_line.md\n# Command line\n\n```text\n{synopsis}\n```\n\n| option or command | meaning |\n|---|---|"
    );
    for (option, meaning) in options {
        let _ = writeln!(text, "| `{option}` | {meaning} |");
    }
}

/// Formats a default as code, and `none` as a word.
fn cell(default: &str) -> String {
    match default {
        "none" => default.to_owned(),
        default => format!("`{}`", default.replace('|', "\\|")),
    }
}

/// Returns the link anchor of a heading in code.
fn anchor(name: &str) -> String {
    name.to_lowercase()
}
