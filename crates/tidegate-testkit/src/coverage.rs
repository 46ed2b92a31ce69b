//! What the cases cover: how many of them use each directive and variable that the server accepts, and how many
//! are about each section of the RFCs that `sections.tsv` beside the cases lists.
//!
//! A directive or variable counts by being in an `nginx` block of a case that runs against Tidegate, or in a
//! `covers:` line; a section by a `covers:` line alone.

mod rows;

pub use rows::Rows;

use crate::World;
use crate::bell::Failure;
use crate::case::{self, Case};
use rows::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use tidegate_conf::{FsLoader, Parser, Statement};

/// Directives without a case, each with its reason: `NAME TAB reason`. Beside the cases.
const UNCOVERED: &str = "uncovered.tsv";
/// `RFC TAB section TAB title` of each section that matters. Beside the cases.
const SECTIONS: &str = "sections.tsv";

/// Blocks of values, whose statements are no directives.
const VALUES: &[&str] = &["charset_map", "geo", "map", "split_clients", "types"];

/// Number of cases of each row, and what is wrong with the lists.
#[derive(Debug, Default)]
pub struct Coverage {
    directives: BTreeMap<Name, usize>,
    variables: BTreeMap<String, usize>,
    /// By number of the RFC and of the section; with the title.
    sections: BTreeMap<(u32, Vec<u32>), (String, usize)>,
    /// Directives that need no case, with the reason.
    excused: BTreeMap<String, String>,
    mistakes: Vec<String>,
}

impl Coverage {
    /// Counts the cases of `paths`; the lists are read from the first directory among them.
    ///
    /// # Errors
    /// Mistakes in case files, and a list that cannot be read.
    pub fn of(paths: &[PathBuf], rows: &Rows) -> Result<Self, Vec<Failure>> {
        let cases = case::load(paths)?;
        let mut coverage = Self::default();
        if let Some(directory) = paths.iter().find(|path| path.is_dir()) {
            let one = |failure| vec![failure];
            coverage.excused = excused(&list(&directory.join(UNCOVERED)).map_err(one)?);
            coverage.sections = sections(&list(&directory.join(SECTIONS)).map_err(one)?);
        }
        coverage.directives = rows.directives.iter().map(|name| (name.clone(), 0)).collect();
        coverage.variables = rows.variables.iter().map(|name| (name.clone(), 0)).collect();
        let skipped =
            |case: &&Case| case.script.skips.iter().any(|(world, _)| World::Tidegate.is(*world));
        for case in cases.iter().filter(|case| !skipped(case)) {
            coverage.count(case, rows);
        }
        coverage.judge();
        Ok(coverage)
    }

    fn count(&mut self, case: &Case, rows: &Rows) {
        let (mut directives, mut variables) = (BTreeSet::new(), BTreeSet::new());
        for config in &case.configs {
            let statements =
                Parser::new(&FsLoader, "/nowhere").parse_fragment("case", config.text.as_bytes());
            gather(&statements, false, rows, &mut directives);
            variables.extend(rows.variables_in(&config.text));
        }
        for item in &case.covers {
            let known = if let Some(section) = item.strip_prefix("RFC ") {
                let count = self.sections.get_mut(&section_key(section));
                count.map(|(_, count)| *count += 1).is_some()
            } else if item.starts_with('$') {
                let found: Vec<_> = rows.variables_in(item).collect();
                variables.extend(found.iter().cloned());
                !found.is_empty()
            } else {
                let found = [true, false].map(|in_stream| rows.directive(item, in_stream));
                directives.extend(found.iter().flatten().cloned());
                found.iter().any(Option::is_some)
            };
            if !known {
                self.mistakes.push(format!("{}: `covers: {item}` is not a row", case.name()));
            }
        }
        for name in directives {
            *self.directives.entry(name).or_default() += 1;
        }
        for name in variables {
            *self.variables.entry(name).or_default() += 1;
        }
    }

    /// Compares the list of excused directives with the counts.
    fn judge(&mut self) {
        for (name, count) in &self.directives {
            match (count, self.excused.contains_key(&name.to_string())) {
                (0, false) => {
                    self.mistakes.push(format!("`{name}` has no case, and no line in {UNCOVERED}"));
                }
                (1.., true) => {
                    self.mistakes.push(format!("`{name}` has a case and a line in {UNCOVERED}"));
                }
                _ => {}
            }
        }
        let unknown = |name: &&String| !self.directives.keys().any(|row| row.to_string() == **name);
        for name in self.excused.keys().filter(unknown) {
            self.mistakes.push(format!("`{name}` of {UNCOVERED} is not a directive"));
        }
    }

    /// Whether each directive has a case or an excuse, and each `covers:` line names rows.
    pub fn is_whole(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// The counts in sum, the names without a case and without an excuse, and the mistakes.
    pub fn brief(&self) -> String {
        let directives = self.directives.iter().map(|(name, count)| (name.to_string(), *count));
        let (excused, directives): (Vec<_>, Vec<_>) =
            directives.partition(|(name, count)| *count == 0 && self.excused.contains_key(name));
        let variables = self.variables.iter().map(|(name, count)| (name.clone(), *count));
        let sections = self.sections.iter().map(|(key, (_, count))| (section_name(key), *count));
        let mut text = format!("{} directives in {UNCOVERED}, ", excused.len());
        text += &sum("others", directives.into_iter());
        text += &sum("variables", variables);
        text += &sum("RFC sections", sections);
        for mistake in &self.mistakes {
            let _ = writeln!(text, "{mistake}");
        }
        text
    }
}

/// The whole table, then the counts in sum.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.directives {
            writeln!(f, "{count:>5} {name}")?;
        }
        for (name, count) in &self.variables {
            writeln!(f, "{count:>5} {name}")?;
        }
        for (key, (title, count)) in &self.sections {
            writeln!(f, "{count:>5} {}: {title}", section_name(key))?;
        }
        f.write_str(&self.brief())
    }
}

/// `N KIND, N with a case`, then the names without one.
fn sum(kind: &str, rows: impl Iterator<Item = (String, usize)>) -> String {
    let (with, without): (Vec<_>, Vec<_>) = rows.partition(|(_, count)| *count > 0);
    let all = with.len() + without.len();
    let mut text = format!("{all} {kind}, {} with a case", with.len());
    if !without.is_empty() {
        let names: Vec<_> = without.into_iter().map(|(name, _)| name).collect();
        let _ = write!(text, "; without: {}", names.join(", "));
    }
    text + "\n"
}

fn gather(statements: &[Statement], in_stream: bool, rows: &Rows, found: &mut BTreeSet<Name>) {
    for statement in statements {
        let name = statement.name.display();
        found.extend(rows.directive(&name, in_stream));
        if !VALUES.contains(&&*name) {
            gather(statement.children(), in_stream || name == "stream", rows, found);
        }
    }
}

fn list(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn excused(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.map(|(name, reason)| (name.to_owned(), reason.to_owned())).collect()
}

fn sections(text: &str) -> BTreeMap<(u32, Vec<u32>), (String, usize)> {
    let lines = text.lines().filter_map(|line| {
        let (rfc, rest) = line.split_once('\t')?;
        let (section, title) = rest.split_once('\t')?;
        Some((section_key(&format!("{rfc} {section}")), (title.to_owned(), 0)))
    });
    lines.collect()
}

/// `9111 4.2.4` as numbers, which sort as a table of contents does.
fn section_key(text: &str) -> (u32, Vec<u32>) {
    let (rfc, section) = text.split_once(' ').unwrap_or((text, ""));
    let number = |text: &str| text.parse().unwrap_or_default();
    (number(rfc), section.split('.').map(number).collect())
}

fn section_name((rfc, section): &(u32, Vec<u32>)) -> String {
    let section: Vec<_> = section.iter().map(u32::to_string).collect();
    format!("RFC {rfc} {}", section.join("."))
}

#[cfg(test)]
mod tests {
    use super::{Coverage, Rows};

    const PAGES: &str = "=== proxy.md\n## `proxy_pass`\n## `set`\n=== stream_proxy.md\n## `proxy_pass`\n\
                         === variables.md\n| `$arg_NAME` | x | http | nginx |\n| `$uri` * | x | http | nginx |\n";

    /// Counts the one file `a.md` of a directory with these lists.
    fn covered(case: &str, uncovered: &str) -> String {
        let directory = tempfile::tempdir().expect("directory");
        for (name, text) in [
            ("a.md", case),
            ("uncovered.tsv", uncovered),
            ("sections.tsv", "9111\t4.2\tFreshness\n"),
        ] {
            std::fs::write(directory.path().join(name), text).expect("written");
        }
        let found = Coverage::of(&[directory.path().to_owned()], &Rows::of_pages(PAGES));
        match found {
            Ok(coverage) => coverage.to_string(),
            Err(mistakes) => mistakes[0].0.clone(),
        }
    }

    #[test]
    fn cases_count_for_what_they_use_and_name() {
        let case = "covers: RFC 9111 4.2\n# A\nTwo.\n```each\nx\n1\n2\n```\n```nginx\n\
                    location /{x} { proxy_pass http://$arg_a; }\n```\n```script\nGET /{x} -> 200\n```\n";
        let case = case.replace("# A", "# A {x}");
        assert_eq!(
            covered(&case, "set\tNot here.\nproxy_pass (stream)\tNot here.\n"),
            "    2 proxy_pass\n    0 proxy_pass (stream)\n    0 set\n    2 $arg_NAME\n    0 $uri\n    \
             2 RFC 9111 4.2: Freshness\n\
             2 directives in uncovered.tsv, 1 others, 1 with a case\n\
             2 variables, 1 with a case; without: $uri\n1 RFC sections, 1 with a case\n"
        );
    }

    #[test]
    fn lists_and_counts_agree() {
        let case = "# A\nOne.\ncovers: sat, $url\n```nginx\nstream { server { proxy_pass a; } }\n```\n\
                    ```script\nstop\n```\n";
        let text = covered(case, "proxy_pass (stream)\tNone.\nnone\tNone.\n");
        for mistake in [
            "a.md:1: A: `covers: sat` is not a row",
            "a.md:1: A: `covers: $url` is not a row",
            "`proxy_pass` has no case, and no line in uncovered.tsv",
            "`proxy_pass (stream)` has a case and a line in uncovered.tsv",
            "`none` of uncovered.tsv is not a directive",
        ] {
            assert!(text.contains(mistake), "{mistake} in {text}");
        }
        let wrong = covered("# A\nOne.\ncovers: RFC 9111\n", "");
        assert!(wrong.starts_with("a.md:3: `RFC 9111` is no directive"), "{wrong}");
    }
}
