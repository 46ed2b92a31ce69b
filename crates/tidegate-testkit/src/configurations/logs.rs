//! Comparison of the logs of two servers about the same requests, line by line: access logs in the formats
//! of the configuration, and lines of error logs about requests.
//!
//! Lines of one form (the same but for numbers) are compared in their order; a form that only one of the two wrote,
//! or wrote more often, is a difference. Times, ports of clients and numbers of processes and connections are left out.

use super::compare::{common_words, found, replaced};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest difference of two numbers in the same position: lengths of pages and fields that name the server,
/// and of bodies that different libraries have compressed; of larger ones a share, since chunks have other sizes.
const APART_MAX: u64 = 64;
const APART_SHARE: u64 = 200;

/// Longer lines of an error log are not compared.
const ERROR_BYTES_MAX: usize = 1900;

/// Number of reported differences per configuration.
const SHOWN_MAX: usize = 6;

/// Number of reported characters of each.
const LINE_SHOWN_MAX: usize = 600;

/// The lines of each log, by the name of its file.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<String, Vec<String>>);

impl Logs {
    /// Reads all logs in a directory; `ports` are those that the clients had.
    pub(super) fn read(directory: &Path, ports: &BTreeSet<u16>) -> Self {
        let mut logs = BTreeMap::new();
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            // Line ends within a line are blanks in Tidegate's log, so that a request cannot write lines of its own.
            let text = String::from_utf8_lossy(&text).replace("\r\n", "  ").replace('\r', " ");
            let lines: Vec<String> =
                whole_lines(&text).filter_map(|line| common_line(line, ports)).collect();
            if !lines.is_empty() {
                logs.insert(entry.file_name().to_string_lossy().into_owned(), lines);
            }
        }
        Self(logs)
    }
}

/// The begin of a line of an error log: time, level, and the numbers of process and connection.
const ERROR_BEGIN: &str = r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[(\w+)\] \d+#\d+: (\*\d+ )?";

/// Returns the lines of a log. In an error log, a line without the usual begin continues a message that has line
/// ends within (nginx's at the level `debug`).
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    let is_error_log = text.lines().next().is_some_and(|line| found(line, ERROR_BEGIN));
    text.lines().filter(move |line| !is_error_log || found(line, ERROR_BEGIN))
}

/// Returns a line without parts that always differ; `None` for lines of a server about itself, and for requests whose
/// target was refused: Tidegate logs `$request_uri` nevertheless.
fn common_line(line: &str, ports: &BTreeSet<u16>) -> Option<String> {
    let error = replaced(line, ERROR_BEGIN, "ERROR ");
    let line = match error.strip_prefix("ERROR ") {
        Some(rest) => {
            let is_reported =
                [" [error] ", " [crit] ", " [alert] "].iter().any(|level| line.contains(level));
            // Long lines are cut, and not at the same byte.
            if !is_reported || !rest.contains(", client: ") || line.len() > ERROR_BYTES_MAX {
                return None;
            }
            error
        }
        None if found(line, r"\b400\b") => return None,
        None => line.to_owned(),
    };
    let line = common_words(&line);
    let port = |word: &str| word.parse::<u16>().is_ok_and(|port| ports.contains(&port));
    let mut out = String::new();
    let mut digits = String::new();
    for c in line.chars().chain(['\n']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out.push_str(if port(&digits) { "PORT" } else { &digits });
        digits.clear();
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    Some(out)
}

/// A line with its numbers apart.
fn form(line: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| at + end);
        text.push_str(&rest[..at]);
        text.push('#');
        numbers.push(rest[at..end].parse().unwrap_or(0));
        rest = &rest[end..];
    }
    text.push_str(rest);
    (text, numbers)
}

impl Logs {
    /// Leaves out the lines about certain requests, by the begins of their own lines.
    fn without(mut self, requests: &BTreeSet<String>) -> Self {
        for lines in self.0.values_mut() {
            lines.retain(|line| !requests.iter().any(|request| line.contains(request)));
        }
        self
    }
}

/// Returns the differences, as text, except lines about requests whose responses differ as `meant`.
pub(super) fn differences(nginx: Logs, tidegate: Logs, meant: &BTreeSet<String>) -> Vec<String> {
    let (nginx, tidegate) = (nginx.without(meant), tidegate.without(meant));
    let names: BTreeSet<&String> = nginx.0.keys().chain(tidegate.0.keys()).collect();
    let none = Vec::new();
    let mut reported = Vec::new();
    for name in names {
        let theirs = forms(nginx.0.get(name).unwrap_or(&none));
        let ours = forms(tidegate.0.get(name).unwrap_or(&none));
        let keys: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
        for key in keys {
            let (a, b) = (theirs.get(key), ours.get(key));
            let count = |lines: Option<&Vec<Line<'_>>>| lines.map_or(0, Vec::len);
            if count(a) != count(b) {
                let more = if count(a) > count(b) { a } else { b };
                let line = more.and_then(|lines| lines.last()).map_or("", |line| line.text);
                reported.push(format!(
                    "{name}: {} of nginx, {} of Tidegate: {line}",
                    count(a),
                    count(b)
                ));
                continue;
            }
            let pairs = a.into_iter().flatten().zip(b.into_iter().flatten());
            let apart = pairs.filter(|(a, b)| !near(&a.numbers, &b.numbers));
            reported.extend(apart.map(|(a, b)| format!("{name}: {} | {}", a.text, b.text)));
        }
    }
    reported.truncate(SHOWN_MAX);
    reported.iter_mut().for_each(|line| *line = line.chars().take(LINE_SHOWN_MAX).collect());
    reported
}

struct Line<'a> {
    numbers: Vec<u64>,
    text: &'a str,
}

fn forms(lines: &[String]) -> BTreeMap<String, Vec<Line<'_>>> {
    let mut forms: BTreeMap<String, Vec<Line<'_>>> = BTreeMap::new();
    for text in lines {
        let (key, numbers) = form(text);
        forms.entry(key).or_default().push(Line { numbers, text });
    }
    forms
}

fn near(a: &[u64], b: &[u64]) -> bool {
    let alike = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= APART_MAX.max(a / APART_SHARE);
    a.len() == b.len() && a.iter().zip(b).all(alike)
}
