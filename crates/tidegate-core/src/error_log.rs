//! The error log: nginx's levels and line format, to files, standard error and syslog.

mod json;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::sync::Arc;

pub use crate::level::{LEVELS, Level};
use crate::log_file::LogFile;
use crate::syslog::Syslog;
pub use json::LogFields;

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

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineForm {
    /// nginx's lines.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// A destination with the lines that it gets.
#[derive(Clone)]
pub struct Destination {
    /// Where lines go.
    pub sink: LogSink,
    /// The least severe level that is written.
    pub level: Level,
    /// The form of the lines.
    pub form: LineForm,
}

/// Any number of destinations, each with its level.
#[derive(Clone, Default)]
pub struct ErrorLog {
    destinations: Arc<[Destination]>,
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
        let all = self.destinations.iter().map(|one| (sink(&one.sink), one.level, one.form));
        f.debug_list().entries(all).finish()
    }
}

impl ErrorLog {
    /// Creates a log with these destinations, for lines of text; none writes nothing.
    pub fn new(sinks: Vec<(LogSink, Level)>) -> ErrorLog {
        let form = LineForm::Text;
        let destination = |(sink, level)| Destination { sink, level, form };
        ErrorLog::of(sinks.into_iter().map(destination).collect())
    }

    /// Creates a log with these destinations.
    pub fn of(destinations: Vec<Destination>) -> ErrorLog {
        let most = destinations.iter().map(|one| one.level).max();
        if most == Some(Level::Debug) {
            crate::debug_log::begin();
        }
        ErrorLog { destinations: destinations.into(), most }
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
            let fields = || LogFields::new(message.to_owned());
            self.write_where(level, connection, &|| message.to_owned(), &fields, |most| {
                level <= most
            });
        }
    }

    /// Writes a line to every destination, whatever its level: one about a client of `debug_connection`.
    pub fn write_to_all(&self, level: Level, connection: u64, message: &str) {
        let fields = || LogFields::new(message.to_owned());
        self.write_where(level, connection, &|| message.to_owned(), &fields, |_| true);
    }

    /// Writes a line about something: `text` makes the line of text, `fields` what a line of JSON says. Each is called where
    /// a destination wants it; `to_all` as in [`ErrorLog::write_to_all`].
    pub fn write_about(
        &self,
        level: Level,
        connection: u64,
        to_all: bool,
        text: &dyn Fn() -> String,
        fields: &dyn Fn() -> LogFields,
    ) {
        if to_all || self.enabled(level) {
            self.write_where(level, connection, text, fields, |most| to_all || level <= most);
        }
    }

    fn write_where(
        &self,
        level: Level,
        connection: u64,
        text: &dyn Fn() -> String,
        fields: &dyn Fn() -> LogFields,
        wanted: impl Fn(Level) -> bool,
    ) {
        let (mut of_text, mut of_json) = (None, None);
        for one in self.destinations.iter().filter(|one| wanted(one.level)) {
            let line = match one.form {
                LineForm::Text => of_text.get_or_insert_with(|| line(level, connection, &text())),
                LineForm::Json => {
                    of_json.get_or_insert_with(|| json::line(level, connection, &fields()))
                }
            };
            match &one.sink {
                LogSink::File(file) => file.write(line),
                LogSink::Stderr => {
                    use std::io::Write;
                    let _ = std::io::stderr().write_all(line);
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
