//! Programs that are measured in the same rounds as the two sides of a case, for comparison: the lower bound of any
//! server, and another proxy where installed.

use super::{CaseReport, Context, Sample, Side};
use crate::server::{Binary, Kind};
use crate::statistics::Spread;

/// One such program, with its description as the subject of a sentence.
pub(crate) struct Beside(Side);

impl Beside {
    /// A bare loop that makes the same system calls.
    pub(crate) fn floor(binary: Binary) -> Beside {
        Beside(Side::new("a bare loop of such calls, the lower bound,", Some(binary)))
    }

    /// HAProxy, if it is installed.
    pub(crate) fn haproxy(context: &Context) -> Option<Beside> {
        let binary = context.others.iter().find(|binary| binary.kind == Kind::HaProxy)?;
        // HAProxy version 2.6.12-1 2026/10/17 - …
        let version = binary.version.split_whitespace().nth(2).unwrap_or_default();
        Some(Beside(Side::new(format!("HAProxy {version}"), Some(binary.clone()))))
    }

    /// Measures one run; returns a note for readers.
    pub(crate) fn round(
        &mut self,
        run: impl FnOnce(&Binary) -> Result<Sample, String>,
    ) -> Option<String> {
        self.0.run(run)
    }

    /// Its processor time in a sentence.
    pub(crate) fn note(&self, report: &CaseReport) -> Option<String> {
        let cost = report.rows.iter().position(|row| row.measure.name.starts_with("CPU"))?;
        let row = &report.rows[cost];
        let costs = self.0.values(cost);
        let cost = Spread::of(&costs)?;
        let by_nginx = Spread::of_ratios(&costs, &row.nginx)?;
        let ours = Spread::of_ratios(&row.tidegate, &costs)?;
        Some(format!(
            "{}: {} costs {:.2} {}, {:.2} of nginx ({:.2} to {:.2}); Tidegate {:.2} of that",
            row.case,
            self.0.name,
            cost.median,
            row.measure.unit,
            by_nginx.median,
            by_nginx.minimum,
            by_nginx.maximum,
            ours.median,
        ))
    }
}
