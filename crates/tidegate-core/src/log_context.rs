//! Error log lines of a request or session: the message and the context that nginx adds.

use std::fmt::{self, Write as _};

use crate::client::Connection;
use crate::debug_log;
use crate::error_log::{ErrorLog, Level, LogFields, shortened};
use crate::exchange::Exchange;
use crate::session;

impl Exchange {
    /// Writes an error log line with this request's context.
    pub fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        let (log, connection) = (&self.settings().error_log, &self.connection);
        let text = || with_context(self, message);
        let fields = || fields(self, message);
        log.write_about(level, connection.number, connection.debug, &text, &fields);
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
    if connection.debug {
        log.write_to_all(Level::Debug, connection.number, &message());
    } else if log.enabled(Level::Debug) {
        log.write(Level::Debug, connection.number, &message());
    }
}

/// Returns the same as [`with_context`], apart, for a line of JSON.
fn fields(x: &Exchange, message: fmt::Arguments<'_>) -> LogFields {
    let mut fields = LogFields::new(message.to_string());
    fields.add("action", x.progress.action.as_bytes());
    fields.add("client", x.client_text().as_bytes());
    match x.session() {
        Some(session) => fields.add("server", session.listener.as_bytes()),
        None => {
            fields.add("server", x.server().name.as_bytes());
            fields.add("request", x.request.head.line());
            if x.is_subrequest() {
                fields.add("subrequest", &x.request.path);
            }
        }
    }
    fields.add("upstream", x.progress.upstream.as_bytes());
    if x.session().is_none() {
        let field = |name| x.request.header(name).unwrap_or_default();
        fields.add("host", field(tidegate_codec::Known::Host));
        fields.add("referrer", field(tidegate_codec::Known::Referer));
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
    text
}
