//! Drawings of a run: how many bytes each client had at each moment.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

use super::figures::Run;
use crate::chart::{Axis, axes};

/// Points of one line: (seconds since the begin, bytes in all by then).
pub(crate) type Line = Vec<(f64, f64)>;

/// The drawn data of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunChart {
    pub clients: Vec<Line>,
    /// The origin's first response for each file, one after another.
    pub origin: Line,
}

/// The ends of both axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub seconds: f64,
    pub bytes: f64,
}

impl RunChart {
    pub(crate) fn of(run: &Run) -> RunChart {
        let line = |pieces: &mut dyn Iterator<Item = &[(Instant, u64)]>| {
            let (mut line, mut before) = (vec![(0.0, 0.0)], 0);
            for piece in pieces {
                line.extend(piece.iter().map(|(when, bytes)| {
                    let seconds = when.saturating_duration_since(run.started).as_secs_f64();
                    (seconds, (before + bytes) as f64)
                }));
                before += piece.last().map_or(0, |(_, bytes)| *bytes);
            }
            line
        };
        let clients = run.visits.iter();
        let clients = clients.map(|visits| line(&mut visits.iter().map(|v| &v.arrived[..])));
        let origin = line(&mut run.fills().into_iter().map(|fill| &fill.sent[..]));
        RunChart { clients: clients.collect(), origin }
    }

    /// The end of both axes for these pictures together.
    pub(crate) fn extent<'a>(pictures: impl Iterator<Item = &'a RunChart>) -> Extent {
        let mut extent = Extent { seconds: 0.1, bytes: 1.0 };
        for (seconds, bytes) in pictures.flat_map(|p| p.clients.iter().flatten()) {
            extent.seconds = extent.seconds.max(*seconds);
            extent.bytes = extent.bytes.max(*bytes);
        }
        extent
    }

    /// The drawing. Clients whose lines are the same to the eye are drawn once.
    pub(crate) fn svg(&self, extent: Extent, title: &str) -> String {
        let paths: BTreeSet<String> = self.clients.iter().map(|line| path(line, extent)).collect();
        let mebibytes = extent.bytes / 1024.0 / 1024.0;
        let x = Axis::new(extent.seconds, "seconds", 1);
        let y = Axis::new(mebibytes, "MiB", 1);
        let mut svg = axes(title, [x, y]);
        svg.push_str("<g class=\"clients\">");
        for path in paths {
            // Writing to a String cannot fail.
            let _ = write!(svg, "<path d=\"{path}\"/>");
        }
        svg.push_str("</g>");
        if self.origin.len() > 1 {
            let _ = write!(svg, "<path class=\"origin\" d=\"{}\"/>", path(&self.origin, extent));
        }
        svg.push_str("</svg>");
        svg
    }
}

/// The path of a line: a step at each arrival, without invisible ones.
pub(crate) fn path(line: &Line, extent: Extent) -> String {
    let place = |(seconds, bytes): (f64, f64)| {
        let (x, y) = crate::chart::place(seconds / extent.seconds, bytes / extent.bytes);
        (x.round(), y.round())
    };
    let Some(first) = line.first() else { return String::new() };
    let (mut x, mut y) = place(*first);
    let mut path = format!("M{x} {y}");
    for (index, point) in line.iter().enumerate().skip(1) {
        let (next_x, next_y) = place(*point);
        let is_last = index + 1 == line.len();
        if next_x - x < FINE && y - next_y < FINE && !is_last {
            continue;
        }
        if next_x != x {
            let _ = write!(path, "H{next_x}");
        }
        if next_y != y {
            let _ = write!(path, "V{next_y}");
        }
        (x, y) = (next_x, next_y);
    }
    path
}

/// Steps smaller than this in both directions are joined.
const FINE: f64 = 3.0;
