//! What the suites that measure several sizes have in common: lines over the sizes, and the ratio of two of them.

use super::{Measure, Row};
use crate::chart::Line;
use crate::statistics::Spread;

/// One figure divided by another, run by run, for each server.
pub(super) fn ratio(measure: Measure, over: &Row, under: &Row) -> Row {
    let ratios = |over: &[f64], under: &[f64]| {
        over.iter().zip(under).map(|(over, under)| over / under).collect()
    };
    Row {
        measure,
        tidegate: ratios(&over.tidegate, &under.tidegate),
        nginx: ratios(&over.nginx, &under.nginx),
        ..over.clone()
    }
}

/// Medians for each server: of the named measures, each at its place on the horizontal axis. Those that were not measured are
/// left out.
pub(super) fn medians(rows: &[Row], places: &[(&str, f64)]) -> Vec<Line> {
    type Side = fn(&Row) -> &[f64];
    let sides: [(&'static str, Side); 2] =
        [("tidegate", |row| &row.tidegate), ("nginx", |row| &row.nginx)];
    let line = |(name, side): (&'static str, Side)| {
        let points = places.iter().filter_map(|(measure, place)| {
            let row = rows.iter().find(|row| row.measure.name == *measure)?;
            Some((*place, Spread::of(side(row))?.median))
        });
        Line { name, points: points.collect() }
    };
    sides.map(line).into()
}
