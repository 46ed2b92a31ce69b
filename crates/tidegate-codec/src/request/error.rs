//! What can be wrong with a request head: one table of statuses and log texts.

use std::fmt;

use crate::lines::loggable;
use crate::span::Span;

/// A refused request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestError {
    pub fault: Fault,
    /// The bytes at fault within the head's text, where one line is to blame.
    pub line: Span,
    /// The line that it contradicts.
    pub previous: Option<Span>,
}

/// The reasons for refusing a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    InvalidMethod,
    InvalidRequestLine,
    Http09Method,
    UnsupportedVersion,
    LongRequestLine,
    LongHeaderLine,
    LargeHead,
    ManyHeaders,
    InvalidHeaderLine,
    HostMissing,
    HostInvalid,
    TargetHostInvalid,
    HostRepeated,
    HeaderRepeated,
    ContentLengthInvalid,
    ContentLengthWithTransferEncoding,
    TransferEncodingUnknown,
    TransferEncodingInHttp10,
    TraceMethod,
    ConnectMethod,
}

impl fmt::Display for Fault {
    /// The error log's text without the line at fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl fmt::Display for RequestError {
    /// As its fault; [`RequestError::message`] shows the line as well.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for RequestError {}

impl RequestError {
    pub fn new(fault: Fault, line: Span) -> RequestError {
        RequestError { fault, line, previous: None }
    }

    /// The status for `error_page` and `$status`; may be one of nginx's internal codes.
    pub fn status(&self) -> u16 {
        self.fault.row().0
    }

    /// The status that is sent: the internal codes are 400 to the client.
    pub fn wire_status(&self) -> u16 {
        wire_status(self.status())
    }

    /// The error log's text, without the "while reading …" that tells the connection's action.
    /// `text` is the head's text.
    pub fn message(&self, text: &[u8]) -> String {
        let (_, reason, shows_line) = self.fault.row();
        if !shows_line {
            return reason.to_owned();
        }
        let line = self.line.of(text);
        let mut message = match (self.fault, line.split_last()) {
            // Up to the byte at fault, as nginx shows it.
            (Fault::InvalidHeaderLine, Some((last, before))) => {
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

    /// Whether it was found behind the request line.
    pub fn in_fields(&self) -> bool {
        !matches!(
            self.fault,
            Fault::InvalidMethod
                | Fault::InvalidRequestLine
                | Fault::Http09Method
                | Fault::UnsupportedVersion
                | Fault::TargetHostInvalid
                | Fault::LongRequestLine
        )
    }
}

/// The status on the wire for an internal one: 494 (header too large), 495, 496 (certificate)
/// and 497 (plain HTTP to an HTTPS port) are all 400 to the client.
pub fn wire_status(status: u16) -> u16 {
    match status {
        494..=497 => 400,
        other => other,
    }
}

impl Fault {
    /// Status, text for the log, and whether the text is followed by the line.
    fn row(self) -> (u16, &'static str, bool) {
        match self {
            Fault::InvalidMethod => (400, "client sent invalid method", false),
            Fault::InvalidRequestLine => (400, "client sent invalid request", false),
            Fault::Http09Method => (400, "client sent invalid method in HTTP/0.9 request", false),
            Fault::UnsupportedVersion => (505, "client sent invalid version", false),
            Fault::LongRequestLine => (414, "client sent too long URI", false),
            Fault::LongHeaderLine => (494, "client sent too long header line", true),
            Fault::LargeHead => (494, "client sent too large request", false),
            Fault::ManyHeaders => (494, "client sent too many header lines", false),
            Fault::InvalidHeaderLine => (400, "client sent invalid header line", true),
            Fault::HostMissing => {
                (400, "client sent HTTP/1.1 request without \"Host\" header", false)
            }
            Fault::HostInvalid => (400, "client sent invalid host header", false),
            Fault::TargetHostInvalid => (400, "client sent invalid host in request line", false),
            Fault::HostRepeated => (400, "client sent duplicate host header", true),
            Fault::HeaderRepeated => (400, "client sent duplicate header line", true),
            Fault::ContentLengthInvalid => {
                (400, "client sent invalid \"Content-Length\" header", false)
            }
            Fault::ContentLengthWithTransferEncoding => (
                400,
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
                false,
            ),
            Fault::TransferEncodingUnknown => {
                (501, "client sent unknown \"Transfer-Encoding\"", true)
            }
            Fault::TransferEncodingInHttp10 => {
                (400, "client sent HTTP/1.0 request with \"Transfer-Encoding\" header", false)
            }
            Fault::TraceMethod => (405, "client sent TRACE method", false),
            Fault::ConnectMethod => (405, "client sent CONNECT method", false),
        }
    }
}
