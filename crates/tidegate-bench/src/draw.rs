//! `tidegate-bench draw FILE…`: draws the tables of simulations, each beside its file as SVG.
//!
//! A table has a title, its two axes, and columns with tabs between. The first column is the place on the x axis, each other one
//! a line; a cell may be empty. Axes have a unit, an end on either side, and the number of their parts, or `powers` where each
//! part is a power of ten:
//!
//! ```text
//! # What three servers admit
//! # servers<tab>1<tab>1000<tab>powers
//! # requests<tab>0<tab>100<tab>4
//! servers<tab>bound<tab>found
//! 1<tab>21<tab>20.5
//! ```

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::chart::{Axis, Labels, Line, escaped, lines};

/// Draws if the arguments say so; `None`: they are of another command.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> Option<Result<(), String>> {
    (arguments.next()? == "draw").then(|| {
        arguments.map(PathBuf::from).try_for_each(|file| {
            draw_file(&file).map_err(|reason| format!("{}: {reason}", file.display()))
        })
    })
}

fn draw_file(file: &Path) -> Result<(), String> {
    let table = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    std::fs::write(file.with_extension("svg"), drawn(&table)?).map_err(|error| error.to_string())
}

/// Draws a table.
///
/// # Errors
/// It is not of this form: the reason in words.
pub(crate) fn drawn(table: &str) -> Result<String, String> {
    let mut rows = table.lines();
    let mut head = || rows.next().and_then(|line| line.strip_prefix("# "));
    let (Some(title), Some(x), Some(y)) = (head(), head(), head()) else {
        return Err("it begins without a title and two axes".to_owned());
    };
    let (x, y) = (axis(x)?, axis(y)?);
    let names: Vec<&str> = rows.next().unwrap_or_default().split('\t').skip(1).collect();
    if names.is_empty() || names.len() > CLASSES.len() {
        return Err(format!("it has {} lines", names.len()));
    }
    let mut drawn: Vec<Line> =
        CLASSES[..names.len()].iter().map(|name| Line { name, points: Vec::new() }).collect();
    for row in rows {
        let mut cells = row.split('\t');
        let at = place(cells.next().unwrap_or_default(), x)?;
        for (line, cell) in drawn.iter_mut().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            line.points.push((at, place(cell, y)?));
        }
    }
    let chart = lines(title, [x, y], &drawn);
    let chart = chart.replacen("<svg ", "<svg y=\"34\" width=\"566\" height=\"276\" ", 1);
    let title = escaped(title);
    let mut svg = format!(
        "{BEGIN}<title>{title}</title>{STYLE}<rect class=\"back\" width=\"760\" height=\"320\" rx=\"10\"/>\n\
         <text class=\"title\" x=\"16\" y=\"24\">{title}</text>\n{}\n",
        chart.replace("><", ">\n<")
    );
    for (number, (class, name)) in CLASSES.iter().zip(&names).enumerate() {
        let (middle, text, name) = (72 + number * 22, 76 + number * 22, escaped(name));
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<g class=\"line {class}\"><path d=\"M576 {middle}h20\"/></g>\
             <text x=\"602\" y=\"{text}\">{name}</text>"
        );
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn axis(text: &str) -> Result<Axis<'_>, String> {
    let cells: Vec<&str> = text.split('\t').collect();
    let [unit, begin, end, parts] = cells[..] else {
        return Err(format!("\"{text}\" is no axis"));
    };
    let (begin, end) = (number(begin)?, number(end)?);
    let is_valid = match parts {
        "powers" => 0.0 < begin && begin < end,
        _ => begin < end,
    };
    if !is_valid {
        return Err(format!("\"{text}\" has no length"));
    }
    Ok(match parts {
        "powers" => {
            let (begin, end) = (begin.log10(), end.log10());
            let parts = (end - begin).round().max(1.0) as u32;
            Axis { begin, end, parts, unit, labels: Labels::Powers }
        }
        _ => {
            let parts = parts.parse().ok().filter(|parts| (1..=20).contains(parts));
            let parts = parts.ok_or_else(|| format!("\"{text}\" has no number of parts"))?;
            Axis { begin, end, parts, unit, labels: Labels::Decimals(0) }
        }
    })
}

/// Returns where a cell is on an axis; what is below the axis is at its begin.
fn place(cell: &str, axis: Axis<'_>) -> Result<f64, String> {
    let value = number(cell)?;
    let value = if axis.labels == Labels::Powers { value.max(1e-300).log10() } else { value };
    Ok(value.clamp(axis.begin, axis.end))
}

fn number(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|number| number.is_finite()).ok_or_else(|| format!("\"{text}\" is no number"))
}

/// Classes of lines; as many lines has a table at most.
const CLASSES: [&str; 4] = ["first", "second", "third", "fourth"];
const BEGIN: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 320\" role=\"img\" \
font-family=\"sans-serif\" font-size=\"12\">\n";
const STYLE: &str = "
<style>
text{fill:#57606a}.title{fill:#1f2328;font-size:15px}.back{fill:#f6f8fa}.grid{stroke:#d8dde3;fill:none}
.line path{fill:none;stroke-width:2}.line text,.line circle{display:none}
.first path{stroke:#1f2328;stroke-dasharray:5 4}.second path{stroke:#0b7285}.third path{stroke:#a0532a}.fourth path{stroke:#6741d9}
</style>
";
