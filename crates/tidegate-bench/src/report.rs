//! The report: an aligned table for users, JSON for programs.

use std::fmt::Write as _;

use crate::chart::escaped;
use crate::json::Json;
use crate::machine::Processors;
use crate::options::{Options, Suite};
use crate::page::write_table;
use crate::procfs;
use crate::server::Binary;
use crate::statistics::{Limit, Spread, TargetResult};
use crate::suites::{CaseReport, Row, is_not_served};

/// The machine and the programs of the figures.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub kernel: String,
    pub processor: String,
    pub tidegate: String,
    /// nginx's version and path, or that it is not installed.
    pub nginx: String,
    pub nginx_installed: bool,
    pub runs: String,
}

impl Environment {
    pub(crate) fn collect(
        tidegate: &Binary,
        nginx: Option<&Binary>,
        processors: Processors,
        options: &Options,
    ) -> Environment {
        let (kernel, processor) = procfs::machine();
        let describe = |binary: &Binary| format!("{} ({})", binary.version, binary.path.display());
        let shared =
            if processors.server == processors.client { " (shared: rates are low)" } else { "" };
        Environment {
            kernel,
            processor,
            tidegate: describe(tidegate),
            nginx: nginx.map_or_else(|| NOT_INSTALLED.to_owned(), describe),
            nginx_installed: nginx.is_some(),
            runs: format!(
                "{} rounds {}; server on CPU {}, load and origin on CPU {}{shared}",
                options.rounds,
                load(options),
                processors.server,
                processors.client,
            ),
        }
    }
}

/// What each round consists of.
fn load(options: &Options) -> String {
    match options.suite {
        Suite::Streaming => {
            let mebibytes = options.object_bytes as f64 / 1024.0 / 1024.0;
            format!("with {} clients on files of {mebibytes} MiB", options.clients)
        }
        Suite::Fairness => {
            format!("of {} s, one quiet client", options.run_time.as_secs_f64())
        }
        Suite::Protocols => {
            let seconds = options.run_time.as_secs_f64();
            let (connections, idle) = (options.connections, options.idle_connections);
            format!("of {seconds} s, {connections} connections of HTTP/1.1, {idle} idle ones")
        }
        Suite::Quick
        | Suite::Steady
        | Suite::Depth
        | Suite::Blocking
        | Suite::Growth
        | Suite::Tuning => {
            let seconds = options.run_time.as_secs_f64();
            format!("of {seconds} s, {} connections", options.connections)
        }
    }
}

/// The table with its head and its notes.
pub(crate) fn table(environment: &Environment, reports: &[CaseReport]) -> String {
    let mut text = String::new();
    for (name, value) in heading(environment) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10} {value}");
    }
    text.push('\n');
    text.push_str(&rows(environment, reports));
    text
}

/// The rows and their notes alone.
pub(crate) fn rows(environment: &Environment, reports: &[CaseReport]) -> String {
    let mut text = align(&all_cells(environment, reports));
    let notes: Vec<&String> = reports.iter().flat_map(|report| &report.notes).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// The table and its notes as part of a page.
pub(crate) fn write_rows(page: &mut String, environment: &Environment, reports: &[CaseReport]) {
    write_table(page, &all_cells(environment, reports));
    for note in reports.iter().flat_map(|report| &report.notes) {
        let _ = write!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
}

fn all_cells(environment: &Environment, reports: &[CaseReport]) -> Vec<Vec<String>> {
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut last_case = "";
    for row in reports.iter().flat_map(|report| &report.rows) {
        let case = if row.case == last_case { "" } else { row.case };
        last_case = row.case;
        lines.push(cells(case, row, environment.nginx_installed).to_vec());
    }
    lines
}

/// Everything, with each run's figures.
pub(crate) fn json(environment: &Environment, reports: &[CaseReport]) -> Json {
    let heading = heading(environment).map(|(name, value)| (name, Json::text(value)));
    let rows = reports.iter().flat_map(|report| &report.rows).map(json_row).collect();
    let notes = reports.iter().flat_map(|report| &report.notes).map(Json::text).collect();
    Json::Object(vec![
        ("environment", Json::Object(heading.to_vec())),
        ("rows", Json::List(rows)),
        ("notes", Json::List(notes)),
    ])
}

/// Names and values of the lines above the figures.
pub(crate) fn heading(environment: &Environment) -> [(&'static str, &str); 5] {
    [
        ("tidegate", &environment.tidegate),
        ("nginx", &environment.nginx),
        ("kernel", &environment.kernel),
        ("processor", &environment.processor),
        ("runs", &environment.runs),
    ]
}

fn json_row(row: &Row) -> Json {
    let ratio = row.ratio();
    let number = |value: Option<f64>| value.map_or(Json::Null, Json::Number);
    Json::Object(vec![
        ("case", Json::text(row.case)),
        ("measure", Json::text(row.measure.name)),
        ("unit", Json::text(row.measure.unit)),
        ("tidegate", json_side(&row.tidegate)),
        ("nginx", json_side(&row.nginx)),
        ("ratio", number(ratio.map(|ratio| ratio.median))),
        ("ratio_minimum", number(ratio.map(|ratio| ratio.minimum))),
        ("ratio_maximum", number(ratio.map(|ratio| ratio.maximum))),
        ("ratio_of_best", number(row.best_ratio())),
        ("target", number(row.measure.target)),
        ("required", json_limit(row.measure.required)),
        ("errors", Json::Number(row.errors as f64)),
        ("verdict", Json::text(row.verdict().word())),
    ])
}

fn json_limit(limit: Option<Limit>) -> Json {
    limit.map_or(Json::Null, |limit| Json::text(limit.to_string()))
}

pub(crate) fn json_side(values: &[f64]) -> Json {
    let Some(spread) = Spread::of(values) else { return Json::Null };
    Json::Object(vec![
        ("median", Json::Number(spread.median)),
        ("minimum", Json::Number(spread.minimum)),
        ("maximum", Json::Number(spread.maximum)),
        ("runs", Json::numbers(values)),
    ])
}

fn cells(case: &str, row: &Row, nginx_installed: bool) -> [String; COLUMNS.len()] {
    let measure = row.measure;
    let side = |values: &[f64], absent: &str| match Spread::of(values) {
        Some(spread) => figures(spread, measure.decimals),
        None if values.is_empty() => absent.to_owned(),
        None if is_not_served(values) => "not served".to_owned(),
        None => "-".to_owned(),
    };
    let ratio = row.ratio();
    let name = match measure.unit {
        "" => measure.name.to_owned(),
        unit => format!("{}, {unit}", measure.name),
    };
    [
        case.to_owned(),
        name,
        side(&row.tidegate, "failed"),
        side(
            &row.nginx,
            match (row.measure.alone, nginx_installed) {
                (true, _) => "-",
                (false, true) => "failed",
                (false, false) => NOT_INSTALLED,
            },
        ),
        ratio.map_or("-".to_owned(), |ratio| figures(ratio, 2)),
        row.best_ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        match (measure.required, measure.target) {
            (Some(limit), _) => limit.to_string(),
            (None, Some(target)) => format!("≤ {target:.2}"),
            (None, None) => "-".to_owned(),
        },
        match row.verdict() {
            TargetResult::Errors => format!("{} errors", row.errors),
            verdict => verdict.word().to_owned(),
        },
    ]
}

/// Median and, in parentheses, minimum and maximum unless all are the same.
pub(crate) fn figures(spread: Spread, decimals: usize) -> String {
    let Spread { median, minimum, maximum } = spread;
    if minimum == maximum {
        return format!("{median:.decimals$}");
    }
    format!("{median:.decimals$} ({minimum:.decimals$}–{maximum:.decimals$})")
}

/// Columns as wide as their widest cell, counted in characters.
pub(crate) fn align(lines: &[impl AsRef<[String]>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.as_ref().len()), 0);
        for (cell, width) in line.as_ref().iter().zip(&mut widths) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut padded = String::new();
        for (cell, &width) in line.as_ref().iter().zip(&widths) {
            let _ = write!(padded, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", padded.trim_end());
        if number == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(text, "{}", rule.join("  "));
        }
    }
    text
}

const COLUMNS: [&str; 8] =
    ["case", "measure", "tidegate", "nginx", "ratio", "best", "target", "verdict"];
const NOT_INSTALLED: &str = "not installed";
