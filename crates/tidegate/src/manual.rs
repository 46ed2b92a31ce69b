//! `tidegate help`: the manual of directives, made of the modules' own rows.
//!
//! `tidegate help NAME` prints one directive; the same entries in Markdown are the pages of `docs/reference`, which
//! `cargo xtask docs` writes. Meaning, contexts, number of arguments and default are those of the rows that the
//! configuration is checked against. What no row knows, an example and the differences from nginx, is collected
//! from the end-to-end cases and from `docs/differences.md` into `data/manual.tsv`.

mod entry;
mod notes;
mod pages;
#[cfg(test)]
mod tests;
mod text;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use entry::Entry;

/// First word of the command line.
pub(crate) const ARGUMENT: &str = "help";
/// Prints all pages of the reference, one behind the other.
const PAGES: &str = "--pages";

/// Prints what is asked for on the standard output; `arguments` are the words behind `help`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    if words.is_empty() {
        return print(&text::overview(&entry::all()));
    }
    if words.iter().any(|word| word == PAGES) {
        return print(&pages::all(&entry::all()));
    }
    let entries = entry::all();
    let mut code = ExitCode::SUCCESS;
    for word in &words {
        let found: Vec<&Entry> = entries.iter().filter(|entry| entry.name() == word).collect();
        if found.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", text::unknown(word, &entries));
            code = ExitCode::FAILURE;
        } else if print(&text::entries(&found)) != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
    }
    code
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
