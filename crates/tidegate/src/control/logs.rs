//! `log`, `slow`: requests, as they end and after it.

use std::io::{BufRead, Read};
use std::time::Duration;

use serde_json::Value;
use tidegate_os::os_error;
use tidegate_rt::timer::pause;

use super::Session;
use super::client::encoded;
use super::failure::Failure;
use super::screen::{bytes, escaped_json, number, text};

/// Requests that are awaited without `-f` and `-n`.
const COUNT_DEFAULT: u64 = 10;
/// Time between the end of a log and the next attempt to follow it.
const BETWEEN_LOGS: Duration = Duration::from_millis(200);
/// Longest line that a server sends.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// `log`.
pub(super) fn log(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let count = match session.given.value("count") {
        Some(text) => {
            let number = text.parse().ok().filter(|count| *count > 0);
            number.ok_or_else(|| Failure::Usage(format!("invalid count \"{text}\"")))?
        }
        None if session.given.flag("follow") => u64::MAX,
        None => COUNT_DEFAULT,
    };
    let query = encoded(session.given.value("query").unwrap_or_default());
    let (client, path) = (session.client()?, format!("tidegate/log?query={query}"));
    let mut lines = client.lines(&path)?.body;
    let mut printed = 0;
    while printed < count {
        let mut line = Vec::new();
        let failed =
            |error| Failure::NoServer(format!("the server is gone ({})", os_error(&error)));
        lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?;
        if line.is_empty() {
            // A reload, or the end of the server: connecting tells.
            pause(BETWEEN_LOGS);
            lines = client.lines(&path)?.body;
            continue;
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        // A sign of life.
        if line.is_empty() {
            continue;
        }
        let record: Value = serde_json::from_str(line)
            .map_err(|_| Failure::Other("the server sent no line of a log".to_owned()))?;
        match record.get("dropped").and_then(Value::as_u64) {
            Some(dropped) => {
                eprintln!("tidegate log: {dropped} requests are missing: they came too fast");
            }
            None if session.json() => {
                session.screen.line(&escaped_json(line))?;
                printed += 1;
            }
            None => {
                session.screen.line(&shown(&record))?;
                printed += 1;
            }
        }
    }
    Ok(())
}

/// Returns the line of a request for people.
fn shown(record: &Value) -> String {
    let seconds = record["time"].as_f64().unwrap_or(0.0);
    let mut line = format!(
        "{} {} {} {} {} {seconds:.3}s {}",
        text(record, "/at"),
        text(record, "/client"),
        text(record, "/host"),
        number(record, "/status"),
        bytes(number(record, "/sent")),
        text(record, "/request"),
    );
    for name in ["upstream", "cache", "verdict"] {
        let value = record[name].as_str().unwrap_or_default();
        if !value.is_empty() && value != "none" {
            line.push_str(&format!(" {name}={value}"));
        }
    }
    line
}

/// `slow`.
pub(super) fn slow(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let all = session.client()?.get("tidegate/slow")?;
    if session.json() {
        return session.screen.json(&all);
    }
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return session.screen.line("no slow request is known; `slow_log` decides which are slow");
    }
    for one in all {
        let number = |name: &str| one[name].as_f64().unwrap_or(0.0);
        session.screen.line(&format!(
            "{} {:.3}s {}({:.3}s) {} {} {} {}",
            text(one, "/time"),
            number("request_time"),
            text(one, "/verdict"),
            number("share"),
            text(one, "/client"),
            one["status"],
            text(one, "/host"),
            text(one, "/request"),
        ))?;
    }
    Ok(())
}
