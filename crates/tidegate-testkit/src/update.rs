//! `UPDATE=1`: what a failing row received takes the place of what it expected, in the case file.
//!
//! Only a literal is replaced: a status, a quoted body or field value without `*"…"`, `~"…"`, sums or repetitions, or
//! a named text. Cases with lines for one server and cases of tables stay as they are. Where nginx runs the case too,
//! both servers must have sent the same.

use crate::bell::Failure;
use crate::case::Case;
use crate::client::Client;
use crate::ops::{ClientOp, HeadCheck};
use crate::wire::Framing;
use crate::words::{Matcher, spans};
use crate::{Outcome, Report};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The part of a row's response that was not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expectation {
    Status,
    Body,
    /// By the field's name.
    Field(String),
}

/// What a row received in place of a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    /// Line of the row in the case file.
    pub line: usize,
    pub part: Expectation,
    /// The text, with placeholders for the addresses and directories of the run.
    pub text: String,
}

impl Received {
    /// What `client` has of the part that `op` compared. `unfill` puts placeholders back.
    pub(crate) fn of(
        client: &Client,
        op: &ClientOp,
        line: usize,
        unfill: impl Fn(&str) -> String,
    ) -> Option<Self> {
        let response = client.response()?;
        let (part, bytes) = match op {
            ClientOp::WaitHead(_) => {
                (Expectation::Status, response.status()?.to_string().into_bytes())
            }
            ClientOp::WaitEnd(Some(Matcher::Exact(_))) if response.framing == Framing::Complete => {
                (Expectation::Body, response.body.clone())
            }
            ClientOp::Check(HeadCheck::Field(name, Matcher::Exact(_))) => {
                let mut same = response.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
                match (same.next(), same.next()) {
                    (Some((_, value)), None) => (Expectation::Field(name.clone()), value.clone()),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let text = unfill(&String::from_utf8(bytes).ok()?);
        Some(Self { line, part, text })
    }
}

/// Rewrites the files of `cases`; returns a line for each value that was replaced. `reports` are those of the runs,
/// each with its case and what its failing row received.
pub(crate) fn update(
    reports: &[(&Case, &Report, Option<&Received>)],
) -> Result<Vec<String>, Failure> {
    let mut by_case: BTreeMap<(&PathBuf, usize), Vec<_>> = BTreeMap::new();
    for (case, report, received) in reports {
        let ran = !matches!(report.outcome, Outcome::Skipped(_));
        if ran && case.script.differs.is_empty() && !case.is_of_table() {
            by_case.entry((&case.path, case.line)).or_default().push((*case, *received));
        }
    }
    let mut done = Vec::new();
    // From the end of each file: a text of another length moves only what is behind it.
    for ((path, _), runs) in by_case.into_iter().rev() {
        let Some((case, Some(first))) = runs.first().copied() else { continue };
        if runs.iter().any(|(_, received)| *received != Some(first)) {
            continue;
        }
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(failed)?;
        if let Some(changed) = rewritten(&text, case.line, first) {
            std::fs::write(path, changed).map_err(failed)?;
            let part = match &first.part {
                Expectation::Status => "status",
                Expectation::Body => "body",
                Expectation::Field(name) => name,
            };
            done.push(format!("{}:{}: {part}", path.display(), first.line));
        }
    }
    Ok(done)
}

/// The file's text with the received value, if a literal is there. `title` is the line of the case's title.
fn rewritten(text: &str, title: usize, received: &Received) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let first = received.line.checked_sub(1)?;
    let is_more = |line: &String| line.trim_start().starts_with("| ");
    let more = lines.iter().skip(received.line).take_while(|line| is_more(line)).count();
    let mut arrow_seen = false;
    let mut before = String::new();
    for index in first..=first + more {
        for span in spans(lines.get(index)?) {
            let word = lines[index][span.clone()].to_owned();
            let is_value = before.ends_with(':');
            let is_wanted = arrow_seen
                && match &received.part {
                    Expectation::Status => before == "->",
                    Expectation::Body => !is_value && (word.starts_with(['"', '<'])),
                    Expectation::Field(name) => {
                        is_value && before[..before.len() - 1].eq_ignore_ascii_case(name)
                    }
                };
            if is_wanted {
                if let Some(name) = word.strip_prefix("<<") {
                    return replace_text(&mut lines, title, name, &received.text)
                        .then(|| lines.join("\n") + "\n");
                }
                let quoted = word.starts_with('"');
                if quoted && !is_simple(&word) {
                    return None;
                }
                let bare =
                    !quoted && received.text.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
                let new = if bare { received.text.clone() } else { quote(&received.text) };
                lines[index].replace_range(span, &new);
                return Some(lines.join("\n") + "\n");
            }
            arrow_seen |= word == "->";
            before = word;
        }
    }
    None
}

/// Replaces the block `text NAME` of the case whose title is at `title`.
fn replace_text(lines: &mut Vec<String>, title: usize, name: &str, text: &str) -> bool {
    let is_block = |line: &String| {
        let mut words = line.trim_start_matches('`').split(' ');
        line.starts_with("```") && words.next() == Some("text") && words.next() == Some(name)
    };
    let Some(at) = lines.iter().skip(title).position(is_block).map(|at| at + title) else {
        return false;
    };
    let fence: String = lines[at].chars().take_while(|c| *c == '`').collect();
    let Some(length) = lines[at + 1..].iter().position(|line| *line == fence) else { return false };
    let (end, fitting) = if lines[at].ends_with(" crlf") {
        ("\r\n", text.matches('\n').count() == text.matches("\r\n").count())
    } else {
        ("\n", !text.contains('\r'))
    };
    let new: Vec<String> = text.split(end).map(str::to_owned).collect();
    if !fitting || new.iter().any(|line| line.starts_with("```")) {
        return false;
    }
    lines.splice(at + 1..at + 1 + length, new);
    true
}

/// Whether a quoted word is one literal, without `*N` and `+`.
fn is_simple(word: &str) -> bool {
    let mut escaped = false;
    let inner = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| {
        inner.chars().all(|character| {
            let fits = character != '"' || escaped;
            escaped = character == '\\' && !escaped;
            fits
        })
    })
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\r' => quoted.push_str("\\r"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other if other.is_ascii_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(other)));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::{Expectation, Received, rewritten};

    #[test]
    fn literals_are_replaced() {
        let check = |row: &str, part: Expectation, received: &str, expected: Option<&str>| {
            let file = format!("# A\n```script\n{row}\nstop\n```\n```text t crlf\na\nb\n```\n");
            let received = Received { line: 3, part, text: received.to_owned() };
            let found = rewritten(&file, 1, &received);
            let expected = expected.map(|row| {
                let (row, text) = row.split_once('#').unwrap_or((row, "a\nb"));
                format!("# A\n```script\n{row}\nstop\n```\n```text t crlf\n{text}\n```\n")
            });
            assert_eq!(found, expected, "{row}");
        };
        let field = || Expectation::Field("x-c".to_owned());
        check("GET / -> 200 \"a\"", Expectation::Status, "404", Some("GET / -> 404 \"a\""));
        check(
            "GET / A: \"b\" -> 200 \"a\"",
            Expectation::Body,
            "\"\r",
            Some(r#"GET / A: "b" -> 200 "\"\r""#),
        );
        check(
            "GET / -> 200 X: \"b\"\n  | \"a\"",
            Expectation::Body,
            "c",
            Some("GET / -> 200 X: \"b\"\n  | \"c\""),
        );
        check("GET / -> 200 X-C: HIT", field(), "MISS", Some("GET / -> 200 X-C: MISS"));
        check("GET / -> 200 X-C: HIT", field(), "a b", Some("GET / -> 200 X-C: \"a b\""));
        check("GET / -> 200 \"a\"*3", Expectation::Body, "c", None);
        check("GET / -> 200 \"a\" + \"b\"", Expectation::Body, "c", None);
        check("GET / -> 200 *\"a\"", Expectation::Body, "c", None);
        check("GET / -> 200 <<t", Expectation::Body, "c\r\nd\r\n", Some("GET / -> 200 <<t#c\nd\n"));
        check("GET / -> 200 <<t", Expectation::Body, "c\nd", None);
    }
}
