//! `tidegate help`: the manual of directives and variables, generated from the modules' own rows.
//!
//! `tidegate help NAME` prints one directive or variable; the same entries in Markdown are the pages of
//! `docs/reference`, which `cargo xtask docs` writes. Meaning, contexts, number of arguments and default are those of
//! the rows that the configuration is checked against. Examples and differences from nginx, which no row contains, are
//! collected from the end-to-end cases and from `docs/differences.md` into `data/manual.tsv`.

mod entry;
mod man;
mod notes;
mod pages;
#[cfg(test)]
mod tests;
mod text;
mod variables;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// First word of the command line.
pub(crate) const ARGUMENT: &str = "help";
/// The option that prints all pages of the reference, one after the other.
const PAGES: &str = "--pages";

/// Prints the requested entry on the standard output; `arguments` are the words after `help`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let (entries, variables) = (entry::all(), variables::all());
    if words.is_empty() {
        return print(&text::overview(&entries, &variables));
    }
    if words.iter().any(|word| word == PAGES) {
        return print(&pages::all(&entries, &variables));
    }
    let mut code = ExitCode::SUCCESS;
    for word in &words {
        let found = match word.strip_prefix('$') {
            Some(name) => text::variable(name, &variables),
            None => text::directive(word, &entries),
        };
        match found {
            Ok(text) if print(&text) == ExitCode::SUCCESS => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(message) => {
                let _ = writeln!(std::io::stderr(), "tidegate: {message}");
                code = ExitCode::FAILURE;
            }
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
