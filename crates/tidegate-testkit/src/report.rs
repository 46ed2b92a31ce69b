//! Results: one per case and world, and their sum.

use crate::World;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All lines held.
    Passed,
    /// With the expected and the actual result, and the logs.
    Failed(String),
    /// With the reason that the case gives.
    Skipped(String),
}

/// One case in one world.
#[derive(Debug, Clone)]
pub struct Report {
    /// `file:line: title`
    pub name: String,
    /// The world.
    pub world: World,
    /// Its outcome.
    pub outcome: Outcome,
    /// Wall clock time.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, world, took, .. } = self;
        match &self.outcome {
            Outcome::Passed => write!(f, "ok    {world} {name} ({} ms)", took.as_millis()),
            Outcome::Skipped(reason) => write!(f, "skip  {world} {name}: {reason}"),
            Outcome::Failed(text) => {
                write!(f, "FAIL  {world} {name} ({} ms)", took.as_millis())?;
                text.lines().try_for_each(|line| write!(f, "\n      {line}"))
            }
        }
    }
}

/// All results.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Number of cases, not of runs.
    pub cases: usize,
    /// Declared differences of worlds: case, world, reason.
    pub differences: Vec<(String, World, String)>,
    /// Values that were replaced in case files, as `file:line: part`.
    pub updated: Vec<String>,
    /// Sorted by name and world.
    pub reports: Vec<Report>,
}

impl Summary {
    fn count(&self, wanted: impl Fn(&Report) -> bool) -> usize {
        self.reports.iter().filter(|report| wanted(report)).count()
    }

    /// Runs that passed.
    pub fn passed(&self) -> usize {
        self.count(|report| report.outcome == Outcome::Passed)
    }

    /// Runs that failed.
    pub fn failed(&self) -> usize {
        self.count(|report| matches!(report.outcome, Outcome::Failed(_)))
    }

    /// Runs that their case excludes.
    pub fn skipped(&self) -> usize {
        self.count(|report| matches!(report.outcome, Outcome::Skipped(_)))
    }
}

impl Summary {
    /// Returns the counts by file and world, one line each, as for the list of faults.
    pub fn groups(&self) -> String {
        let mut groups: BTreeMap<(&str, World), [usize; 3]> = BTreeMap::new();
        for report in &self.reports {
            let file = report.name.split(".md:").next().unwrap_or_default();
            let counts = groups.entry((file, report.world)).or_default();
            let place = match report.outcome {
                Outcome::Passed => 0,
                Outcome::Failed(_) => 1,
                Outcome::Skipped(_) => 2,
            };
            counts[place] += 1;
        }
        let line = |((file, world), [passed, failed, skipped]): (&(&str, World), &[usize; 3])| {
            format!(
                "{file:<32} {world:<9} {passed:>4} passed {failed:>3} failed {skipped:>3} skipped\n"
            )
        };
        groups.iter().map(line).collect()
    }
}

/// Lines of a failure that the summary repeats, and the characters of each.
const FAILURE_LINES: usize = 3;
const FAILURE_CHARS: usize = 200;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ran = |world| {
            self.count(|report| {
                report.world == world && !matches!(report.outcome, Outcome::Skipped(_))
            })
        };
        let (ours, genuine) = (ran(World::Tidegate) + ran(World::Windows), ran(World::Nginx));
        writeln!(f, "{} cases, {ours} ran on tidegate, {genuine} on genuine nginx", self.cases)?;
        if !self.differences.is_empty() {
            writeln!(f, "differences:")?;
        }
        for (case, world, reason) in &self.differences {
            writeln!(f, "  {case}: {world}: {reason}")?;
        }
        let failed: Vec<_> =
            self.reports.iter().filter(|r| matches!(r.outcome, Outcome::Failed(_))).collect();
        if !failed.is_empty() {
            writeln!(f, "failed:")?;
        }
        for report in failed {
            writeln!(f, "  {} {}", report.world, report.name)?;
            // Enough to know the step where the end of a log is all there is.
            if let Outcome::Failed(text) = &report.outcome {
                for line in text.lines().take(FAILURE_LINES) {
                    let line: String = line.chars().take(FAILURE_CHARS).collect();
                    writeln!(f, "      {line}")?;
                }
            }
        }
        for place in &self.updated {
            writeln!(f, "updated {place}")?;
        }
        let (passed, failed, skipped) = (self.passed(), self.failed(), self.skipped());
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
