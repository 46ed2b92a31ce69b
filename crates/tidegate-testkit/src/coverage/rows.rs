//! The directives and variables that the server accepts, as its manual lists them (`tidegate help --pages`).

use crate::bell::Failure;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A directive's row. Some names have two: `proxy_pass` of `http` and of `stream`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    name: String,
    in_stream: bool,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = if self.in_stream { " (stream)" } else { "" };
        write!(f, "{}{context}", self.name)
    }
}

/// All rows.
#[derive(Debug, Default)]
pub struct Rows {
    pub(super) directives: BTreeSet<Name>,
    /// With `$`; a name that ends in `NAME` stands for all that begin so.
    pub(super) variables: BTreeSet<String>,
}

impl Rows {
    /// Asks the server for its manual.
    ///
    /// # Errors
    /// A program that cannot be run or that fails.
    pub fn of_program(program: &Path) -> Result<Self, Failure> {
        let failed = |text: String| Failure::new(format!("{} help: {text}", program.display()));
        let output = Command::new(program).args(["help", "--pages"]).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(output.status.to_string()));
        }
        Ok(Self::of_pages(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Reads the manual's pages: `=== FILE` begins one, ``## `NAME` `` a directive, ``| `$NAME` `` a variable.
    pub fn of_pages(text: &str) -> Self {
        let (mut rows, mut in_stream) = (Self::default(), false);
        for line in text.lines() {
            if let Some(page) = line.strip_prefix("=== ") {
                in_stream = page.starts_with("stream");
            } else if let Some(rest) = line.strip_prefix("## `")
                && let Some(name) = rest.strip_suffix('`')
            {
                rows.directives.insert(Name { name: name.to_owned(), in_stream });
            } else if let Some(rest) = line.strip_prefix("| `$")
                && let Some((name, _)) = rest.split_once('`')
            {
                rows.variables.insert(format!("${name}"));
            }
        }
        // One that only `stream` has needs no mark.
        let only_stream = |name: &Name| {
            name.in_stream && !rows.directives.contains(&Name { in_stream: false, ..name.clone() })
        };
        let marks: Vec<_> =
            rows.directives.iter().filter(|name| only_stream(name)).cloned().collect();
        for name in marks {
            rows.directives.remove(&name);
            rows.directives.insert(Name { in_stream: false, ..name });
        }
        rows
    }

    /// The row of a directive with this name, inside or outside of `stream`.
    pub(super) fn directive(&self, name: &str, in_stream: bool) -> Option<Name> {
        let row = |in_stream| {
            let row = Name { name: name.to_owned(), in_stream };
            self.directives.contains(&row).then_some(row)
        };
        if in_stream { row(true).or_else(|| row(false)) } else { row(false) }
    }

    /// The rows of the variables in a text: `$name` and `${name}`.
    pub(super) fn variables_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = String> + 'a {
        text.split('$').skip(1).filter_map(|rest| {
            let rest = rest.strip_prefix('{').unwrap_or(rest);
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = format!("${}", &rest[..end.unwrap_or(rest.len())]);
            if self.variables.contains(&name) {
                return Some(name);
            }
            let begins = |row: &&String| {
                row.strip_suffix("NAME").is_some_and(|prefix| name.starts_with(prefix))
            };
            self.variables.iter().find(begins).cloned()
        })
    }
}
