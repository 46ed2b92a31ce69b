//! `docs/directives.md`: the directives of nginx that the server accepts, determined by running it.
//!
//! For every directive and context of nginx's list a configuration with that one statement is given to
//! `tidegate -t`. With the output "is not supported" the directive does not work there; any other output
//! means that it is known. Directives without effect are those of which the manual says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::docs;

const LIST: &str = "crates/tidegate-conf/data/nginx-directives.tsv";
const PAGE: &str = "docs/directives.md";
const REFUSAL: &str = "directive is not supported";
/// The sentence of the manual about a directive without effect.
const NO_EFFECT: &str = "A valid value is accepted and has no effect.";

/// Groups of modules in the counts of the page, by the prefix of their names; the last one has the rest.
const GROUPS: [(&str, &str); 4] = [
    ("http", "ngx_http_"),
    ("mail", "ngx_mail_"),
    ("stream", "ngx_stream_"),
    ("core and events", ""),
];

/// One line of nginx's list.
struct Row {
    module: String,
    name: String,
    /// Contexts of nginx's list.
    contexts: Vec<String>,
    /// Contexts in which the server has the directive.
    known: Vec<String>,
}

/// The entry of a directive in the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Works {
    Yes,
    Accepted,
    No,
}

/// Writes the page. `arguments` is the program to run.
///
/// # Errors
/// No program, or a file that cannot be read or written.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let [program] = arguments else {
        return Err("usage: cargo xtask directives target/debug/tidegate".to_owned());
    };
    let program = root.join(program);
    let page = root.join(PAGE);
    let before = read(&page)?;
    let accepted = accepted(docs::pages(&program)?.values());
    let directory = root.join("target/directives");
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut rows = rows(&read(&root.join(LIST))?);
    for row in &mut rows {
        for context in &row.contexts {
            if knows(&program, &directory, row.module.as_str(), &row.name, context)? {
                row.known.push(context.clone());
            }
        }
    }
    let after = written(&before, &rows, &accepted);
    std::fs::write(&page, after).map_err(|error| format!("{}: {error}", page.display()))?;
    Ok(true)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn rows(list: &str) -> Vec<Row> {
    let lines = list.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let whole = lines.filter_map(|fields| match fields[..] {
        [module, name, contexts, ..] => Some(Row {
            module: module.to_owned(),
            name: name.to_owned(),
            contexts: contexts.split(',').map(|context| context.trim().to_owned()).collect(),
            known: Vec::new(),
        }),
        _ => None,
    });
    whole.collect()
}

/// Whether the server has a directive in a context.
fn knows(
    program: &Path,
    directory: &Path,
    module: &str,
    name: &str,
    context: &str,
) -> Result<bool, String> {
    let file: PathBuf = directory.join("asked.conf");
    let text = configuration(module, name, context);
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let response =
        Command::new(program).arg("-t").arg("-p").arg(directory).arg("-c").arg(&file).output();
    let response = response.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(!String::from_utf8_lossy(&response.stderr).contains(REFUSAL))
}

/// Returns a configuration with one statement of this name in this context.
fn configuration(module: &str, name: &str, context: &str) -> String {
    let statement = format!("{name} asked;");
    let (outer, statement) = match module {
        module if module.starts_with("ngx_stream_") => ("stream", statement),
        module if module.starts_with("ngx_mail_") => ("mail", statement),
        _ => ("http", statement),
    };
    let server = |inner: String| format!("{outer} {{ server {{ {inner} }} }}");
    let body = match context {
        "main" | "any" => statement,
        "events" => return format!("events {{ {statement} }}"),
        "http" | "stream" | "mail" => format!("{context} {{ {statement} }}"),
        "server" => server(statement),
        "location" => server(format!("location / {{ {statement} }}")),
        "if in server" => server(format!("if ($uri) {{ {statement} }}")),
        "if in location" => server(format!("location / {{ if ($uri) {{ {statement} }} }}")),
        "limit_except" => server(format!("location / {{ limit_except GET {{ {statement} }} }}")),
        "acme_issuer" => format!("http {{ acme_issuer asked {{ {statement} }} }}"),
        "otel_exporter" => format!("http {{ otel_exporter {{ {statement} }} }}"),
        "upstream" => format!("{outer} {{ upstream asked {{ {statement} }} }}"),
        other => format!("{other} {{ {statement} }}"),
    };
    format!("events {{ }}\n{body}\n")
}

/// Returns the names of all directives without effect, from the pages of the manual.
fn accepted<'p>(pages: impl IntoIterator<Item = &'p String>) -> BTreeSet<String> {
    let mut name = "";
    let mut found = BTreeSet::new();
    for line in pages.into_iter().flat_map(|page| page.lines()) {
        if let Some(title) = line.strip_prefix("## ") {
            name = title.trim_matches('`');
        } else if line == NO_EFFECT {
            found.insert(name.to_owned());
        }
    }
    found
}

fn works(row: &Row, accepted: &BTreeSet<String>) -> Works {
    match row.known.is_empty() {
        true => Works::No,
        false if accepted.contains(&row.name) => Works::Accepted,
        false => Works::Yes,
    }
}

/// Returns the page: the text above the counts unchanged except for its figures, then counts and tables.
fn written(before: &str, rows: &[Row], accepted: &BTreeSet<String>) -> String {
    let count = |which: Works, group: &str| {
        rows.iter()
            .filter(|row| group_of(row) == group || group == "all")
            .filter(|row| works(row, accepted) == which)
            .count()
    };
    let figures =
        |group: &str| [Works::Yes, Works::Accepted, Works::No].map(|which| count(which, group));
    let [yes, taken, no] = figures("all");
    let head = before.split("\n## Counts").next().unwrap_or_default();
    let introduction = head.split_once("\n\n- **yes**").map_or(head, |(_, rest)| rest);
    let mut page = format!(
        "# Directives\n\nThe directives of nginx's open-source modules, and whether Tidegate has them. Of {}, \
         **{yes} work**, {taken} more are read and\nchecked but change nothing, and {no} are refused as \
         \"not supported yet\", by name and with their place.\n\n- **yes**{introduction}\n## Counts\n\n\
         | | directives | yes | accepted | no |\n|---|---:|---:|---:|---:|\n",
        rows.len(),
    );
    for group in ["core and events", "http", "mail", "stream", "all"] {
        let [yes, taken, no] = figures(group);
        let name = if group == "all" { "**all**" } else { group };
        let _ = writeln!(page, "| {name} | {} | {yes} | {taken} | {no} |", yes + taken + no);
    }
    let mut modules: Vec<(&str, Vec<&Row>)> = Vec::new();
    let mut places = BTreeMap::new();
    for row in rows {
        let place = *places.entry(row.module.as_str()).or_insert_with(|| {
            modules.push((&row.module, Vec::new()));
            modules.len() - 1
        });
        modules[place].1.push(row);
    }
    let is_there = |rows: &[&Row]| rows.iter().any(|row| !row.known.is_empty());
    page.push_str("\n## Modules with directives that work\n");
    for (module, rows) in modules.iter().filter(|(_, rows)| is_there(rows)) {
        table(module, rows, accepted, &mut page);
    }
    page.push_str("\n## Modules without\n\n| module | directives |\n|---|---|\n");
    for (module, rows) in modules.iter().filter(|(_, rows)| !is_there(rows)) {
        let names: Vec<_> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
        let _ = writeln!(page, "| {module} | {} |", names.join(", "));
    }
    page
}

fn group_of(row: &Row) -> &'static str {
    let found = GROUPS.iter().find(|(_, start)| row.module.starts_with(start));
    found.map_or("", |(group, _)| group)
}

fn table(module: &str, rows: &[&Row], accepted: &BTreeSet<String>, page: &mut String) {
    let known = rows.iter().filter(|row| !row.known.is_empty()).count();
    let _ = writeln!(page, "\n### {module}\n\n{known} of {}\n", rows.len());
    page.push_str("| directive | contexts | works |\n|---|---|---|\n");
    for row in rows {
        let says = match works(row, accepted) {
            Works::Yes if row.known.len() < row.contexts.len() => {
                format!("yes: {}", row.known.join(", "))
            }
            Works::Yes => "yes".to_owned(),
            Works::Accepted => "accepted".to_owned(),
            Works::No => "no".to_owned(),
        };
        let _ = writeln!(page, "| `{}` | {} | {says} |", row.name, row.contexts.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::{NO_EFFECT, accepted, configuration, rows, written};

    #[test]
    fn the_page_has_counts_and_tables() {
        let list = "module\tdirective\tcontexts\targs\nngx_http_a_module\tone\thttp,server\t1\n\
                    ngx_http_a_module\ttwo\tlocation\t1\nngx_mail_b_module\tthree\tmail\t1\n";
        let before = "# Directives\n\nOld figures.\n\n- **yes**: taken\n\n## Counts\n\n\
                      ### ngx_http_a_module\n\n| `one` | location | accepted |\n";
        let manual =
            format!("# Module `a`\n\n## `one`\n\nOne.\n\n## `two`\n\nTwo.\n\n{NO_EFFECT}\n");
        let accepted = accepted([&manual]);
        let mut rows = rows(list);
        rows[0].known = vec!["http".to_owned()];
        rows[1].known = vec!["location".to_owned()];
        let page = written(before, &rows, &accepted);
        assert!(page.contains("Of 3, **1 work**, 1 more"), "{page}");
        assert!(page.contains("| `one` | http, server | yes: http |"), "{page}");
        assert!(page.contains("| `two` | location | accepted |"), "{page}");
        assert!(page.contains("| ngx_mail_b_module | `three` |"), "{page}");
        assert!(page.contains("\n\n- **yes**: taken\n\n## Counts\n"), "{page}");
        assert_eq!(written(&page, &rows, &accepted), page);
    }

    #[test]
    fn a_statement_is_put_where_it_belongs() {
        let stream = configuration("ngx_stream_proxy_module", "proxy_pass", "server");
        assert!(stream.contains("stream { server { proxy_pass asked; } }"), "{stream}");
        let condition = configuration("ngx_http_rewrite_module", "set", "if in location");
        assert!(condition.contains("location / { if ($uri) { set asked; } }"), "{condition}");
    }
}
