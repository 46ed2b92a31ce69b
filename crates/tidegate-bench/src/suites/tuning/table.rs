//! The suite's tables for the terminal and for its page, and all figures as JSON.

use std::fmt::Write as _;

use super::super::{CaseReport, Row};
use super::advice::advice;
use super::figures::{GAIN, find, median};
use super::{CASES, COST, Case, MEDIAN, RATE, Section, TAIL};
use crate::json::Json;
use crate::report::{self, Environment, align, heading};

/// A table: the heading's cells, then those of each row.
pub(crate) type Cells = Vec<Vec<String>>;

/// Everything for the terminal.
pub(crate) fn text(environment: &Environment, reports: &[CaseReport]) -> String {
    let mut text = String::new();
    for (name, value) in heading(environment) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10} {value}");
    }
    for section in Section::ALL {
        let cells = cells(section, reports);
        if cells.len() > 1 {
            let _ = writeln!(text, "\n== {}\n", section.title());
            text.push_str(&align(&cells));
        }
    }
    for (title, cells) in [("others", others(reports)), ("targets", targets(reports))] {
        if cells.len() > 1 {
            let _ = writeln!(text, "\n== {title}\n\n{}", align(&cells).trim_end());
        }
    }
    let advice = advice(reports);
    if !advice.is_empty() {
        let _ = writeln!(text, "\n== advice for this machine\n");
    }
    for line in advice {
        let _ = writeln!(text, "- {line}");
    }
    for note in notes(reports) {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Everything, with each run's figures.
pub(crate) fn json(environment: &Environment, reports: &[CaseReport]) -> Json {
    let mut json = report::json(environment, reports);
    if let Json::Object(members) = &mut json {
        let advice = advice(reports).into_iter().map(Json::Text).collect();
        members.push(("advice", Json::List(advice)));
    }
    json
}

/// Notes for readers of the figures.
pub(crate) fn notes(reports: &[CaseReport]) -> impl Iterator<Item = &String> {
    reports.iter().flat_map(|report| &report.notes)
}

/// The loaded rows of a section.
pub(crate) fn cells(section: Section, reports: &[CaseReport]) -> Cells {
    let mut lines: Cells = vec![HEADING.map(str::to_owned).to_vec()];
    for case in CASES.iter().filter(|case| case.section == section) {
        if let Some(rate) = find(reports, case.name, RATE) {
            lines.push(line(case, rate, reports));
        }
    }
    lines
}

fn line(case: &Case, rate: &Row, reports: &[CaseReport]) -> Vec<String> {
    let measure = |name: &str| find(reports, case.name, name);
    let side = |nginx: bool| {
        let of = move |row: &Row| median(if nginx { &row.nginx } else { &row.tidegate });
        let number =
            |name: &str, decimals: usize| figure(measure(name).map_or(f64::NAN, of), decimals, "");
        let gain = measure(GAIN.name).map_or(f64::NAN, of);
        let gain = match case.default_row() {
            Some(row) if row != case.name && gain.is_finite() => format!("{gain:+.0} %"),
            _ => "-".to_owned(),
        };
        [figure(of(rate), 0, ""), gain, number(MEDIAN, 0), number(TAIL, 0), number(COST, 2)]
    };
    let cost = measure(COST).and_then(Row::ratio).map_or(f64::NAN, |ratio| ratio.median);
    let published = case.published.map_or("-".to_owned(), |gain| format!("{gain:+.0} %"));
    let label = [case.name.to_owned(), case.about.to_owned()];
    let errors = if rate.errors > 0 { format!("{} errors", rate.errors) } else { String::new() };
    let end = [figure(cost, 2, ""), published, errors];
    label.into_iter().chain(side(false)).chain(side(true)).chain(end).collect()
}

/// Rows that are not about requests in a second.
pub(crate) fn others(reports: &[CaseReport]) -> Cells {
    let mut lines: Cells = vec![OTHERS_HEADING.map(str::to_owned).to_vec()];
    for case in &CASES {
        let report = reports
            .iter()
            .find(|report| report.rows.first().is_some_and(|row| row.case == case.name));
        let Some(report) = report.filter(|_| find(reports, case.name, RATE).is_none()) else {
            continue;
        };
        for (index, row) in report.rows.iter().enumerate() {
            let name = if index == 0 { case.name } else { "" };
            let side =
                |values: &[f64]| figure(median(values), row.measure.decimals, row.measure.unit);
            let ratio = row.ratio().map_or(f64::NAN, |ratio| ratio.median);
            lines.push(vec![
                name.to_owned(),
                row.measure.name.to_owned(),
                side(&row.tidegate),
                side(&row.nginx),
                figure(ratio, 2, ""),
            ]);
        }
    }
    lines
}

/// The targets that could be evaluated.
pub(crate) fn targets(reports: &[CaseReport]) -> Cells {
    let mut lines: Cells = vec![TARGETS_HEADING.map(str::to_owned).to_vec()];
    for row in reports.iter().flat_map(|report| &report.rows).filter(|row| row.case == "targets") {
        let limit = row.measure.required.map_or("-".to_owned(), |limit| limit.to_string());
        let value = figure(median(&row.tidegate), row.measure.decimals, "");
        lines.push(vec![
            row.measure.name.to_owned(),
            value,
            limit,
            row.verdict().word().to_owned(),
        ]);
    }
    lines
}

fn figure(value: f64, decimals: usize, unit: &str) -> String {
    match (value.is_finite(), unit) {
        (false, _) => "-".to_owned(),
        (true, "") => format!("{value:.decimals$}"),
        (true, unit) => format!("{value:.decimals$} {unit}"),
    }
}

const HEADING: [&str; 15] = [
    "row",
    "what",
    "tidegate requests/s",
    "gain",
    "p50 µs",
    "p99 µs",
    "CPU µs",
    "nginx requests/s",
    "gain",
    "p50 µs",
    "p99 µs",
    "CPU µs",
    "CPU ratio",
    "published",
    "",
];
const OTHERS_HEADING: [&str; 5] = ["row", "measure", "tidegate", "nginx", "ratio"];
const TARGETS_HEADING: [&str; 4] = ["target", "figure", "wanted", "verdict"];
