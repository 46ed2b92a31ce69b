//! The suite as one HTML page.

use std::fmt::Write as _;

use super::super::CaseReport;
use super::advice::advice;
use super::figures::{find, median};
use super::table::{cells, notes, others, targets};
use super::{CASES, COST, RATE, Section};
use crate::chart::{bars, escaped};
use crate::page::{END, begin, write_figure, write_table};
use crate::report::Environment;

/// The page.
pub(crate) fn html(environment: &Environment, reports: &[CaseReport]) -> String {
    let mut page = begin("Tuning: the effect of each setting", environment);
    page.push_str(LEGEND);
    for section in Section::ALL {
        let cells = cells(section, reports);
        if cells.len() > 1 {
            // Writing to a String cannot fail.
            let _ = write!(page, "<h2>{}</h2><div class=\"charts\">", escaped(section.title()));
            draw(&mut page, section, reports, (RATE, 1e3), "1000 requests in a second", "k/s");
            draw(&mut page, section, reports, (COST, 1.0), "CPU of the server for a request", "µs");
            page.push_str("</div>");
            write_table(&mut page, &cells);
        }
    }
    for (title, cells) in [("Others", others(reports)), ("Targets", targets(reports))] {
        if cells.len() > 1 {
            let _ = write!(page, "<h2>{title}</h2>");
            write_table(&mut page, &cells);
        }
    }
    page.push_str("<h2>Advice for this machine</h2><ul>");
    for line in advice(reports) {
        let _ = write!(page, "<li>{}</li>", escaped(&line));
    }
    page.push_str("</ul>");
    for note in notes(reports) {
        let _ = write!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
    page.push_str(END);
    page
}

/// Two bars for each row of a section.
fn draw(
    page: &mut String,
    section: Section,
    reports: &[CaseReport],
    (measure, scale): (&str, f64),
    title: &str,
    unit: &str,
) {
    let rows = CASES.iter().filter(|case| case.section == section).flat_map(|case| {
        let row = find(reports, case.name, measure);
        row.into_iter().flat_map(|row| {
            let bar = |label: &str, values: &[f64], class: &'static str| {
                (label.to_owned(), median(values) / scale, class)
            };
            [bar(case.name, &row.tidegate, "tidegate"), bar("nginx", &row.nginx, "nginx")]
        })
    });
    let drawing = bars(title, unit, &rows.collect::<Vec<_>>(), None);
    write_figure(page, "", title, &drawing);
}

const LEGEND: &str = "<p>A closed loop of keepalive connections, first through \
nothing but <code>proxy_pass</code>, then with one setting after the other; both servers alternately, all rows \
in each round. Gains are in requests in a second against the default row. Published: the gain that a study of \
nginx gave for a row, on another machine. CPU: of all the server's processes, by the request.</p>";
