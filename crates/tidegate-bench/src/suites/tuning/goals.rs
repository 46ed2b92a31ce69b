//! Requirements on Tidegate's figures relative to nginx's, or to its own.

use super::super::{CaseReport, Measure, Row};
use super::figures::find;
use super::{COST, MEMORY, RATE, SKEW, TAIL};
use crate::statistics::Limit;

/// A target, computed from measured rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub about: &'static str,
    limit: Limit,
    /// It needs [`PROCESSORS_FOR_TWO`].
    needs_many: bool,
    top: Figure,
    bottom: Option<Figure>,
}

/// One side's figures of a row.
#[derive(Clone, Copy, Debug)]
struct Figure {
    case: &'static str,
    measure: &'static str,
    nginx: bool,
}

/// Two threads, load and backend, each with its own.
pub(super) const PROCESSORS_FOR_TWO: usize = 4;

const fn ours(case: &'static str, measure: &'static str) -> Figure {
    Figure { case, measure, nginx: false }
}

const fn theirs(case: &'static str, measure: &'static str) -> Figure {
    Figure { case, measure, nginx: true }
}

const fn ratio(about: &'static str, limit: Limit, top: Figure, bottom: Figure) -> Goal {
    Goal { about, limit, needs_many: false, top, bottom: Some(bottom) }
}

const fn skew(about: &'static str, case: &'static str) -> Goal {
    let top = ours(case, SKEW);
    Goal { about, limit: Limit::MedianAtMost(10.0), needs_many: false, top, bottom: None }
}

/// All targets.
#[rustfmt::skip]
pub(crate) const GOALS: [Goal; 13] = [
    ratio("CPU, 1 KiB, both with upstream keepalive", Limit::MedianAtMost(0.86), ours("own-tuned", COST), theirs("own-tuned", COST)),
    ratio("CPU, 100 KiB, both with upstream keepalive", Limit::MedianAtMost(0.95), ours("own-tuned-large", COST), theirs("own-tuned-large", COST)),
    ratio("CPU, 1 KiB, both by default", Limit::MedianAtMost(0.20), ours("own-default", COST), theirs("own-default", COST)),
    ratio("requests/s, Tidegate's default by nginx with keepalive", Limit::MedianAtLeast(1.0), ours("own-default", RATE), theirs("own-tuned", RATE)),
    ratio("requests/s, Tidegate's default by nginx with all settings", Limit::MedianAtLeast(1.0), ours("default", RATE), theirs("all", RATE)),
    Goal { needs_many: true, ..ratio("requests/s, two threads by one", Limit::MedianAtLeast(1.8), ours("2-keepalive", RATE), ours("keepalive", RATE)) },
    ratio("p99 at 80 % of what nginx can do", Limit::MedianAtMost(1.0), ours("paced", TAIL), theirs("paced", TAIL)),
    ratio("memory of an idle connection behind a proxied request", Limit::MedianAtMost(1.0), ours("idle-proxied", MEMORY), theirs("idle-proxied", MEMORY)),
    skew("busiest thread above the mean, %", "skew"),
    skew("… with reuseport", "skew-reuseport"),
    skew("… with accept_mutex on", "skew-mutex"),
    skew("… with multi_accept on", "skew-multi"),
    skew("… with both", "skew-mutex-multi"),
];

impl Figure {
    fn values<'a>(&self, reports: &'a [CaseReport]) -> Option<&'a [f64]> {
        let row = find(reports, self.case, self.measure)?;
        Some(if self.nginx { &row.nginx } else { &row.tidegate })
    }
}

impl Goal {
    /// Returns the target as a row, where its figures were measured. `many`: there are enough processors.
    pub(crate) fn row(&self, reports: &[CaseReport], many: bool) -> Option<Row> {
        let top = self.top.values(reports)?;
        let tidegate: Vec<f64> = match self.bottom {
            None => top.to_vec(),
            Some(bottom) => {
                let pairs = top.iter().zip(bottom.values(reports)?);
                pairs.map(|(top, bottom)| top / bottom).collect()
            }
        };
        if tidegate.is_empty() {
            return None;
        }
        let limit = (!self.needs_many || many).then_some(self.limit);
        let decimals = if self.bottom.is_some() { 2 } else { 1 };
        let measure = Measure { required: limit, ..Measure::new(self.about, "", decimals) };
        let row = find(reports, self.top.case, self.top.measure)?;
        Some(Row { case: "targets", measure, tidegate, nginx: Vec::new(), ..row.clone() })
    }
}
