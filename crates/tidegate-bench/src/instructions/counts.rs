//! What callgrind counts, and how it writes the sums.

use std::fs;
use std::path::Path;

/// The counts of a run, or of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub instructions: u64,
    /// Instructions that lock a line of the caches (`lock`, and exchanges with memory): others are delayed by them where
    /// processors share the line.
    pub locked: u64,
}

impl Counts {
    /// The counts of one of so many requests, to the nearest whole ones: timers and other threads add single ones.
    pub(super) fn of_each(self, requests: u64) -> Counts {
        let each = |count: u64| (count + requests / 2) / requests.max(1);
        Counts { instructions: each(self.instructions), locked: each(self.locked) }
    }

    /// The counts beyond those of a shorter run.
    pub(super) fn beyond(self, less: Counts) -> Counts {
        Counts {
            instructions: self.instructions.saturating_sub(less.instructions),
            locked: self.locked.saturating_sub(less.locked),
        }
    }
}

/// The sums of a file that callgrind has written.
///
/// # Errors
/// In words: it cannot be read, or has no sums.
pub(super) fn read(file: &Path) -> Result<Counts, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    parse(&text).ok_or_else(|| format!("{}: no sums", file.display()))
}

/// The sums that a dump has in its `summary:` or `totals:` line, as its `events:` line names them.
pub(super) fn parse(dump: &str) -> Option<Counts> {
    let line = |name: &str| dump.lines().find_map(|line| line.strip_prefix(name));
    let sums = line("summary:").or_else(|| line("totals:"))?;
    let sum = |event: &str| {
        let place = line("events:")?.split_whitespace().position(|name| name == event)?;
        // Sums at the end that are 0 are left out.
        sums.split_whitespace().nth(place).map_or(Some(0), |sum| sum.parse().ok())
    };
    Some(Counts { instructions: sum("Ir")?, locked: sum("Ge")? })
}
