//! Error log lines of a request or session: the message and the context that nginx adds.

use std::fmt::{self, Write as _};
use std::rc::Rc;

use crate::client::Connection;
use crate::debug_log;
use crate::error_log::{
    Entry, ErrorLog, Kind, LINE_BYTES_MAX, Level, LogFields, LogTags, shortened,
};
use crate::exchange::Exchange;
use crate::session;
use crate::template::Template;

impl Exchange {
    /// Writes an error log line with this request's context.
    pub fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        let entry = RequestEntry { x: self, message };
        self.settings().error_log.write(level, &*self.connection, &entry);
    }

    /// Writes a line at the level `debug`, without the context of others, as nginx does.
    #[inline]
    pub fn debug(&self, message: impl FnOnce() -> String) {
        if debug_log::is_on() {
            write_debug(&self.settings().error_log, &self.connection, message);
        }
    }
}

/// Writes a line at the level `debug` where the log has that level, or the client is one to debug.
#[cold]
pub fn write_debug(log: &ErrorLog, connection: &Connection, message: impl FnOnce() -> String) {
    if connection.debug || log.enabled(Level::Debug) {
        log.write(Level::Debug, connection, &message());
    }
}

struct RequestEntry<'a> {
    x: &'a Exchange,
    message: fmt::Arguments<'a>,
}

impl Entry for RequestEntry<'_> {
    fn text(&self) -> String {
        with_context(self.x, self.message)
    }

    fn fields(&self) -> LogFields {
        fields(self.x, self.message)
    }
}

/// Returns the same as [`with_context`], apart.
fn fields(x: &Exchange, message: fmt::Arguments<'_>) -> LogFields {
    let session = x.session();
    let kind = if session.is_some() { Kind::Session } else { Kind::Request };
    let mut fields = LogFields::about(kind, message.to_string(), x.progress.tags.clone());
    fields.add("action", x.progress.action.as_bytes());
    match session {
        Some(session) => session::add_fields(x, session, &mut fields),
        None => {
            fields.add("client", x.client_text().as_bytes());
            fields.add("server", x.server().name.as_bytes());
            fields.add("request", x.request.head.line());
            if x.is_subrequest() {
                fields.add("subrequest", &x.request.path);
            }
            fields.add("upstream", x.progress.upstream.as_bytes());
            let field = |name| x.request.header(name).unwrap_or_default();
            fields.add("host", field(tidegate_codec::Known::Host));
            fields.add("referrer", field(tidegate_codec::Known::Referer));
        }
    }
    fields
}

/// Appends the context that nginx adds: the action, and client, server, request, upstream, host and referrer.
pub fn with_context(x: &Exchange, message: fmt::Arguments<'_>) -> String {
    if let Some(session) = x.session() {
        return session::with_context(x, session, message);
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
    if let Some(host) = x.request.header(tidegate_codec::Known::Host) {
        let _ = write!(text, ", host: \"{}\"", String::from_utf8_lossy(host));
    }
    if let Some(referrer) = x.request.header(tidegate_codec::Known::Referer) {
        let _ = write!(text, ", referrer: \"{}\"", String::from_utf8_lossy(referrer));
    }
    if let Some(tags) = &x.progress.tags {
        tags.write_text(&mut text);
    }
    text
}

/// Gives an exchange the tags of its location. Called where the location is chosen: a line may be about a request that is being
/// changed, and about one that has ended, so that variables cannot be evaluated for each line.
#[inline]
pub fn choose_tags(x: &mut Exchange) {
    if x.settings().error_log_tags.is_some() || x.progress.tags.is_some() {
        evaluate(x);
    }
}

#[cold]
fn evaluate(x: &mut Exchange) {
    let Some(templates) = x.settings().error_log_tags.clone() else {
        x.progress.tags = None;
        return;
    };
    let mut value = |template: &Template| {
        let mut value = template.value(x);
        value.truncate(LINE_BYTES_MAX);
        value
    };
    let words = templates.words.iter().map(&mut value).filter(|word| !word.is_empty()).collect();
    let pairs = templates.pairs.iter().map(|(name, template)| (name.clone(), value(template)));
    let pairs = pairs.filter(|(_, value)| !value.is_empty()).collect();
    x.progress.tags = Some(Rc::new(LogTags { words, pairs }));
}
