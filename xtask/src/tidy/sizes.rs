//! Limits of the length of files and functions, so that a function fits a screen and a file can be read at once.

use super::Violation;
use super::ratchet::{self, Ratchet};
use super::source::{Kind, Source, functions};

pub(super) const PRODUCT_FILE_LINES_MAX: usize = 500;
pub(super) const TEST_FILE_LINES_MAX: usize = 800;
pub(super) const FUNCTION_LINES_MAX: usize = 70;

/// Returns all files and functions over the limit, in the form of the ratchet file.
pub(super) fn oversized(sources: &[Source]) -> Ratchet {
    let mut now = Ratchet::default();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > file_limit(source.kind) {
            now.files.insert(source.path.clone(), lines);
        }
        for function in functions(&source.masked) {
            if function.lines > FUNCTION_LINES_MAX {
                let key = format!("{}::{}", source.path, function.name);
                let size = now.functions.entry(key).or_default();
                *size = function.lines.max(*size);
            }
        }
    }
    now
}

pub(super) fn check(sources: &[Source], listed: &Ratchet) -> Vec<Violation> {
    let now = oversized(sources);
    let limit_of_file = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        file_limit(source.map_or(Kind::Product, |source| source.kind))
    };
    let mut violations = ratchet::compare("file", limit_of_file, &listed.files, &now.files);
    let limit_of_function = |_: &str| FUNCTION_LINES_MAX;
    violations.extend(ratchet::compare(
        "function",
        limit_of_function,
        &listed.functions,
        &now.functions,
    ));
    for violation in &mut violations {
        violation.line = first_line(sources, violation).unwrap_or(0);
    }
    violations
}

fn file_limit(kind: Kind) -> usize {
    match kind {
        Kind::Product => PRODUCT_FILE_LINES_MAX,
        Kind::Test => TEST_FILE_LINES_MAX,
    }
}

/// Returns the first line of the function of a violation.
fn first_line(sources: &[Source], violation: &Violation) -> Option<usize> {
    let source = sources.iter().find(|source| source.path == violation.path)?;
    let name = violation.reason.split("::").nth(1)?.split('`').next()?;
    functions(&source.masked)
        .into_iter()
        .filter(|function| function.name == name)
        .max_by_key(|function| function.lines)
        .map(|function| function.line)
}
