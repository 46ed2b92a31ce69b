//! The dashboards for Grafana: they ask for metrics and labels that the server writes, and are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::testing::Bench;

/// Labels of families that may have no line in the test, by the beginnings of their names.
const LABELS: [(&str, &str); 9] = [
    ("tidegate_upstream_first_byte_", "upstream"),
    ("tidegate_upstream_first_byte_", "server"),
    ("tidegate_upstream_last_byte_", "upstream"),
    ("tidegate_upstream_last_byte_", "server"),
    ("tidegate_stream_upstream_first_byte_", "upstream"),
    ("tidegate_stream_upstream_first_byte_", "server"),
    ("tidegate_loop_", "thread"),
    ("tidegate_certificate_", "file"),
    ("tidegate_thread_pool_", "pool"),
];
/// Labels that a scrape adds.
const OF_SCRAPE: [&str; 3] = ["job", "instance", "le"];

#[test]
fn dashboards_ask_for_what_is_written() {
    let written = written();
    let mut asked = 0;
    for (file, board) in boards() {
        for expression in expressions(&board) {
            let mut known: BTreeSet<&str> = OF_SCRAPE.into();
            for (name, matched) in metrics(&expression) {
                let family =
                    written.get(name).or_else(|| written.get(name.strip_suffix("_bucket")?));
                let labels = family.unwrap_or_else(|| panic!("{file}: {name} is not written"));
                for label in matched {
                    let is_there = labels.contains(label) || OF_SCRAPE.contains(&label);
                    assert!(is_there, "{file}: {name} has no label {label}");
                }
                known.extend(labels.iter().map(String::as_str));
                asked += 1;
            }
            for label in grouped(&expression) {
                assert!(known.contains(label), "{file}: no label {label} in {expression}");
            }
        }
    }
    assert!(asked > 50, "{asked} metrics");
}

#[test]
fn dashboards_are_complete() {
    let mut uids = BTreeSet::new();
    for (file, board) in boards() {
        assert!(board["schemaVersion"].as_u64() >= Some(39), "{file}");
        assert!(board["title"].as_str().is_some_and(|title| title.starts_with("Tidegate / ")));
        assert!(uids.insert(board["uid"].to_string()), "{file}: uid twice");
        let variables = board["templating"]["list"].as_array().expect("a list");
        let mut names: BTreeSet<&str> =
            variables.iter().map(|variable| variable["name"].as_str().expect("a name")).collect();
        names.insert("__rate_interval");
        for expression in expressions(&board) {
            for name in expression.split('$').skip(1) {
                let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                assert!(name.is_some_and(|name| names.contains(name)), "{file}: {expression}");
            }
        }
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in board["panels"].as_array().expect("panels") {
            let title = &panel["title"];
            assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{file}: {title}: id twice");
            let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
            assert!(place("x") + place("w") <= 24, "{file}: {title} is too wide");
            for cell in cells(place("x"), place("y"), place("w"), place("h")) {
                assert!(taken.insert(cell), "{file}: {title} covers another panel");
            }
            if panel["type"] == "row" {
                continue;
            }
            assert!(panel["fieldConfig"]["defaults"].is_object(), "{file}: {title}");
            for target in panel["targets"].as_array().expect("targets") {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{file}: {title}");
                assert!(target["refId"].is_string() && target["expr"].is_string());
            }
        }
    }
    assert_eq!(uids.len(), 3);
}

/// The dashboards by the names of their files.
fn boards() -> BTreeMap<String, Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana");
    let files = std::fs::read_dir(directory).expect("a directory");
    let board = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.expect("a file");
        let text = std::fs::read(file.path()).expect("readable");
        let name = file.file_name().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&text).expect("JSON"))
    };
    files.map(board).collect()
}

/// All names that the server writes, with their labels.
fn written() -> BTreeMap<String, BTreeSet<String>> {
    let bench = Bench::of_file(
        "http {
            proxy_cache_path cache keys_zone=c:1m max_size=1m;
            limit_req_zone $scheme zone=r:1m rate=1r/s; limit_conn_zone $scheme zone=n:1m;
            upstream u { zone u 64k; server 127.0.0.1:1; }
            server { server_timing on; status_zone s; location / { status_zone l; metrics tidegate; } }
        }
        stream {
            upstream u { zone su 64k; server 127.0.0.1:1; }
            server { listen 127.0.0.1:1; status_zone s; proxy_pass u; }
        }",
    );
    let text = bench.text("/");
    let mut families: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        let labels = LABELS.iter().filter(|(start, _)| name.starts_with(start));
        families.insert(name.to_owned(), labels.map(|(_, label)| (*label).to_owned()).collect());
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        for (name, labels) in metrics(line) {
            let ends = ["_bucket", "_sum", "_count"];
            let base = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let name = if families.contains_key(name) { name } else { base };
            let known = families.get_mut(name).expect("a line of a family");
            known.extend(labels.into_iter().map(str::to_owned));
        }
    }
    families
}

/// All expressions of a dashboard: of panels, annotations and variables.
fn expressions(board: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(board, &mut found);
    found
}

fn collect(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
            Value::String(text) if matches!(name.as_str(), "expr" | "definition") => {
                out.push(text.clone());
            }
            value => collect(value, out),
        }),
        Value::Array(all) => all.iter().for_each(|value| collect(value, out)),
        _ => {}
    }
}

/// The metrics of an expression or a line, with the labels in their braces.
fn metrics(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    let starts = text.match_indices("tidegate_").map(|(at, _)| at);
    for start in starts.filter(|at| *at == 0 || !is_word(text.as_bytes()[at - 1])) {
        let rest = &text[start..];
        let end = rest.find(|c: char| !is_word(c as u8)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        // Values have no commas here.
        let labels = labels.into_iter().flat_map(|labels| labels.split(','));
        let names = labels.map(|label| label.split(['=', '!']).next().unwrap_or_default());
        found.push((name, names.filter(|name| !name.is_empty()).collect()));
    }
    found
}

/// The labels by which an expression groups.
fn grouped(expression: &str) -> Vec<&str> {
    let lists = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',').map(str::trim)).collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn cells(x: u64, y: u64, w: u64, h: u64) -> impl Iterator<Item = (u64, u64)> {
    (y..y + h).flat_map(move |row| (x..x + w).map(move |column| (column, row)))
}
