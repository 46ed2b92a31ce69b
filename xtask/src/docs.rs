//! `docs/reference`: the manual's pages, written by the server itself from its rows.
//!
//! First `crates/tidegate/data/manual.tsv` is collected from other documents: examples from the end-to-end cases, and
//! differences from `docs/differences.md`. The program has that file built in, so it must be built again when the file
//! has changed.

mod differences;
mod examples;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::directives::read;

const NOTES: &str = "crates/tidegate/data/manual.tsv";
const PAGES: &str = "docs/reference";
/// Prefix of a page in the program's output.
const FILE: &str = "=== ";
const USAGE: &str = "usage: cargo xtask docs [--check] target/debug/tidegate";

/// The block of a directive's name: `stream` has many names of `http`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Http,
    Stream,
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Scope::Http => "http",
            Scope::Stream => "stream",
        }
    }
}

/// A directive's name and scope.
type Subject = (String, Scope);

/// Writes the notes and the pages, or with `--check` reports those that are out of date.
///
/// # Errors
/// No program, or a file that cannot be read or written.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let (check, program) = match arguments {
        [program] => (false, program),
        [check, program] if check == "--check" => (true, program),
        _ => return Err(USAGE.to_owned()),
    };
    let pages = pages(&root.join(program))?;
    let notes = notes(root, &pages)?;
    if is_stale(&root.join(NOTES), &notes) {
        if check {
            return Ok(complain(&[NOTES.to_owned()]));
        }
        write(&root.join(NOTES), &notes)?;
        println!("{NOTES} has changed: build the program, and run this once more");
        return Ok(true);
    }
    let directory = root.join(PAGES);
    if check {
        let stale = pages.iter().filter(|(name, text)| is_stale(&directory.join(name), text));
        let all: Vec<_> =
            stale.map(|(name, _)| name).cloned().chain(gone(&directory, &pages)).collect();
        return Ok(all.is_empty() || complain(&all));
    }
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    for (name, text) in &pages {
        write(&directory.join(name), text)?;
    }
    for name in gone(&directory, &pages) {
        let path = directory.join(name);
        std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(true)
}

fn complain(files: &[String]) -> bool {
    let files = files.join(", ");
    println!("out of date, `cargo xtask docs target/debug/tidegate` writes them: {files}");
    false
}

fn is_stale(path: &Path, text: &str) -> bool {
    std::fs::read_to_string(path).ok().as_deref() != Some(text)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the lines of the notes: directive, scope, kind, text.
fn notes(root: &Path, pages: &BTreeMap<String, String>) -> Result<String, String> {
    let titles = pages.values().flat_map(|page| page.lines());
    let titles = titles.filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    let names: BTreeSet<String> = titles.map(str::to_owned).collect();
    let mut lines = BTreeSet::new();
    let mut add = |name: &str, scope: Scope, kind: &str, text: &str| {
        lines.insert(format!("{name}\t{}\t{kind}\t{text}\n", scope.name()));
    };
    for ((name, scope), example) in examples::collect(&root.join("tests/cases"))? {
        if names.contains(&name) {
            add(&name, scope, "example", &example);
        }
    }
    let differences = differences::collect(&read(&root.join("docs/differences.md"))?, &names);
    for ((name, scope), text) in differences {
        add(&name, scope, "differs", &text);
    }
    Ok(lines.into_iter().collect())
}

/// Returns name and text of each page of the manual.
pub(crate) fn pages(program: &Path) -> Result<BTreeMap<String, String>, String> {
    let output = Command::new(program).args(["help", "--pages"]).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} help --pages: {}", program.display(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut pages = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        match line.strip_prefix(FILE) {
            Some(next) => name = next.to_owned(),
            None => {
                let page: &mut String = pages.entry(name.clone()).or_default();
                page.push_str(line);
                page.push('\n');
            }
        }
    }
    Ok(pages)
}

/// Returns the pages on disk that the program does not write any more.
fn gone(directory: &Path, pages: &BTreeMap<String, String>) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !pages.contains_key(name)).collect()
}
