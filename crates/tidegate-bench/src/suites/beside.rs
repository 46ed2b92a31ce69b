//! What is measured in the same rounds as a case's two sides, to judge its figures by: the least that a server
//! can do, and another proxy where that is installed.

use super::{CaseReport, Context, Sample, Side};
use crate::server::{Binary, Kind};
use crate::statistics::Spread;

/// One such program, by what it is as the subject of a sentence.
pub(crate) struct Beside(Side);

impl Beside {
    /// A bare loop that makes the same system calls.
    pub(crate) fn floor(binary: Binary) -> Beside {
        Beside(Side::new("a bare loop of such calls, the floor,", Some(binary)))
    }

    /// HAProxy, if it is installed.
    pub(crate) fn haproxy(context: &Context) -> Option<Beside> {
        let binary = context.others.iter().find(|binary| binary.kind == Kind::HaProxy)?;
        // HAProxy version 2.6.12-1 2026/10/17 - …
        let version = binary.version.split_whitespace().nth(2).unwrap_or_default();
        Some(Beside(Side::new(format!("HAProxy {version}"), Some(binary.clone()))))
    }

    /// One run; returns what a reader should know of it.
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
