//! The study as one HTML page that needs no other file and no script.

use std::fmt::Write as _;

use super::chart::{Picture, bars, escaped};
use super::figures::{Column, OWN_COLUMNS, PUBLISHED_COLUMNS, median};
use super::table::{Cells, notes, own_cells, published_cells};
use super::{Section, Study};
use crate::report::heading;

impl Study {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::from(HEAD);
        page.push_str("<h1>Streaming: many clients, one fill</h1><dl>");
        for (name, value) in heading(&self.environment) {
            // Writing to a String cannot fail.
            let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
        }
        page.push_str("</dl>");
        page.push_str(LEGEND);
        for section in &self.sections {
            write_section(&mut page, section);
        }
        page.push_str("</body></html>\n");
        page
    }
}

fn write_section(page: &mut String, section: &Section) {
    let title = escaped(&section.title());
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
    let extent = Picture::extent(section.rows.iter().map(|row| &row.picture));
    for row in section.rows.iter().filter(|row| !row.runs.is_empty()) {
        let server = row.entry.server;
        let title = format!("{server}, {}: bytes of each client", row.entry.mode);
        let drawing = row.picture.svg(extent, &title);
        let title = escaped(&title);
        let _ = write!(
            page,
            "<figure class=\"{server}\"><figcaption>{title}</figcaption>{drawing}</figure>"
        );
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
    let _ = write!(page, "<figure><figcaption>{title}</figcaption>{drawing}</figure>");
}

fn column(key: &str) -> Option<&'static Column> {
    PUBLISHED_COLUMNS.iter().chain(&OWN_COLUMNS).find(|column| column.key == key)
}

fn write_table(page: &mut String, cells: &Cells) {
    page.push_str("<div class=\"wide\"><table>");
    for (number, line) in cells.iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        page.push_str("<tr>");
        for cell in line {
            let _ = write!(page, "<{tag}>{}</{tag}>", escaped(cell));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

const LEGEND: &str = "<p>Byte wait: mean over all bytes of the time between a client's request and \
the byte's arrival; the origin's is what it would be straight from the origin. Followers: all who did \
not begin a fill; their first byte is counted from the fill's first byte, or from their request if \
that was later. × nginx hits: CPU per GB by what nginx needs for the same bytes from its cache. Others: \
what other programs took of the server's processor; above a few per cent the times are theirs, too. In \
the drawings each line is a client; the dashed one is the origin.</p>";

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Tidegate: streaming</title><style>
:root{color-scheme:light dark;--text:#1a1d21;--soft:#5c6570;--line:#d8dde3;--back:#fff;--tidegate:#0b7285;--other:#a0532a}
@media(prefers-color-scheme:dark){:root{--text:#e6e9ec;--soft:#9aa4af;--line:#363c44;--back:#15181c;--tidegate:#3bc9db;--other:#ffa06b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1200px;margin:2rem auto;padding:0 1rem}
h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dt,.note,figcaption{color:var(--soft)}dd{margin:0}
.wide{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line)}th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:1rem}figure{margin:0}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--line);fill:none}.clients{stroke:var(--other);fill:none;stroke-opacity:.5}
.tidegate .clients{stroke:var(--tidegate)}.origin{stroke:var(--text);fill:none;stroke-dasharray:4 3}
rect{fill:var(--other)}rect.tidegate{fill:var(--tidegate)}
</style></head><body>";
