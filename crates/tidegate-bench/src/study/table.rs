//! The study as text for users and as JSON for programs.

use std::fmt::Write as _;

use super::figures::{Column, OWN_COLUMNS, PUBLISHED_COLUMNS, median};
use super::published::{self, Published};
use super::{Row, Section, Study};
use crate::json::Json;
use crate::report::{align, heading};
use crate::suites::quick::OTHERS_PERCENT_MAX;

/// A table: the heading's cells, then those of each row.
pub(crate) type Cells = Vec<Vec<String>>;

impl Study {
    /// Everything for the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in heading(&self.environment) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<10} {value}");
        }
        for section in &self.sections {
            let _ = writeln!(text, "\n== {}, {} files\n", section.title(), section.files);
            let _ = writeln!(text, "{}", align(&published_cells(section)));
            text.push_str(&align(&own_cells(section)));
            for note in notes(section) {
                let _ = writeln!(text, "note: {note}");
            }
        }
        text
    }

    /// Everything, with each round's figures.
    pub(crate) fn json(&self) -> Json {
        let environment = heading(&self.environment).map(|(name, value)| (name, Json::text(value)));
        let sections = self.sections.iter().map(|section| {
            Json::Object(vec![
                ("title", Json::text(section.title())),
                ("origin_seconds", Json::Number(section.seconds)),
                ("files", Json::Number(section.files as f64)),
                ("rows", Json::List(section.rows.iter().map(json_row).collect())),
                ("published", Json::List(published_rows(section).map(json_published).collect())),
            ])
        });
        Json::Object(vec![
            ("environment", Json::Object(environment.to_vec())),
            ("clients", Json::Number(self.clients as f64)),
            ("object_bytes", Json::Number(self.object_bytes as f64)),
            ("sections", Json::List(sections.collect())),
        ])
    }
}

/// The table with the study's columns, and its published rows below the measured ones.
pub(crate) fn published_cells(section: &Section) -> Cells {
    let mut lines = cells(section, &PUBLISHED_COLUMNS);
    lines.extend(published_rows(section).map(|row| {
        let figures = row.figures.iter().zip(&PUBLISHED_COLUMNS);
        let figures = figures.map(|(value, column)| figure(*value, column.decimals));
        [published::SERVER.to_owned(), row.mode.to_owned()].into_iter().chain(figures).collect()
    }));
    lines
}

/// The table of the columns that the study does not have.
pub(crate) fn own_cells(section: &Section) -> Cells {
    cells(section, &OWN_COLUMNS)
}

/// Notes for readers of a section's tables.
pub(crate) fn notes(section: &Section) -> Vec<String> {
    let mut notes = Vec::new();
    for row in &section.rows {
        notes.extend(row.notes.iter().map(|note| format!("{}: {note}", row.entry.name)));
    }
    let others = section.rows.iter().flat_map(|row| &row.runs).map(|run| run.others_percent);
    let others = others.fold(0.0, f64::max);
    if others > OTHERS_PERCENT_MAX {
        notes.push(format!(
            "other programs took up to {others:.0} % of the server's processor; \
             repeat when the machine is quiet"
        ));
    }
    if published_rows(section).next().is_some() {
        notes.push(published::NOTE.to_owned());
    }
    notes
}

fn cells(section: &Section, columns: &[Column]) -> Cells {
    let labelled = |server: &str, mode: &str, cells: &mut dyn Iterator<Item = String>| {
        [server.to_owned(), mode.to_owned()].into_iter().chain(cells).collect()
    };
    let headings = &mut columns.iter().map(|column| column.heading.to_owned());
    let mut lines = vec![labelled("server", "mode", headings)];
    for Row { entry, runs, .. } in &section.rows {
        let cell = |column: &Column| figure(median(runs, column), column.decimals);
        lines.push(labelled(entry.server, entry.mode, &mut columns.iter().map(cell)));
    }
    lines
}

fn figure(value: f64, decimals: usize) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.decimals$}") }
}

fn published_rows(section: &Section) -> impl Iterator<Item = &'static Published> {
    let (warm, seconds) = (section.warm, section.seconds);
    published::ROWS.iter().filter(move |row| !warm && row.seconds == seconds)
}

fn json_row(row: &Row) -> Json {
    let mut members = vec![
        ("name", Json::text(row.entry.name)),
        ("server", Json::text(row.entry.server)),
        ("mode", Json::text(row.entry.mode)),
    ];
    for column in PUBLISHED_COLUMNS.iter().chain(&OWN_COLUMNS) {
        let runs: Vec<f64> = row.runs.iter().map(column.of).collect();
        let median = Json::Number(median(&row.runs, column));
        let runs = Json::numbers(&runs);
        members.push((column.key, Json::Object(vec![("median", median), ("runs", runs)])));
    }
    members.push(("notes", Json::List(row.notes.iter().map(Json::text).collect())));
    Json::Object(members)
}

fn json_published(row: &Published) -> Json {
    let mut members =
        vec![("server", Json::text(published::SERVER)), ("mode", Json::text(row.mode))];
    let figures = PUBLISHED_COLUMNS.iter().zip(row.figures);
    members.extend(figures.map(|(column, value)| (column.key, Json::Number(value))));
    Json::Object(members)
}
