//! Error log lines of a request or session: the message and the context that nginx adds.

use std::fmt::{self, Write as _};

use crate::client::Connection;
use crate::debug_log;
use crate::error_log::{ErrorLog, Level, shortened};
use crate::exchange::Exchange;
use crate::session;

impl Exchange {
    /// Writes an error log line with this request's context.
    pub fn log(&self, level: Level, message: std::fmt::Arguments<'_>) {
        let log = &self.settings().error_log;
        if self.connection.debug {
            log.write_to_all(level, self.connection.number, &with_context(self, message));
        } else if log.enabled(level) {
            log.write(level, self.connection.number, &with_context(self, message));
        }
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
