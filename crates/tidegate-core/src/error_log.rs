//! The error log: nginx's levels and line format, to files, standard error and syslog.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::sync::Arc;

pub use crate::level::{LEVELS, Level};
use crate::log_file::LogFile;
use crate::syslog::Syslog;

/// A destination of log lines.
#[derive(Clone)]
pub enum LogSink {
    /// A file in append mode.
    File(Arc<LogFile>),
    /// Standard error.
    Stderr,
    /// A syslog server.
    Syslog(Arc<Syslog>),
}

/// Any number of destinations, each with its level.
#[derive(Clone, Default)]
pub struct ErrorLog {
    sinks: Arc<[(LogSink, Level)]>,
    most: Option<Level>,
}

/// Most bytes of a line; longer ones are cut, so that no line floods the log.
const LINE_BYTES_MAX: usize = 2048;

/// Most bytes of the message in a line, so that a long name leaves room for the system's reason and the client.
const MESSAGE_BYTES_MAX: usize = LINE_BYTES_MAX - 300;

impl fmt::Debug for ErrorLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sink = |sink: &LogSink| match sink {
            LogSink::File(file) => file.path().display().to_string(),
            LogSink::Stderr => "stderr".to_owned(),
            LogSink::Syslog(_) => "syslog".to_owned(),
        };
        let sinks = self.sinks.iter().map(|(to, level)| (sink(to), *level));
        f.debug_list().entries(sinks).finish()
    }
}

impl ErrorLog {
    /// Creates a log with these destinations; none writes nothing.
    pub fn new(sinks: Vec<(LogSink, Level)>) -> ErrorLog {
        let most = sinks.iter().map(|(_, level)| *level).max();
        if most == Some(Level::Debug) {
            crate::debug_log::begin();
        }
        ErrorLog { sinks: sinks.into(), most }
    }

    /// Creates a log that writes to standard error only.
    pub fn stderr(level: Level) -> ErrorLog {
        ErrorLog::new(vec![(LogSink::Stderr, level)])
    }

    /// Returns whether a line of this level would be written.
    pub fn enabled(&self, level: Level) -> bool {
        self.most.is_some_and(|most| level <= most)
    }

    /// Writes a line; `connection` is the connection's number, 0 for none.
    pub fn write(&self, level: Level, connection: u64, message: &str) {
        if self.enabled(level) {
            self.write_where(level, connection, message, |most| level <= most);
        }
    }

    /// Writes a line to every destination, whatever its level: one about a client of `debug_connection`.
    pub fn write_to_all(&self, level: Level, connection: u64, message: &str) {
        self.write_where(level, connection, message, |_| true);
    }

    fn write_where(
        &self,
        level: Level,
        connection: u64,
        message: &str,
        wanted: impl Fn(Level) -> bool,
    ) {
        let line = line(level, connection, message);
        for (sink, _) in self.sinks.iter().filter(|(_, most)| wanted(*most)) {
            match sink {
                LogSink::File(file) => file.write(&line),
                LogSink::Stderr => {
                    use std::io::Write;
                    let _ = std::io::stderr().write_all(&line);
                }
                // A syslog message needs no line end.
                LogSink::Syslog(syslog) => syslog.send(level, &line[..line.len() - 1]),
            }
        }
    }

    /// Writes a line that belongs to no connection.
    pub fn say(&self, level: Level, message: fmt::Arguments<'_>) {
        if self.enabled(level) {
            self.write(level, 0, &message.to_string());
        }
    }
}

/// Formats a line with its line end.
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

/// Shortens a message that is too long in its middle: the system's reason, in brackets, stays at its end.
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
