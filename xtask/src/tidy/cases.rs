//! Rules for tests: no sleep, no fixed port, no silently ignored test.

use super::Violation;
use super::source::{Source, word_positions};

const SLEEP: &str = "a test waits for an event with one deadline, it does not sleep";
const PORT: &str = "tests with a fixed port conflict: bind port 0, or use a placeholder";
const LONG: &str =
    "at most 160 characters: `| ` continues a statement, ```text NAME holds a long text";
/// Longest line of a case, outside of the blocks in [`UNBOUNDED`].
const CHARACTERS_MAX: usize = 160;
/// Blocks whose lines cannot be broken: tables, and contents byte for byte.
const UNBOUNDED: &[&str] = &["each", "file", "text"];
const IGNORED: &str = "an ignored test gets forgotten: correct it, or list the gap with its reason";

/// Rust tests.
pub(super) fn check_rust(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (line, masked, raw) in source.lines() {
        let mut refuse =
            |reason: &str| violations.push(Violation::new(&source.path, line, reason.to_owned()));
        let in_test = source.is_test_line(line);
        if in_test && (masked.contains("thread::sleep") || masked.contains("tokio::time::sleep")) {
            refuse(SLEEP);
        }
        if in_test && opens_socket(masked) && has_fixed_port(raw) {
            refuse(PORT);
        }
        if masked.contains("#[ignore") {
            refuse(IGNORED);
        }
    }
    violations
}

/// End-to-end cases in Markdown: `nginx` blocks listen on placeholders, scripts wait for events, lines fit a screen.
pub(super) fn check_markdown(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut block = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(info.trim()) };
            continue;
        }
        let kind = block.map(|info: &str| info.split(' ').next().unwrap_or_default());
        let reason = match block {
            _ if line.chars().count() > CHARACTERS_MAX
                && !kind.is_some_and(|kind| UNBOUNDED.contains(&kind)) =>
            {
                LONG
            }
            Some(_) if listens_on_fixed_port(line) => PORT,
            Some("script") if word_positions(line, "sleep").next().is_some() => SLEEP,
            _ => continue,
        };
        violations.push(Violation::new(path, index + 1, reason.to_owned()));
    }
    violations
}

/// Calls that open a socket at an address; a parser's test may name any port.
fn opens_socket(masked: &str) -> bool {
    ["bind(", "connect(", "listen(", "connect_timeout("].iter().any(|call| masked.contains(call))
}

/// `…:8080"`, or `("…", 8080)` as an address of two parts.
fn has_fixed_port(raw: &str) -> bool {
    let after_colon = raw.match_indices(':').any(|(at, _)| {
        let digits: String = raw[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        let closed = raw[at + 1 + digits.len()..].starts_with('"');
        closed && digits.parse::<u16>().is_ok_and(|port| port != 0)
    });
    let after_comma = raw.match_indices("\", ").any(|(at, _)| {
        let digits: String = raw[at + 3..].chars().take_while(char::is_ascii_digit).collect();
        let closed = raw[at + 3 + digits.len()..].starts_with(')');
        closed && digits.parse::<u16>().is_ok_and(|port| port != 0)
    });
    after_colon || after_comma
}

fn listens_on_fixed_port(line: &str) -> bool {
    word_positions(line, "listen").any(|at| {
        let argument = line[at + "listen".len()..].trim_start();
        let argument = argument.split([' ', ';', '\t']).next().unwrap_or("");
        let port = argument.rsplit(':').next().unwrap_or("");
        port.parse::<u16>().is_ok_and(|port| port != 0)
    })
}
