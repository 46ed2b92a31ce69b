//! The shape of the product: circles of files that import each other, each crate's share of the lines, the booleans of
//! an exchange, and how much of a crate is public. The limits only shrink.

mod circles;
mod imports;

use std::collections::BTreeMap;

use super::Violation;
use super::source::{Kind, Source};

/// Largest number of files in a circle of imports.
const CIRCLE_FILES_MAX: usize = 8;

/// Largest share of the product's lines in one crate, in percent.
const SHARE_MAX: usize = 25;

/// Largest number of booleans in all parts of an exchange; the comment of each says why it is not an enum.
const EXCHANGE_BOOLEANS_MAX: usize = 6;

/// The directory of the parts of an exchange.
const EXCHANGE: &str = "crates/tidegate-core/src/exchange";

/// Crates for tests and tools, which are not part of the product.
const NO_PRODUCT: [&str; 4] =
    ["tidegate-bench", "tidegate-testkit", "tidegate-faults", "tidegate-faults-wasm"];

/// The measures of one crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Crate {
    /// Lines of product code, and of tests.
    pub lines: usize,
    pub test_lines: usize,
    /// Items that are `pub`, and those of `pub(crate)` and `pub(super)`.
    pub public: usize,
    pub inner: usize,
    /// The files of the largest circle, by name.
    pub circle: Vec<String>,
}

/// Measures the crates of the product.
pub(super) fn measure(sources: &[Source]) -> BTreeMap<String, Crate> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(source)) {
        let found = crates.entry(source.member().to_owned()).or_default();
        for (line, masked, _) in source.lines() {
            let words = masked.trim_start();
            match source.is_test_line(line) {
                true => found.test_lines += 1,
                false => {
                    found.lines += 1;
                    found.public += usize::from(words.starts_with("pub "));
                    found.inner += usize::from(words.starts_with("pub("));
                }
            }
        }
    }
    for (name, found) in &mut crates {
        let files = sources.iter().filter(|source| source.member() == name);
        let files = files.filter(|source| is_product(source) && source.kind == Kind::Product);
        found.circle = circles::largest(&imports::of(files));
    }
    crates
}

fn is_product(source: &Source) -> bool {
    source.path.starts_with("crates/")
        && source.path.contains("/src/")
        && !NO_PRODUCT.contains(&source.member())
}

/// Booleans in the fields of an exchange's parts.
pub(super) fn exchange_booleans(sources: &[Source]) -> usize {
    let parts = sources.iter().filter(|source| source.path.starts_with(EXCHANGE));
    let fields = parts.flat_map(|source| {
        source.lines().filter(|(line, masked, _)| {
            !source.is_test_line(*line) && masked.trim_end().ends_with(": bool,")
        })
    });
    fields.count()
}

/// Checks the measures.
pub(super) fn check(crates: &BTreeMap<String, Crate>, booleans: usize) -> Vec<Violation> {
    let mut violations = Vec::new();
    let all: usize = crates.values().map(|found| found.lines).sum();
    for (name, found) in crates {
        let mut refuse =
            |reason: String| violations.push(Violation::new(&format!("crates/{name}"), 0, reason));
        let files = found.circle.len();
        if files > CIRCLE_FILES_MAX {
            let circle = found.circle.join(", ");
            refuse(format!(
                "{files} files import each other in a circle, at most {CIRCLE_FILES_MAX}: {circle}"
            ));
        }
        if found.lines * 100 > all * SHARE_MAX {
            let lines = found.lines;
            refuse(format!("has {lines} of {all} lines, more than {SHARE_MAX} of a hundred"));
        }
    }
    if booleans > EXCHANGE_BOOLEANS_MAX {
        let reason = format!("{booleans} booleans, at most {EXCHANGE_BOOLEANS_MAX}");
        violations.push(Violation::new(EXCHANGE, 0, reason));
    }
    violations
}

/// Returns the figures as a table.
pub(super) fn table(crates: &BTreeMap<String, Crate>, booleans: usize) -> String {
    let all = crates.values().map(|found| found.lines).sum::<usize>().max(1);
    let mut rows = vec![format!(
        "{:20} {:>6} {:>5} {:>6} {:>5} {:>5} {:>6}",
        "crate", "lines", "share", "tests", "pub", "inner", "circle"
    )];
    let mut by_size: Vec<_> = crates.iter().collect();
    by_size.sort_by_key(|(_, found)| std::cmp::Reverse(found.lines));
    for (name, found) in by_size {
        let share = found.lines * 100 / all;
        let tests = found.test_lines * 100 / found.lines.max(1);
        let Crate { lines, public, inner, circle, .. } = found;
        let circle = circle.len();
        rows.push(format!(
            "{name:20} {lines:6} {share:4}% {tests:5}% {public:5} {inner:5} {circle:6}"
        ));
    }
    rows.push(format!("an exchange has {booleans} booleans"));
    rows.join("\n")
}
