//! Calls that only some crates may make, each with the reason and its replacement.

use super::Violation;
use super::source::{Source, word_positions};

/// One row: a banned call, the crates that may use it, and the reason.
struct Ban {
    call: &'static str,
    allowed_in: &'static [&'static str],
    reason: &'static str,
}

/// Crates that may use time, sockets and tasks, and programs that drive the server from outside.
const DOOR: &[&str] = &[
    "tidegate-rt",
    "tidegate-os",
    "tidegate-testkit",
    "tidegate-bench",
    "crates/tidegate/src/master",
    "xtask",
    "fuzz",
];
const NO_CRATE: &[&str] = &[];
/// The same, and application code: it runs on pool threads, where it may block.
const BLOCKING: &[&str] = &[
    "tidegate-rt",
    "tidegate-os",
    "tidegate-testkit",
    "tidegate-bench",
    "crates/tidegate/src/master",
    "xtask",
    "fuzz",
    "examples/",
];

const CLOCK: &str = "take `now` as an argument, or ask the clock of tidegate-rt: \
                     tests and the simulator set the time";
const TASKS: &str = "spawn through tidegate-rt, which counts tasks and drains them at shutdown";
const SOCKETS: &str = "sockets come from tidegate-rt, the only crate that uses tokio";
const TIMERS: &str = "timers come from tidegate-rt, the only crate that uses tokio";
const UNFINISHED: &str = "unfinished code is not committed";

const BANS: &[Ban] = &[
    Ban {
        call: "thread::sleep",
        allowed_in: BLOCKING,
        reason: "it stalls the event loop; wait for an event, or use a timer of tidegate-rt",
    },
    Ban { call: "tokio::spawn", allowed_in: DOOR, reason: TASKS },
    Ban { call: "tokio::task", allowed_in: DOOR, reason: TASKS },
    Ban { call: "tokio::net", allowed_in: DOOR, reason: SOCKETS },
    Ban { call: "tokio::time", allowed_in: DOOR, reason: TIMERS },
    Ban { call: "Instant::now", allowed_in: DOOR, reason: CLOCK },
    Ban { call: "SystemTime::now", allowed_in: DOOR, reason: CLOCK },
    Ban { call: "clock_realtime", allowed_in: DOOR, reason: CLOCK },
    Ban { call: "clock_realtime_coarse", allowed_in: DOOR, reason: CLOCK },
    Ban { call: "clock_monotonic", allowed_in: DOOR, reason: CLOCK },
    Ban { call: "clock_monotonic_coarse", allowed_in: DOOR, reason: CLOCK },
    Ban { call: "todo!", allowed_in: NO_CRATE, reason: UNFINISHED },
    Ban { call: "unimplemented!", allowed_in: NO_CRATE, reason: UNFINISHED },
    Ban { call: "dbg!", allowed_in: NO_CRATE, reason: "a leftover of debugging" },
];

/// Names that must not be imported by `use tokio::{…}` either.
const TOKIO_PARTS: &[(&str, &str)] =
    &[("net", SOCKETS), ("time", TIMERS), ("task", TASKS), ("spawn", TASKS)];

/// Crates on the path of a request: a panic there ends a request.
const REQUEST_PATH: &[&str] = &[
    "tidegate-conf",
    "tidegate-codec",
    "tidegate-fields",
    "tidegate-h2",
    "tidegate-h3",
    "tidegate-acme",
    "tidegate-jose",
    "tidegate-os",
    "tidegate-rt",
    "tidegate-cache",
    "tidegate-core",
    "tidegate-plan",
    "tidegate-upstream",
    "tidegate-front",
    "tidegate-modules",
    "tidegate-handler",
    "tidegate-wasm",
    "tidegate",
];

/// The comment that allows an `unwrap()`, on its line or the one above.
const CANNOT_FAIL: &str = "// cannot fail: ";

pub(super) fn check(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut above = "";
    for (line, masked, raw) in source.lines() {
        if !source.is_test_line(line) {
            let found = banned_in_line(source, masked)
                .into_iter()
                .chain(unwrap_in_line(source.member(), masked, raw, above).map(str::to_owned));
            violations.extend(found.map(|reason| Violation::new(&source.path, line, reason)));
        }
        above = raw;
    }
    violations.extend(check_tokio_import(source));
    violations.extend(check_unsafe(source));
    violations.extend(check_logic(source));
    violations
}

fn banned_in_line(source: &Source, masked: &str) -> Vec<String> {
    BANS.iter()
        .filter(|ban| !is_allowed(source, ban.allowed_in))
        .filter(|ban| word_positions(masked, ban.call).next().is_some())
        .map(|ban| format!("`{}`: {}", ban.call, ban.reason))
        .collect()
}

/// An entry with a slash is a path prefix, any other is the name of a member.
fn is_allowed(source: &Source, allowed_in: &[&str]) -> bool {
    allowed_in.iter().any(|entry| {
        if entry.contains('/') { source.path.starts_with(entry) } else { source.member() == *entry }
    })
}

fn unwrap_in_line(member: &str, masked: &str, raw: &str, above: &str) -> Option<&'static str> {
    let excused = [raw, above]
        .iter()
        .any(|text| text.split(CANNOT_FAIL).nth(1).is_some_and(|reason| !reason.trim().is_empty()));
    let found = REQUEST_PATH.contains(&member) && masked.contains(".unwrap()") && !excused;
    found.then_some(
        "`unwrap()` where requests pass: return an error, or say why in `// cannot fail: reason`",
    )
}

fn check_tokio_import(source: &Source) -> Vec<Violation> {
    const IMPORT: &str = "tokio::{";
    if is_allowed(source, DOOR) {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (position, _) in source.masked.match_indices(IMPORT) {
        let line = super::source::line_of(&source.masked, position);
        let rest = &source.masked[position + IMPORT.len()..];
        let list = rest.split(';').next().unwrap_or(rest);
        let parts = TOKIO_PARTS.iter().filter(|(part, _)| {
            !source.is_test_line(line)
                && list.split([',', '{', '}', ':']).any(|name| name.trim() == *part)
        });
        violations.extend(parts.map(|(part, reason)| {
            Violation::new(&source.path, line, format!("`tokio::{part}`: {reason}"))
        }));
    }
    violations
}

/// `unsafe` is allowed in one crate; all others must have `#![forbid(unsafe_code)]`.
fn check_unsafe(source: &Source) -> Vec<Violation> {
    const HOME: &str = "tidegate-os";
    if source.member() == HOME {
        return Vec::new();
    }
    let mut violations: Vec<Violation> = word_positions(&source.masked, "unsafe")
        .map(|position| {
            let line = super::source::line_of(&source.masked, position);
            Violation::new(&source.path, line, "`unsafe` belongs in tidegate-os only".to_owned())
        })
        .collect();
    let is_root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    if is_root && !source.masked.contains("#![forbid(unsafe_code)]") {
        let reason = "the crate's root lacks `#![forbid(unsafe_code)]`".to_owned();
        violations.push(Violation::new(&source.path, 1, reason));
    }
    violations
}

/// Decisions are plain functions: no runtime in them.
fn check_logic(source: &Source) -> Vec<Violation> {
    if !source.path.ends_with("/logic.rs") {
        return Vec::new();
    }
    word_positions(&source.masked, "tokio")
        .map(|position| {
            let line = super::source::line_of(&source.masked, position);
            let reason =
                "`tokio` in a logic.rs: decisions are pure, waiting belongs in another file";
            Violation::new(&source.path, line, reason.to_owned())
        })
        .collect()
}
