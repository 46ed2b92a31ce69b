//! The study as one HTML page.

use std::fmt::Write as _;

use super::chart::RunChart;
use super::figures::{Column, OWN_COLUMNS, PUBLISHED_COLUMNS, median};
use super::table::{notes, own_cells, published_cells};
use super::{Section, Study};
use crate::chart::{bars, escaped};
use crate::page::{END, begin, write_figure, write_table};

impl Study {
    /// The page.
    pub(crate) fn html(&self) -> String {
        let mut page = begin("Streaming: many clients, one fill", &self.environment);
        page.push_str(LEGEND);
        for section in &self.sections {
            write_section(&mut page, section);
        }
        page.push_str(END);
        page
    }
}

fn write_section(page: &mut String, section: &Section) {
    let title = escaped(&section.title());
    // Writing to a String cannot fail.
    let _ = write!(page, "<h2>{title}</h2><p>{} files for each client.</p>", section.files);
    write_table(page, &published_cells(section));
    write_table(page, &own_cells(section));
    for note in notes(section) {
        let _ = write!(page, "<p class=\"note\">{}</p>", escaped(&note));
    }
    page.push_str("<div class=\"charts\">");
    if !section.warm {
        let origin = column("origin_byte_wait_seconds").map(|column| {
            let waits = section.rows.iter().map(|row| median(&row.runs, column));
            waits.fold(f64::NAN, f64::min)
        });
        write_bars(page, section, "byte_wait_seconds", "A byte waits on average", "s", origin);
        write_bars(page, section, "first_byte_seconds", "The first byte comes after", "s", None);
    }
    write_bars(page, section, "cpu_seconds_per_gigabyte", "The server's CPU", "s/GB", None);
    write_bars(
        page,
        section,
        "memory_mebibytes",
        "The server's memory at its highest",
        "MiB",
        None,
    );
    page.push_str("</div><div class=\"charts\">");
    let extent = RunChart::extent(section.rows.iter().map(|row| &row.picture));
    for row in section.rows.iter().filter(|row| !row.runs.is_empty()) {
        let server = row.entry.server;
        let title = format!("{server}, {}: bytes of each client", row.entry.mode);
        let drawing = row.picture.svg(extent, &title);
        write_figure(page, server, &title, &drawing);
    }
    page.push_str("</div>");
}

fn write_bars(
    page: &mut String,
    section: &Section,
    key: &str,
    title: &str,
    unit: &str,
    mark: Option<f64>,
) {
    let Some(column) = column(key) else { return };
    let rows = section.rows.iter().map(|row| {
        let label = format!("{} {}", row.entry.server, row.entry.mode);
        (label, median(&row.runs, column), row.entry.server)
    });
    let drawing = bars(title, unit, &rows.collect::<Vec<_>>(), mark);
    write_figure(page, "", title, &drawing);
}

fn column(key: &str) -> Option<&'static Column> {
    PUBLISHED_COLUMNS.iter().chain(&OWN_COLUMNS).find(|column| column.key == key)
}

const LEGEND: &str = "<p>Byte wait: mean over all bytes of the time between a client's request and \
the byte's arrival; the origin's is that of a direct request to the origin. Followers: all clients that did \
not begin a fill; their first byte is counted from the fill's first byte, or from their request if \
that was later. × nginx hits: CPU per GB by what nginx needs for the same bytes from its cache. Others: \
what other programs took of the server's processor; above a few per cent the times are theirs, too. In \
the drawings each line is a client; the dashed one is the origin.</p>";
