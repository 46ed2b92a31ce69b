//! The errors of a request head: one table of statuses and log texts.

use std::fmt;

use crate::lines::loggable;
use crate::span::Span;

/// A refused request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The reason.
    pub fault: RequestFault,
    /// The invalid bytes within the head's text, where one line is the reason.
    pub line: Span,
    /// The earlier line that it contradicts.
    pub previous: Option<Span>,
}

/// The reasons for refusing a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestFault {
    /// A method with an invalid byte (400).
    InvalidMethod,
    /// A request line without method, target and version (400).
    InvalidRequestLine,
    /// A request without a version that is not `GET` (400).
    Http09Method,
    /// A major version above 1 (505).
    UnsupportedVersion,
    /// A request line longer than a buffer (414).
    LongRequestLine,
    /// A field line longer than a buffer (494).
    LongHeaderLine,
    /// A head larger than all buffers (494).
    LargeHead,
    /// More field lines than `max_headers` (494).
    ManyHeaders,
    /// A field line with an invalid byte (400).
    InvalidHeaderLine,
    /// An HTTP/1.1 request without `Host` (400).
    HostMissing,
    /// An invalid host in the `Host` field (400).
    HostInvalid,
    /// An invalid host in the target (400).
    TargetHostInvalid,
    /// A repeated `Host` field (400).
    HostRepeated,
    /// A repeated field that must not be repeated (400).
    HeaderRepeated,
    /// A `Content-Length` that is no length (400).
    ContentLengthInvalid,
    /// `Content-Length` together with `Transfer-Encoding` (400).
    ContentLengthWithTransferEncoding,
    /// A transfer coding other than `chunked` (501).
    TransferEncodingUnknown,
    /// `Transfer-Encoding` in an HTTP/1.0 request (400).
    TransferEncodingInHttp10,
    /// The method TRACE (405).
    TraceMethod,
    /// The method CONNECT (405).
    ConnectMethod,
}

impl fmt::Display for RequestFault {
    /// Writes the error log's text without the invalid line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl fmt::Display for RequestError {
    /// Writes the text of its fault; [`RequestError::message`] includes the line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for RequestError {}

impl RequestError {
    /// Makes an error of a reason and the invalid bytes.
    pub fn new(fault: RequestFault, line: Span) -> RequestError {
        RequestError { fault, line, previous: None }
    }

    /// Returns the status for `error_page` and `$status`; may be one of nginx's internal codes.
    pub fn status(&self) -> u16 {
        self.fault.row().0
    }

    /// Returns the status that is sent: the internal codes are sent as 400.
    pub fn wire_status(&self) -> u16 {
        wire_status(self.status())
    }

    /// Returns the error log's text, without the "while reading …" that names the connection's action. `text`
    /// is the head's text.
    pub fn message(&self, text: &[u8]) -> String {
        let (_, reason, shows_line) = self.fault.row();
        if !shows_line {
            return reason.to_owned();
        }
        let line = self.line.of(text);
        let mut message = match (self.fault, line.split_last()) {
            // Up to the invalid byte, as in nginx's log.
            (RequestFault::InvalidHeaderLine, Some((last, before))) => {
                format!("{reason}: \"{}\\x{last:02x}...\"", loggable(before))
            }
            _ => format!("{reason}: \"{}\"", loggable(line)),
        };
        if let Some(previous) = self.previous {
            let previous = loggable(previous.of(text));
            message.push_str(&format!(", previous value: \"{previous}\""));
        }
        message
    }

    /// Returns whether it was found behind the request line.
    pub fn in_fields(&self) -> bool {
        !matches!(
            self.fault,
            RequestFault::InvalidMethod
                | RequestFault::InvalidRequestLine
                | RequestFault::Http09Method
                | RequestFault::UnsupportedVersion
                | RequestFault::TargetHostInvalid
                | RequestFault::LongRequestLine
        )
    }
}

/// Returns the status that is sent for an internal one: 494 (header too large), 495, 496 (certificate) and
/// 497 (plain HTTP to an HTTPS port) are all 400 to the client.
pub fn wire_status(status: u16) -> u16 {
    match status {
        494..=497 => 400,
        other => other,
    }
}

impl RequestFault {
    /// Returns the status, the text for the log, and whether the line follows the text.
    fn row(self) -> (u16, &'static str, bool) {
        match self {
            RequestFault::InvalidMethod => (400, "client sent invalid method", false),
            RequestFault::InvalidRequestLine => (400, "client sent invalid request", false),
            RequestFault::Http09Method => {
                (400, "client sent invalid method in HTTP/0.9 request", false)
            }
            RequestFault::UnsupportedVersion => (505, "client sent invalid version", false),
            RequestFault::LongRequestLine => (414, "client sent too long URI", false),
            RequestFault::LongHeaderLine => (494, "client sent too long header line", true),
            RequestFault::LargeHead => (494, "client sent too large request", false),
            RequestFault::ManyHeaders => (494, "client sent too many header lines", false),
            RequestFault::InvalidHeaderLine => (400, "client sent invalid header line", true),
            RequestFault::HostMissing => {
                (400, "client sent HTTP/1.1 request without \"Host\" header", false)
            }
            RequestFault::HostInvalid => (400, "client sent invalid host header", false),
            RequestFault::TargetHostInvalid => {
                (400, "client sent invalid host in request line", false)
            }
            RequestFault::HostRepeated => (400, "client sent duplicate host header", true),
            RequestFault::HeaderRepeated => (400, "client sent duplicate header line", true),
            RequestFault::ContentLengthInvalid => {
                (400, "client sent invalid \"Content-Length\" header", false)
            }
            RequestFault::ContentLengthWithTransferEncoding => (
                400,
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
                false,
            ),
            RequestFault::TransferEncodingUnknown => {
                (501, "client sent unknown \"Transfer-Encoding\"", true)
            }
            RequestFault::TransferEncodingInHttp10 => {
                (400, "client sent HTTP/1.0 request with \"Transfer-Encoding\" header", false)
            }
            RequestFault::TraceMethod => (405, "client sent TRACE method", false),
            RequestFault::ConnectMethod => (405, "client sent CONNECT method", false),
        }
    }
}
