//! Figures derived from measured rows: gains, and whether the machine was busy.

use super::super::quick::{OTHERS, OTHERS_PERCENT_MAX};
use super::super::{Better, CaseReport, Measure, Row};
use super::{Case, RATE};
use crate::statistics::Spread;

/// A case's row of a measure.
pub(crate) fn find<'a>(reports: &'a [CaseReport], case: &str, measure: &str) -> Option<&'a Row> {
    let mut rows = reports.iter().flat_map(|report| &report.rows);
    rows.find(|row| row.case == case && row.measure.name == measure)
}

/// Returns how much more one side serves than in another row, round by round, in percent.
pub(crate) fn gains(values: &[f64], base: &[f64]) -> Vec<f64> {
    values.iter().zip(base).map(|(value, base)| (value - base) / base * 100.0).collect()
}

/// The row of a case's gains in requests a second against its section's default.
pub(crate) fn gain(case: &Case, reports: &[CaseReport]) -> Option<Row> {
    let base = find(reports, case.default_row()?, RATE)?;
    let row = find(reports, case.name, RATE)?;
    Some(Row {
        measure: GAIN,
        tidegate: gains(&row.tidegate, &base.tidegate),
        nginx: gains(&row.nginx, &base.nginx),
        ..row.clone()
    })
}

/// The median of a side's figures; NaN where there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

/// A warning when the figures are those of a busy machine.
pub(crate) fn disturbance(reports: &[CaseReport]) -> Option<String> {
    let rows = reports.iter().flat_map(|report| &report.rows);
    let others = rows.filter(|row| row.measure.name == OTHERS);
    let all: Vec<f64> =
        others.flat_map(|row| [&row.tidegate, &row.nginx]).flatten().copied().collect();
    let percent = median(&all);
    (percent > OTHERS_PERCENT_MAX).then(|| {
        format!(
            "other programs took {percent:.0} % of the processors; repeat when the machine is quiet"
        )
    })
}

/// Gains of a row.
pub(crate) const GAIN: Measure = Measure::new("gain", "%", 0).better(Better::Fact);
