//! `cargo xtask tidy`: rules of the project that the compiler does not check.
//!
//! Each rule is a function from text to violations and has a sample that breaks it in `tests.rs`.
//! This file reads the repository, calls all rules, and prints the violations.

mod calls;
mod cases;
mod edges;
mod ratchet;
mod sizes;
mod source;
mod structure;
#[cfg(test)]
mod tests;
mod texts;
mod words;

use std::path::Path;
use std::process::Command;

use ratchet::Ratchet;
use source::Source;

/// One broken rule. Printed as `path:line: reason`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// From the repository's root.
    pub path: String,
    /// From 1; 0 for the whole file.
    pub line: usize,
    pub reason: String,
}

impl Violation {
    fn new(path: &str, line: usize, reason: String) -> Violation {
        Violation { path: path.to_owned(), line, reason }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line.max(1), self.reason)
    }
}

/// The command line's entry. `Ok(false)` when a rule is broken.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let asks = |option: &str| arguments.iter().any(|argument| argument == option);
    if let Some(unknown) = arguments
        .iter()
        .find(|argument| !["--update-ratchet", "--add"].contains(&argument.as_str()))
    {
        return Err(format!("tidy: unknown option {unknown}"));
    }
    if asks("--update-ratchet") {
        update_ratchet(root, asks("--add"))?;
    }
    let (shape, violations) = check(root)?;
    println!("{shape}");
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => println!("tidy: no violations"),
        count => println!("tidy: {count} broken rules"),
    }
    Ok(violations.is_empty())
}

/// The shape of the product as a table, and every rule over the whole repository, in order of path and line.
pub(crate) fn check(root: &Path) -> Result<(String, Vec<Violation>), String> {
    let files = read_texts(root)?;
    let sources: Vec<Source> = rust_sources(&files);
    let checkout = root.to_string_lossy();
    let mut violations = sizes::check(&sources, &read_ratchet(root)?);
    violations.extend(edges::check(&cargo_metadata(root)?, edges::TABLE)?);
    let (crates, booleans) = (structure::measure(&sources), structure::exchange_booleans(&sources));
    violations.extend(structure::check(&crates, booleans));
    for source in &sources {
        violations.extend(calls::check(source));
        violations.extend(cases::check_rust(source));
        violations.extend(texts::check_header(source));
        violations.extend(texts::check_module_file(source));
    }
    for (path, text) in &files {
        violations.extend(texts::check_machine_paths(path, text, &checkout));
        if path.starts_with("tests/cases/") && path.ends_with(".md") {
            violations.extend(cases::check_markdown(path, text));
        }
        // These name the words that are replaced.
        let names_them = path.starts_with("xtask/src/tidy/") || path == "docs/GLOSSARY.md";
        if (path.ends_with(".rs") || path.ends_with(".md")) && !names_them {
            violations.extend(words::check(path, text));
        }
        if words::WITH_PATHS.contains(&path.as_str()) {
            let exists = |place: &str| root.join(place).exists();
            violations.extend(words::check_paths(path, text, exists));
        }
        if path == "CHANGELOG.md" {
            violations.extend(texts::check_changelog(path, text));
        }
    }
    violations.extend(words::check_subjects(&subjects(root)?));
    violations.sort_by(|a, b| (&a.path, a.line, &a.reason).cmp(&(&b.path, b.line, &b.reason)));
    Ok((structure::table(&crates, booleans), violations))
}

/// Hash and subject of each commit since the rule about subjects.
fn subjects(root: &Path) -> Result<String, String> {
    let since = format!("--since={}", words::SUBJECTS_SINCE);
    output_of(Command::new("git").args(["log", "--format=%h %s", since.as_str()]).current_dir(root))
}

fn update_ratchet(root: &Path, add: bool) -> Result<(), String> {
    let now = sizes::oversized(&rust_sources(&read_texts(root)?));
    let updated = read_ratchet(root)?.updated(&now, add);
    std::fs::write(root.join(ratchet::PATH), updated.render())
        .map_err(|error| format!("{}: {error}", ratchet::PATH))
}

fn read_ratchet(root: &Path) -> Result<Ratchet, String> {
    let text = std::fs::read_to_string(root.join(ratchet::PATH))
        .map_err(|error| format!("{}: {error}", ratchet::PATH))?;
    Ratchet::parse(&text)
}

fn rust_sources(files: &[(String, String)]) -> Vec<Source> {
    files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(path, text)| Source::new(path, text))
        .collect()
}

/// Every text file of the repository that git tracks or would track, with its path from the root.
fn read_texts(root: &Path) -> Result<Vec<(String, String)>, String> {
    let listing = output_of(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // Seeds have arbitrary bytes; lock files are cargo's.
        if path.starts_with("fuzz/seeds/") || path.ends_with("Cargo.lock") {
            continue;
        }
        // A file that is deleted but not yet committed, or that is not text, is skipped.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            files.push((path.to_owned(), text));
        }
    }
    if files.is_empty() {
        return Err("tidy: git lists no files here".to_owned());
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn cargo_metadata(root: &Path) -> Result<String, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    output_of(
        Command::new(cargo)
            .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
            .current_dir(root),
    )
}

fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?}: {error}"))
}
