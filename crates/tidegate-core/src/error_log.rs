//! The error log: nginx's levels and line format, to files, standard error and syslog.

mod fields;
mod filter;
mod fuzz;
mod json;
mod tags;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::client::Connection;
pub use crate::level::{LEVELS, Level};
use crate::log_file::LogFile;
use crate::syslog::Syslog;
pub use fields::{FIELD_NAMES, Kind, LogFields};
pub use filter::{FilterError, LogFilter};
#[doc(hidden)]
pub use fuzz::fuzz_lines;
pub use tags::LogTags;

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
    /// A JSON object a line, flat, with the names of nginx Plus (`json`).
    Json,
    /// A JSON object a line, with an object of the request in it, and the names of Angie (`format=json`).
    NestedJson,
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
    /// What must hold for a line, all of it.
    pub filters: Arc<[LogFilter]>,
}

/// Whose line it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source {
    /// The connection's number, 0 for none.
    pub connection: u64,
    /// Whether each destination gets the line, whatever its level: the client is one of `debug_connection`.
    pub to_all: bool,
}

impl From<u64> for Source {
    fn from(connection: u64) -> Source {
        Source { connection, to_all: false }
    }
}

impl From<&Connection> for Source {
    fn from(connection: &Connection) -> Source {
        Source { connection: connection.number, to_all: connection.debug }
    }
}

/// What a line says. Each form is made where a destination wants it.
pub trait Entry {
    /// Returns the message with the context that nginx's lines have.
    fn text(&self) -> String;

    /// Returns message and context apart.
    fn fields(&self) -> LogFields {
        LogFields::new(self.text())
    }
}

impl Entry for str {
    fn text(&self) -> String {
        self.to_owned()
    }
}

impl Entry for String {
    fn text(&self) -> String {
        self.clone()
    }
}

impl Entry for fmt::Arguments<'_> {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl<E: Entry + ?Sized> Entry for &E {
    fn text(&self) -> String {
        (**self).text()
    }

    fn fields(&self) -> LogFields {
        (**self).fields()
    }
}

/// Any number of destinations, each with its level.
#[derive(Clone, Default)]
pub struct ErrorLog {
    destinations: Arc<[Destination]>,
    most: Option<Level>,
}

/// Most bytes of a line; longer ones are cut, so that no line floods the log.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

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
        let (form, filters) = (LineForm::Text, Arc::default());
        let destination =
            |(sink, level)| Destination { sink, level, form, filters: Arc::clone(&filters) };
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

    /// Writes a line to each destination that has its level and whose filters hold. `source` is the connection, or its
    /// number; 0 for none.
    pub fn write(&self, level: Level, source: impl Into<Source>, entry: &(impl Entry + ?Sized)) {
        let source = source.into();
        if source.to_all || self.enabled(level) {
            self.write_line(level, source, &entry);
        }
    }

    /// Writes a line that belongs to no connection.
    pub fn say(&self, level: Level, message: fmt::Arguments<'_>) {
        self.write(level, Source::default(), &message);
    }

    #[cold]
    fn write_line(&self, level: Level, source: Source, entry: &dyn Entry) {
        let mut made = Made::of(level, source.connection, entry);
        for one in self.destinations.iter() {
            if level > one.level && !source.to_all {
                continue;
            }
            if one.filters.iter().all(|filter| made.is_wanted_by(filter)) {
                one.sink.write(level, made.line(one.form));
            }
        }
    }
}

impl LogSink {
    /// Writes a line, which ends with its line end.
    fn write(&self, level: Level, line: &[u8]) {
        match self {
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

/// An entry, and what has been made of it: each is made once, however many destinations there are.
struct Made<'a> {
    level: Level,
    connection: u64,
    entry: &'a dyn Entry,
    text: Option<String>,
    fields: Option<LogFields>,
    /// By form.
    lines: [Option<Vec<u8>>; 3],
}

impl<'a> Made<'a> {
    fn of(level: Level, connection: u64, entry: &'a dyn Entry) -> Made<'a> {
        Made { level, connection, entry, text: None, fields: None, lines: Default::default() }
    }

    fn is_wanted_by(&mut self, filter: &LogFilter) -> bool {
        match filter.is_about_text() {
            true => filter.holds_for_text(self.text.get_or_insert_with(|| self.entry.text())),
            false => filter.holds_for(self.fields.get_or_insert_with(|| self.entry.fields())),
        }
    }

    fn line(&mut self, form: LineForm) -> &[u8] {
        let Made { level, connection, entry, text, fields, lines } = self;
        lines[form as usize].get_or_insert_with(|| match form {
            LineForm::Text => line(*level, *connection, text.get_or_insert_with(|| entry.text())),
            LineForm::Json | LineForm::NestedJson => {
                let fields = fields.get_or_insert_with(|| entry.fields());
                json::line(*level, *connection, fields, form == LineForm::NestedJson)
            }
        })
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
