//! Drawings for pages: bars, and lines over two axes. SVG, as text.

use std::fmt::Write as _;

/// One axis of a drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis<'a> {
    pub begin: f64,
    pub end: f64,
    /// Equal parts, each with a label.
    pub parts: u32,
    pub unit: &'a str,
    pub labels: Labels,
}

/// What is written at an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// Values with so many digits after the point.
    Decimals(usize),
    /// Ten to the power of the value.
    Powers,
}

impl<'a> Axis<'a> {
    /// Makes an axis from zero on.
    pub(crate) fn new(end: f64, unit: &'a str, decimals: usize) -> Axis<'a> {
        Axis { begin: 0.0, end, parts: 4, unit, labels: Labels::Decimals(decimals) }
    }

    /// Returns where a value is, as a part of the axis.
    fn part(self, value: f64) -> f64 {
        (value - self.begin) / (self.end - self.begin)
    }

    fn labels(self) -> impl Iterator<Item = (f64, String)> {
        (0..=self.parts).map(move |number| {
            let part = f64::from(number) / f64::from(self.parts);
            let value = self.begin + (self.end - self.begin) * part;
            (
                part,
                match self.labels {
                    Labels::Decimals(decimals) => format!("{value:.decimals$}"),
                    Labels::Powers => format!("{:.0}", 10f64.powf(value)),
                },
            )
        })
    }
}

/// One line of a drawing.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The label at its end, also its CSS class.
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Lines through measured points.
pub(crate) fn lines(title: &str, [x, y]: [Axis<'_>; 2], lines: &[Line]) -> String {
    let mut svg = axes(title, [x, y]);
    for Line { name, points } in lines {
        let places: Vec<(f64, f64)> =
            points.iter().map(|(px, py)| place(x.part(*px), y.part(*py))).collect();
        let Some(last) = places.last() else { continue };
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        // Writing to a String cannot fail.
        let _ = write!(svg, "<g class=\"line {name}\"><path d=\"M{}\"/>", path.join("L"));
        for (x, y) in &places {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        let (x, y) = (last.0, last.1 - 8.0);
        let _ =
            write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{name}</text></g>");
    }
    svg.push_str("</svg>");
    svg
}

/// Bars below each other: (label, value, class); values that are no numbers are left out. `mark`
/// is a line across, the lower bound of the bars.
pub(crate) fn bars(
    title: &str,
    unit: &str,
    bars: &[(String, f64, &str)],
    mark: Option<f64>,
) -> String {
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

/// Escapes text for HTML and attributes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The begin of a drawing: both axes.
pub(crate) fn axes(title: &str, [x_axis, y_axis]: [Axis<'_>; 2]) -> String {
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let (full_width, full_height, label) = (right + 30.0, bottom + 34.0, escaped(title));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {full_width} {full_height}\" role=\"img\" aria-label=\"{label}\">"
    );
    for (part, label) in y_axis.labels() {
        let (_, y) = place(0.0, part);
        let (before, middle) = (LEFT - 6.0, y + 4.0);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{right}\"/>\
             <text x=\"{before}\" y=\"{middle}\" text-anchor=\"end\">{label}</text>"
        );
    }
    for (part, label) in x_axis.labels() {
        let ((x, _), below) = (place(part, 0.0), bottom + 16.0);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{x} {TOP}V{bottom}\"/>\
             <text x=\"{x}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>"
        );
    }
    let (above, below, x_unit, y_unit) = (TOP - 8.0, bottom + 31.0, x_axis.unit, y_axis.unit);
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{above}\" text-anchor=\"end\">{y_unit}</text>\
         <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{x_unit}</text>"
    );
    svg
}

/// Where a point is in the drawing, both given as parts of their axes.
pub(crate) fn place(x: f64, y: f64) -> (f64, f64) {
    (LEFT + x * WIDTH, TOP + HEIGHT - y * HEIGHT)
}

const LEFT: f64 = 56.0;
const TOP: f64 = 22.0;
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 220.0;
const BAR_LEFT: f64 = 150.0;
const BAR_LENGTH: f64 = 330.0;
const BAR_VALUE: f64 = 90.0;
const BAR_EVERY: usize = 24;
