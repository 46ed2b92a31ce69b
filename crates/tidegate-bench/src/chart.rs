//! Drawings for pages: bars, and lines over two axes. SVG, as text.

use std::fmt::Write as _;

/// One axis of a drawing; it begins at zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub end: f64,
    pub unit: &'static str,
    /// Digits after the point in its labels.
    pub decimals: usize,
}

/// One line of a drawing.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The label at its end, also its CSS class.
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Lines through measured points.
pub(crate) fn lines(title: &str, [x, y]: [Axis; 2], lines: &[Line]) -> String {
    let mut svg = axes(title, [x, y]);
    for Line { name, points } in lines {
        let places: Vec<(f64, f64)> =
            points.iter().map(|(px, py)| place(px / x.end, py / y.end)).collect();
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

/// The begin of a drawing: four parts of each axis.
pub(crate) fn axes(title: &str, [x_axis, y_axis]: [Axis; 2]) -> String {
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let (full_width, full_height, label) = (right + 30.0, bottom + 34.0, escaped(title));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {full_width} {full_height}\" role=\"img\" aria-label=\"{label}\">"
    );
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let (x, y) = place(part, part);
        let label = |axis: Axis| format!("{:.*}", axis.decimals, axis.end * part);
        let (x_label, y_label) = (label(x_axis), label(y_axis));
        let (before, middle, below) = (LEFT - 6.0, y + 4.0, bottom + 16.0);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{right}M{x} {TOP}V{bottom}\"/>\
             <text x=\"{before}\" y=\"{middle}\" text-anchor=\"end\">{y_label}</text>\
             <text x=\"{x}\" y=\"{below}\" text-anchor=\"middle\">{x_label}</text>"
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
