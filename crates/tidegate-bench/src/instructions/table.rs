//! The table of counts in the tree, and what a new count means beside it.

use super::GROWTH_MAX;

/// The first lines of a written table.
pub(super) const HEADER: &str = "\
# Instructions in user mode for one request, by path: `tidegate-bench instructions --table FILE --update`.
# A change that makes a row larger by more than 2 % fails, unless it writes the table anew and says why.
";

/// Reads lines of name and count, divided by a tab.
///
/// # Errors
/// In words: a line that is none of this.
pub(super) fn parse(text: &str) -> Result<Vec<(String, u64)>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let rows = lines.map(|(index, line)| {
        let row = line.split_once('\t').and_then(|(name, count)| {
            let count = count.parse().ok().filter(|count| *count > 0)?;
            Some((name.to_owned(), count))
        });
        row.ok_or_else(|| format!("line {} of the table has no name and count", index + 1))
    });
    rows.collect()
}

/// By what share a count is larger than before; negative when it is smaller.
pub(super) fn growth(count: u64, before: u64) -> f64 {
    count as f64 / before as f64 - 1.0
}

/// Prints one row. `false`: it has grown beyond what is taken, or the table does not know it.
pub(super) fn report(name: &str, count: u64, before: Option<u64>) -> bool {
    let (line, within) = judge(name, count, before);
    println!("{line}");
    within
}

/// The line of a row, and whether its count is taken.
pub(super) fn judge(name: &str, count: u64, before: Option<u64>) -> (String, bool) {
    let Some(before) = before else {
        return (format!("{name:<16} {count:>9}"), true);
    };
    let growth = growth(count, before);
    let (remark, within) = match growth {
        growth if growth > GROWTH_MAX => ("  MORE THAN 2 % ABOVE THE TABLE", false),
        growth if growth < -GROWTH_MAX => {
            ("  less than the table: write it anew with --update", true)
        }
        _ => ("", true),
    };
    (format!("{name:<16} {count:>9} {before:>9} {:>+7.2} %{remark}", growth * 100.0), within)
}
