//! Error log lines of a fetch, which has no exchange: it copies the text that belongs into them beforehand.

use std::fmt::Write as _;
use std::rc::Rc;

use tidegate_codec::Known;
use tidegate_core::client::{ClientAddress, Connection};
use tidegate_core::debug_log;
use tidegate_core::error_log::{Entry, ErrorLog, Kind, Level, LogFields, LogTags, Source};
use tidegate_core::exchange::{Exchange, PlanRef};
use tidegate_core::log_context::write_debug;
use tidegate_core::plan::{LocationId, ServerId};

/// The request that log lines name.
#[derive(Clone)]
pub struct LogContext {
    cause: Cause,
    /// Request line, host and referrer, concatenated.
    text: Box<[u8]>,
    line_end: usize,
    host_end: usize,
}

/// What a fetch is for.
#[derive(Clone)]
enum Cause {
    Request(LoggedRequest),
    /// Work that belongs to no request, and its log.
    Other(ErrorLog),
}

#[derive(Clone)]
struct LoggedRequest {
    plan: PlanRef,
    server: ServerId,
    location: LocationId,
    connection: Rc<Connection>,
    real_client_address: Option<Rc<ClientAddress>>,
    tags: Option<Rc<LogTags>>,
}

impl LogContext {
    /// Copies the context of a client's request.
    pub fn of(x: &Exchange) -> LogContext {
        let line = x.request.head.line();
        let host = x.request.header(Known::Host).unwrap_or_default();
        let referrer = x.request.header(Known::Referer).unwrap_or_default();
        let mut text = Vec::with_capacity(line.len() + host.len() + referrer.len());
        text.extend_from_slice(line);
        text.extend_from_slice(host);
        text.extend_from_slice(referrer);
        LogContext {
            cause: Cause::Request(LoggedRequest {
                // It outlives the exchange: a fill logs after its client has closed.
                plan: x.plan.clone(),
                server: x.routing.server,
                location: x.routing.location,
                connection: x.connection.clone(),
                real_client_address: x.request.real_client_address.clone(),
                tags: x.progress.tags.clone(),
            }),
            line_end: line.len(),
            host_end: line.len() + host.len(),
            text: text.into_boxed_slice(),
        }
    }

    /// Makes a context without a request.
    pub fn detached(log: ErrorLog) -> LogContext {
        LogContext { cause: Cause::Other(log), text: Box::default(), line_end: 0, host_end: 0 }
    }

    /// Writes a line at the level `debug`, without the context of others.
    #[inline]
    pub(crate) fn debug(&self, message: impl FnOnce() -> String) {
        if debug_log::is_on()
            && let Some(request) = self.request()
        {
            let log = &request.plan.location(request.location).settings.error_log;
            write_debug(log, &request.connection, message);
        }
    }

    /// Returns the log that lines go to.
    pub(crate) fn error_log(&self) -> &ErrorLog {
        match &self.cause {
            Cause::Request(request) => &request.plan.location(request.location).settings.error_log,
            Cause::Other(log) => log,
        }
    }

    fn request(&self) -> Option<&LoggedRequest> {
        match &self.cause {
            Cause::Request(request) => Some(request),
            Cause::Other(_) => None,
        }
    }

    /// Writes `message while action, client: …, upstream: …`.
    pub fn write(&self, level: Level, message: &str, action: &str, upstream: &str) {
        let source = self.request().map(|request| Source::from(&*request.connection));
        let entry = FetchEntry { context: self, message, action, upstream };
        self.error_log().write(level, source.unwrap_or_default(), &entry);
    }

    fn line(&self) -> &[u8] {
        &self.text[..self.line_end]
    }

    fn host(&self) -> &[u8] {
        &self.text[self.line_end..self.host_end]
    }

    fn referrer(&self) -> &[u8] {
        &self.text[self.host_end..]
    }
}

impl LoggedRequest {
    fn client(&self) -> &str {
        let real = self.real_client_address.as_ref().map(|real| &real.text);
        real.map_or_else(|| self.connection.peer_text(), String::as_str)
    }

    fn server(&self) -> &str {
        &self.plan.server(self.server).name
    }
}

/// A line about a fetch.
struct FetchEntry<'a> {
    context: &'a LogContext,
    message: &'a str,
    action: &'a str,
    upstream: &'a str,
}

impl Entry for FetchEntry<'_> {
    fn text(&self) -> String {
        let FetchEntry { context, message, action, upstream } = *self;
        let mut line = message.to_owned();
        if !action.is_empty() {
            let _ = write!(line, " while {action}");
        }
        if let Some(request) = context.request() {
            let _ = write!(line, ", client: {}", request.client());
            let _ = write!(line, ", server: {}", request.server());
        }
        let mut part = |name: &str, value: &[u8]| {
            if !value.is_empty() {
                let _ = write!(line, ", {name}: \"{}\"", String::from_utf8_lossy(value));
            }
        };
        part("request", context.line());
        part("upstream", upstream.as_bytes());
        part("host", context.host());
        part("referrer", context.referrer());
        if let Some(tags) = context.request().and_then(|request| request.tags.as_ref()) {
            tags.write_text(&mut line);
        }
        line
    }

    fn fields(&self) -> LogFields {
        let FetchEntry { context, message, action, upstream } = *self;
        let message = message.to_owned();
        let mut fields = match context.request() {
            Some(request) => LogFields::about(Kind::Request, message, request.tags.clone()),
            None => LogFields::new(message),
        };
        fields.add("action", action.as_bytes());
        if let Some(request) = context.request() {
            fields.add("client", request.client().as_bytes());
            fields.add("server", request.server().as_bytes());
        }
        fields.add("request", context.line());
        fields.add("upstream", upstream.as_bytes());
        fields.add("host", context.host());
        fields.add("referrer", context.referrer());
        fields
    }
}

/// Nothing was received or sent within a `*_timeout`.
pub(crate) const TIMED_OUT: &str = "upstream timed out (110: Connection timed out)";

/// Returns an operating system error as nginx prints it: `111: Connection refused`.
pub fn os_error(error: &std::io::Error) -> String {
    tidegate_os::os_error(error)
}
