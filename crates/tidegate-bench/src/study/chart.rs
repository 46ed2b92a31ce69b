//! Drawings of a run: how many bytes each client had at each moment. SVG, as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

use super::figures::Run;

/// Points of one line: (seconds since the begin, bytes in all by then).
pub type Line = Vec<(f64, f64)>;

/// What of a run is drawn.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub clients: Vec<Line>,
    /// The origin's first response for each file, one after another.
    pub origin: Line,
}

/// The ends of both axes.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub seconds: f64,
    pub bytes: f64,
}

impl Picture {
    pub fn of(run: &Run) -> Picture {
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
        Picture { clients: clients.collect(), origin }
    }

    /// The end of both axes for these pictures together.
    pub fn extent<'a>(pictures: impl Iterator<Item = &'a Picture>) -> Extent {
        let mut extent = Extent { seconds: 0.1, bytes: 1.0 };
        for (seconds, bytes) in pictures.flat_map(|p| p.clients.iter().flatten()) {
            extent.seconds = extent.seconds.max(*seconds);
            extent.bytes = extent.bytes.max(*bytes);
        }
        extent
    }

    /// The drawing. Clients whose lines are the same to the eye are drawn once.
    pub fn svg(&self, extent: Extent, title: &str) -> String {
        let paths: BTreeSet<String> = self.clients.iter().map(|line| path(line, extent)).collect();
        let mut svg = axes(extent, title);
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

/// Bars below each other: (label, value, class); values that are no numbers are left out. `mark`
/// is a line across, below which no bar can be.
pub fn bars(title: &str, unit: &str, bars: &[(String, f64, &str)], mark: Option<f64>) -> String {
    let bars: Vec<_> = bars.iter().filter(|(_, value, _)| value.is_finite()).collect();
    let mark = mark.filter(|mark| mark.is_finite());
    let largest = bars.iter().map(|(_, value, _)| *value).chain(mark).fold(0.0, f64::max);
    let scale = if largest > 0.0 { BAR_LENGTH / largest } else { 0.0 };
    let (width, height) = (BAR_LEFT + BAR_LENGTH + BAR_VALUE, BAR_EVERY * bars.len() + 8);
    let label = escaped(title);
    let mut svg =
        format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">");
    for (index, (label, value, class)) in bars.iter().enumerate() {
        let (top, length) = (index * BAR_EVERY + 4, value * scale);
        let (text, before, behind) = (top + 13, BAR_LEFT - 8.0, BAR_LEFT + length + 6.0);
        let label = escaped(label);
        let _ = write!(
            svg,
            "<text x=\"{before}\" y=\"{text}\" text-anchor=\"end\">{label}</text>\
             <rect class=\"{class}\" x=\"{BAR_LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"17\"/>\
             <text x=\"{behind:.1}\" y=\"{text}\">{value:.3} {unit}</text>"
        );
    }
    if let Some(mark) = mark {
        let x = BAR_LEFT + mark * scale;
        let _ = write!(svg, "<path class=\"origin\" d=\"M{x:.1} 0V{height}\"/>");
    }
    svg.push_str("</svg>");
    svg
}

/// Text that may stand in HTML and in attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The begin of a drawing: four parts of each axis.
fn axes(extent: Extent, title: &str) -> String {
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let (full_width, full_height, label) = (right + 30.0, bottom + 34.0, escaped(title));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {full_width} {full_height}\" role=\"img\" aria-label=\"{label}\">"
    );
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let (x, y) = (LEFT + part * WIDTH, bottom - part * HEIGHT);
        let (mebibytes, seconds) = (extent.bytes * part / 1024.0 / 1024.0, extent.seconds * part);
        let (before, middle, below) = (LEFT - 6.0, y + 4.0, bottom + 16.0);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{right}M{x} {TOP}V{bottom}\"/>\
             <text x=\"{before}\" y=\"{middle}\" text-anchor=\"end\">{mebibytes:.1}</text>\
             <text x=\"{x}\" y=\"{below}\" text-anchor=\"middle\">{seconds:.1}</text>"
        );
    }
    let (above, below) = (TOP - 8.0, bottom + 31.0);
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{above}\" text-anchor=\"end\">MiB</text>\
         <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">seconds</text>"
    );
    svg
}

/// The path of a line: a step at each arrival, without those that the eye cannot tell apart.
pub(crate) fn path(line: &Line, extent: Extent) -> String {
    let place = |(seconds, bytes): (f64, f64)| {
        let x = LEFT + seconds / extent.seconds * WIDTH;
        (x.round(), (TOP + HEIGHT - bytes / extent.bytes * HEIGHT).round())
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

const LEFT: f64 = 56.0;
const TOP: f64 = 22.0;
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
/// Steps smaller than this in both directions are joined.
const FINE: f64 = 3.0;
const BAR_LEFT: f64 = 150.0;
const BAR_LENGTH: f64 = 330.0;
const BAR_VALUE: f64 = 90.0;
const BAR_EVERY: usize = 24;
