//! The table of counts in the tree, and what a new count means beside it.

use super::GROWTH_MAX;
use super::counts::Counts;

/// The first lines of a written table.
pub(super) const HEADER: &str = "\
# Instructions in user mode for one request, by path: `tidegate-bench instructions --table FILE --update`.
# Behind them, where a row has it, the number of instructions among them that lock a line of the caches.
# A change that makes a row larger by more than 2 %, or by a lock, fails, unless it writes the table anew and says why.
";

/// What the table knows of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub instructions: u64,
    /// `None` in a line of before they were counted.
    pub locked: Option<u64>,
}

/// Reads lines of name, instructions and, perhaps, locks, divided by tabs.
///
/// # Errors
/// In words: a line that is none of this.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Known)>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let rows = lines.map(|(index, line)| {
        known(line).ok_or_else(|| format!("line {} of the table has no name and count", index + 1))
    });
    rows.collect()
}

fn known(line: &str) -> Option<(String, Known)> {
    let (name, counts) = line.split_once('\t')?;
    let (instructions, locked) = match counts.split_once('\t') {
        Some((instructions, locked)) => (instructions, Some(locked.parse().ok()?)),
        None => (counts, None),
    };
    let instructions = instructions.parse().ok().filter(|count| *count > 0)?;
    Some((name.to_owned(), Known { instructions, locked }))
}

/// The line of the table for a row.
pub(super) fn line(name: &str, counts: Counts) -> String {
    format!("{name}\t{}\t{}\n", counts.instructions, counts.locked)
}

/// By what share a count is larger than before; negative when it is smaller.
pub(super) fn growth(count: u64, before: u64) -> f64 {
    count as f64 / before as f64 - 1.0
}

/// Whether a row has grown beyond what is taken.
pub(super) fn has_grown(counts: Counts, before: Known) -> bool {
    growth(counts.instructions, before.instructions) > GROWTH_MAX
        || before.locked.is_some_and(|locked| counts.locked > locked)
}

/// Prints one row. `false`: it has grown beyond what is taken.
pub(super) fn report(name: &str, counts: Counts, before: Option<Known>) -> bool {
    let (line, within) = judge(name, counts, before);
    println!("{line}");
    within
}

/// The line of a row, and whether its counts are taken.
pub(super) fn judge(name: &str, counts: Counts, before: Option<Known>) -> (String, bool) {
    let Counts { instructions, locked } = counts;
    let Some(before) = before else {
        return (format!("{name:<16} {instructions:>9} {locked:>4} locked"), true);
    };
    let growth = growth(instructions, before.instructions);
    let known = before.locked.unwrap_or(locked);
    let remark = match (growth > GROWTH_MAX, locked > known) {
        (true, _) => "  MORE THAN 2 % ABOVE THE TABLE",
        (_, true) => "  MORE LOCKS THAN IN THE TABLE",
        _ if growth < -GROWTH_MAX || locked < known => {
            "  less than the table: write it anew with --update"
        }
        _ => "",
    };
    let of_known = before.instructions;
    let line = format!(
        "{name:<16} {instructions:>9} {of_known:>9} {:>+7.2} % {locked:>4} locked{remark}",
        growth * 100.0
    );
    (line, !has_grown(counts, before))
}
