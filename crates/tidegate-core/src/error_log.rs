//! The error log: nginx's levels and line shape, to files, standard error and syslog.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::exchange::Exchange;
use crate::log_file::LogFile;
use crate::syslog::Syslog;

/// Severity, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Emerg,
    Alert,
    Crit,
    Error,
    Warn,
    Notice,
    Info,
    Debug,
}

/// Names as the directive and the lines spell them.
pub const LEVELS: &[(&str, Level)] = &[
    ("emerg", Level::Emerg),
    ("alert", Level::Alert),
    ("crit", Level::Crit),
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("notice", Level::Notice),
    ("info", Level::Info),
    ("debug", Level::Debug),
];

impl Level {
    pub fn name(self) -> &'static str {
        LEVELS[self as usize].0
    }
}

/// Where lines go.
#[derive(Clone)]
pub enum Sink {
    File(Arc<LogFile>),
    Stderr,
    Syslog(Arc<Syslog>),
}

/// One or several sinks with a level each.
#[derive(Clone, Default)]
pub struct ErrorLog {
    sinks: Arc<[(Sink, Level)]>,
    most: Option<Level>,
}

/// Longer lines are cut: no line may flood the log.
const LINE_BYTES_MAX: usize = 2048;

/// Of these a message may have so many, so that a long name leaves room for the system's reason and the client.
const MESSAGE_BYTES_MAX: usize = LINE_BYTES_MAX - 300;

impl ErrorLog {
    pub fn new(sinks: Vec<(Sink, Level)>) -> ErrorLog {
        let most = sinks.iter().map(|(_, level)| *level).max();
        ErrorLog { sinks: sinks.into(), most }
    }

    /// A log that writes to standard error only.
    pub fn stderr(level: Level) -> ErrorLog {
        ErrorLog::new(vec![(Sink::Stderr, level)])
    }

    /// Whether a line of this level would be written anywhere.
    pub fn enabled(&self, level: Level) -> bool {
        self.most.is_some_and(|most| level <= most)
    }

    /// Writes a line; `connection` 0 means none.
    pub fn write(&self, level: Level, connection: u64, message: &str) {
        if !self.enabled(level) {
            return;
        }
        let line = line(level, connection, message);
        for (sink, _) in self.sinks.iter().filter(|(_, most)| level <= *most) {
            match sink {
                Sink::File(file) => file.write(&line),
                Sink::Stderr => {
                    use std::io::Write;
                    let _ = std::io::stderr().write_all(&line);
                }
                // A message has an end of its own.
                Sink::Syslog(syslog) => syslog.send(level, &line[..line.len() - 1]),
            }
        }
    }

    /// A line that belongs to no connection.
    pub fn say(&self, level: Level, message: fmt::Arguments<'_>) {
        if self.enabled(level) {
            self.write(level, 0, &message.to_string());
        }
    }
}

/// A line with its end.
fn line(level: Level, connection: u64, message: &str) -> Vec<u8> {
    let mut text = String::with_capacity(message.len() + 64);
    tidegate_rt::clock::log_time_error(|time| text.push_str(&String::from_utf8_lossy(time)));
    let _ = write!(text, " [{}] {}#{}: ", level.name(), std::process::id(), thread_number());
    if connection > 0 {
        let _ = write!(text, "*{connection} ");
    }
    text.push_str(message);
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    let mut bytes: Vec<u8> = text.into_bytes();
    bytes.iter_mut().filter(|byte| **byte < b' ').for_each(|byte| *byte = b' ');
    bytes.push(b'\n');
    bytes
}

/// Cuts what is too long out of the middle of a message: what the system said of it, in brackets, ends it still.
pub(crate) fn shortened(message: String) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    let near = |at: &usize| message.len() - at < 100 && message.ends_with(')');
    let reason = message.rfind(" (").filter(near).map_or("", |at| &message[at..]);
    let mut end = MESSAGE_BYTES_MAX - reason.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...{reason}", &message[..end])
}

fn thread_number() -> u64 {
    std::thread_local! {
        static NUMBER: u64 = tidegate_os::identity::thread_id();
    }
    NUMBER.with(|number| *number)
}

/// Adds what nginx adds: what was being done, and the client, server, request, upstream, host, referrer.
pub fn with_context(x: &Exchange, message: fmt::Arguments<'_>) -> String {
    if let Some(session) = x.session() {
        return crate::session::with_context(x, session, message);
    }
    let mut text = shortened(message.to_string());
    if !x.progress.action.is_empty() {
        let _ = write!(text, " while {}", x.progress.action);
    }
    let _ = write!(text, ", client: {}", x.client_text());
    let _ = write!(text, ", server: {}", x.server().name);
    let line = x.request.head.line();
    if !line.is_empty() {
        let _ = write!(text, ", request: \"{}\"", String::from_utf8_lossy(line));
    }
    if x.is_subrequest() {
        let _ = write!(text, ", subrequest: \"{}\"", String::from_utf8_lossy(&x.request.path));
    }
    if !x.progress.upstream.is_empty() {
        let _ = write!(text, ", upstream: \"{}\"", x.progress.upstream);
    }
    if let Some(host) = x.request.header(tidegate_http::Known::Host) {
        let _ = write!(text, ", host: \"{}\"", String::from_utf8_lossy(host));
    }
    if let Some(referrer) = x.request.header(tidegate_http::Known::Referer) {
        let _ = write!(text, ", referrer: \"{}\"", String::from_utf8_lossy(referrer));
    }
    text
}
