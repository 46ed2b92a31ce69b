//! Parts of all pages. A page needs no other file and no script.

use std::fmt::Write as _;

use crate::chart::escaped;
use crate::report::{Environment, heading};

/// Begins a page: its title, and the environment of the figures.
pub(crate) fn begin(title: &str, environment: &Environment) -> String {
    let title = escaped(title);
    let mut page =
        format!("{STYLE}<title>Tidegate: {title}</title></head><body><h1>{title}</h1><dl>");
    for (name, value) in heading(environment) {
        // Writing to a String cannot fail.
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    }
    page.push_str("</dl>");
    page
}

/// A table whose first line is its head.
pub(crate) fn write_table(page: &mut String, cells: &[Vec<String>]) {
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

/// A drawing with its title, of a class or of none.
pub(crate) fn write_figure(page: &mut String, class: &str, title: &str, drawing: &str) {
    let title = escaped(title);
    let _ = write!(
        page,
        "<figure class=\"{class}\"><figcaption>{title}</figcaption>{drawing}</figure>"
    );
}

/// The end of a page.
pub(crate) const END: &str = "</body></html>\n";

const STYLE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><style>
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
.line path{stroke:var(--other);fill:none;stroke-width:2}.line circle{fill:var(--other)}
.line.tidegate path{stroke:var(--tidegate)}.line.tidegate circle{fill:var(--tidegate)}
rect{fill:var(--other)}rect.tidegate{fill:var(--tidegate)}
</style>";
