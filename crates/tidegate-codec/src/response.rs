//! Response heads: parsing those of origins, the framing of their bodies, and writing the server's own.

use std::fmt;

use crate::chunked::ChunkError;
use crate::connection::{ConnectionOptions, parse_length};
use crate::headers::{Headers, Known};
use crate::lines::{FieldRules, Line, is_control, loggable, read_field, trim_line_end};
use crate::request::{Method, Parse, Version};
use crate::span::Span;
use memchr::{memchr, memrchr};

#[cfg(test)]
mod tests;

/// A parsed response head. Reuse it: `clear` keeps the buffers.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The version of the status line.
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase as received.
    pub reason_span: Span,
    /// The fields; their text is the whole head as received.
    pub headers: Headers,
    line_start: usize,
    scan_from: usize,
}

/// The reason why the response of an origin is refused (502).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// There is no HTTP/1 status line; HTTP/0.9 responses are refused, too.
    StatusLine,
    /// The `Status` field of a CGI head is not a status.
    StatusInvalid(Span),
    /// The head is larger than the buffer for it (`proxy_buffer_size`).
    TooBig,
    /// This line is no field, or contains a zero byte or a bare CR.
    InvalidHeader(Span),
    /// `Content-Length` or `Transfer-Encoding` is repeated.
    Repeated(Span),
    /// A `Content-Length` that is no length.
    ContentLengthInvalid(Span),
    /// `Content-Length` together with `Transfer-Encoding`.
    ContentLengthWithTransferEncoding,
    /// A transfer coding other than `chunked`.
    TransferEncodingUnknown(Span),
    /// The chunks of the body are invalid.
    Chunk(ChunkError),
}

impl fmt::Display for ResponseError {
    /// Writes the error log's text without the invalid bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::StatusLine => "upstream sent no valid HTTP/1.0 header",
            ResponseError::StatusInvalid(_) => "upstream sent invalid status",
            ResponseError::TooBig => "upstream sent too big header",
            ResponseError::InvalidHeader(_) => "upstream sent invalid header",
            ResponseError::Repeated(_) => "upstream sent duplicate header line",
            ResponseError::ContentLengthInvalid(_) => {
                "upstream sent invalid \"Content-Length\" header"
            }
            ResponseError::ContentLengthWithTransferEncoding => {
                "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"
            }
            ResponseError::TransferEncodingUnknown(_) => {
                "upstream sent unknown \"Transfer-Encoding\""
            }
            ResponseError::Chunk(_) => "upstream sent invalid chunked response",
        })
    }
}

impl std::error::Error for ResponseError {}

impl ResponseError {
    /// Returns the error log's text; `text` is the head's text.
    pub fn message(&self, text: &[u8]) -> String {
        let span = match self {
            ResponseError::StatusInvalid(span)
            | ResponseError::InvalidHeader(span)
            | ResponseError::ContentLengthInvalid(span)
            | ResponseError::TransferEncodingUnknown(span) => *span,
            ResponseError::Repeated(span) => line_of(*span, text),
            _ => return self.to_string(),
        };
        format!("{self}: \"{}\"", loggable(span.of(text)))
    }
}

/// Returns the line from its start to the end of `value`, so that the log contains the field.
fn line_of(value: Span, text: &[u8]) -> Span {
    let before = text.get(..value.start as usize).unwrap_or_default();
    let start = memrchr(b'\n', before).map_or(0, |end| end + 1);
    Span::new(start, value.end())
}

/// The framing of a response's body (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// There is no body.
    None,
    /// This number of bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// All bytes up to the end of the connection.
    UntilClose,
}

impl ResponseHead {
    /// Makes an empty head.
    pub fn new() -> ResponseHead {
        ResponseHead::default()
    }

    /// Prepares for the next response; the buffers keep their capacity.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = ResponseHead { headers, ..ResponseHead::default() };
    }

    /// Makes this the head of a response that was not received as HTTP/1 text: HTTP/1.1, with nginx's reason
    /// phrase for the status and no field yet. The buffers keep their capacity.
    pub fn begin(&mut self, status: u16) {
        self.clear();
        let reason = reason(status).as_bytes();
        // The reason phrase is part of a head's text.
        self.headers.set_text(reason);
        self.reason_span = Span::new(0, reason.len());
        (self.version, self.status) = (Version::H11, status);
    }

    /// Makes this the head of a response whose fields were not received as text: `version`, with nginx's reason phrase
    /// for the status. The fields are exchanged for those that this head had.
    pub fn compose(&mut self, version: Version, status: u16, headers: &mut Headers) {
        self.clear();
        std::mem::swap(&mut self.headers, headers);
        self.reason_span = self.headers.push_text(reason(status).as_bytes());
        (self.version, self.status) = (version, status);
    }

    /// Returns the reason phrase as it was sent; may be empty.
    pub fn reason(&self) -> &[u8] {
        self.reason_span.of(self.headers.text())
    }

    /// Returns whether another head follows: 1xx, except 101, which is the last of its connection.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Returns whether the origin accepts another request on this connection.
    pub fn keep_alive(&self) -> bool {
        let mut keep = self.version == Version::H11;
        for value in self.headers.all(Known::Connection) {
            let asked = ConnectionOptions::of(value);
            if asked.close {
                return false;
            }
            keep |= asked.keep_alive;
        }
        // RFC 9112 section 6.1: a connection with chunks from an HTTP/1.0 sender is not reused.
        keep && !(self.version != Version::H11 && self.headers.contains(Known::TransferEncoding))
    }

    /// Returns the framing of the body of this response to `method`.
    ///
    /// # Errors
    /// `Content-Length` and `Transfer-Encoding` contradict each other, or a coding is unknown.
    pub fn framing(&self, method: Method) -> Result<ResponseFraming, ResponseError> {
        let (length, is_chunked) = self.length_and_coding()?;
        let tunnel = method == Method::Connect && (200..300).contains(&self.status);
        if method == Method::Head || matches!(self.status, 100..=199 | 204 | 304) || tunnel {
            return Ok(ResponseFraming::None);
        }
        Ok(match (is_chunked, length) {
            (true, _) => ResponseFraming::Chunked,
            (false, Some(length)) => ResponseFraming::Length(length),
            (false, None) => ResponseFraming::UntilClose,
        })
    }

    /// Returns the framing as [`ResponseHead::framing`] for a gateway protocol, which has an end of its own:
    /// chunks have no meaning there (RFC 3875 section 6.3), and there are no interim heads.
    ///
    /// # Errors
    /// As for HTTP: a contradictory response is refused.
    pub fn cgi_framing(&self, method: Method) -> Result<ResponseFraming, ResponseError> {
        let (length, _) = self.length_and_coding()?;
        Ok(match (method == Method::Head || matches!(self.status, 204 | 304), length) {
            (true, _) => ResponseFraming::None,
            (false, Some(length)) => ResponseFraming::Length(length),
            (false, None) => ResponseFraming::UntilClose,
        })
    }

    /// Returns `Content-Length`, and whether the coding is chunked; never both.
    fn length_and_coding(&self) -> Result<(Option<u64>, bool), ResponseError> {
        let headers = &self.headers;
        let sole = [Known::ContentLength, Known::TransferEncoding];
        if let Some(value) = headers.repeated_among(&sole) {
            return Err(ResponseError::Repeated(self.span_of(value)));
        }
        let length = match headers.first(Known::ContentLength) {
            None => None,
            Some(value) => Some(
                parse_length(value)
                    .ok_or_else(|| ResponseError::ContentLengthInvalid(self.span_of(value)))?,
            ),
        };
        let coding = headers.first(Known::TransferEncoding);
        if coding.is_some() && length.is_some() {
            return Err(ResponseError::ContentLengthWithTransferEncoding);
        }
        if let Some(value) = coding.filter(|value| !value.eq_ignore_ascii_case(b"chunked")) {
            return Err(ResponseError::TransferEncodingUnknown(self.span_of(value)));
        }
        Ok((length, coding.is_some()))
    }

    fn span_of(&self, value: &[u8]) -> Span {
        crate::span::locate(self.headers.text(), value)
    }
}

/// Reads a response head from the start of `buffer`; at most `head_bytes_max` bytes.
///
/// Call it with a cleared `head`, and after `Partial` again with the same bytes and more. A bare LF ends a
/// line and the reason may be missing, as nginx accepts it from origins. Unlike in nginx, control characters
/// in values and the reason are refused: a reader of the client's copy may take them for the end of a line.
pub fn parse_response(
    buffer: &[u8],
    head_bytes_max: usize,
    head: &mut ResponseHead,
) -> Result<Parse, ResponseError> {
    let received = &buffer[..buffer.len().min(head_bytes_max)];
    let outcome = match read_head(received, head) {
        Ok(Parse::Partial) if buffer.len() > head_bytes_max => Err(ResponseError::TooBig),
        other => other,
    };
    match outcome {
        Ok(Parse::Complete(len)) => head.headers.set_text(&received[..len]),
        Ok(Parse::Partial) => head.scan_from = buffer.len(),
        Err(_) => head.headers.set_text(received),
    }
    outcome
}

/// Parses the head of a FastCGI, SCGI or uwsgi response: fields only, with the status in a `Status` field
/// (RFC 3875 section 6.3; 302 with a `Location` and no status, otherwise 200). A complete HTTP/1 head is
/// accepted as well, as SCGI and uwsgi servers may send one.
pub fn parse_cgi_response(
    buffer: &[u8],
    head_bytes_max: usize,
    head: &mut ResponseHead,
) -> Result<Parse, ResponseError> {
    const HTTP: &[u8] = b"HTTP/1.";
    let common = buffer.len().min(HTTP.len());
    if buffer[..common] == HTTP[..common] {
        return match common < HTTP.len() {
            true => Ok(Parse::Partial),
            false => parse_response(buffer, head_bytes_max, head),
        };
    }
    // A status that is set means that no status line is expected.
    head.status = 200;
    let outcome = parse_response(buffer, head_bytes_max, head)?;
    if let Parse::Complete(_) = outcome {
        match head.headers.first(Known::Status) {
            Some(value) => {
                let invalid = ResponseError::StatusInvalid(head.span_of(value));
                let [a, b, c, reason @ ..] = value else { return Err(invalid) };
                if !matches!(reason, [] | [b' ', ..]) {
                    return Err(invalid);
                }
                let reason = head.span_of(reason.strip_prefix(b" ").unwrap_or(reason));
                head.status = status_of([*a, *b, *c]).ok_or(invalid)?;
                head.reason_span = reason;
            }
            None if head.headers.contains(Known::Location) => head.status = 302,
            None => {}
        }
    }
    Ok(outcome)
}

/// Parses three digits, 100 to 999.
fn status_of(digits: [u8; 3]) -> Option<u16> {
    let valid = digits.iter().all(u8::is_ascii_digit) && digits[0] != b'0';
    valid.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
}

fn read_head(buffer: &[u8], head: &mut ResponseHead) -> Result<Parse, ResponseError> {
    let unseen = buffer.get(head.scan_from..).unwrap_or(&[]);
    if head.scan_from > head.line_start && memchr(b'\n', unseen).is_none() {
        return check_beginning(buffer, head);
    }
    if head.status == 0 {
        let Some(end) = memchr(b'\n', buffer) else { return check_beginning(buffer, head) };
        let line_end = trim_line_end(buffer, 0, end + 1);
        read_status_line(&buffer[..line_end], head).ok_or(ResponseError::StatusLine)?;
        head.line_start = end + 1;
    }
    let rules = FieldRules { ignore_odd_names: false, underscores: true, controls: false };
    loop {
        let start = head.line_start;
        match read_field(buffer, start, rules) {
            Line::Field(field, next) => {
                head.headers.note(field);
                head.line_start = next;
            }
            Line::Ignored(next) => head.line_start = next,
            Line::End(next) => return Ok(Parse::Complete(next)),
            Line::Incomplete => return Ok(Parse::Partial),
            Line::Invalid(_) => {
                let Some(end) = memchr(b'\n', &buffer[start..]) else {
                    return Ok(Parse::Partial);
                };
                let span = Span::new(start, trim_line_end(buffer, start, start + end + 1));
                return Err(ResponseError::InvalidHeader(span));
            }
        }
    }
}

/// Checks the start of a response: bytes that are not HTTP may never contain a line end.
fn check_beginning(buffer: &[u8], head: &ResponseHead) -> Result<Parse, ResponseError> {
    let begins = buffer.iter().zip(b"HTTP/1.").all(|(received, wanted)| received == wanted);
    if head.status == 0 && !begins {
        return Err(ResponseError::StatusLine);
    }
    Ok(Parse::Partial)
}

fn read_status_line(line: &[u8], head: &mut ResponseHead) -> Option<()> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [minor, b' ', a, b, c, reason @ ..] = rest else { return None };
    if !minor.is_ascii_digit() {
        return None;
    }
    let status = status_of([*a, *b, *c])?;
    let reason = match reason {
        [] => reason,
        [b' ', text @ ..] => text,
        _ => return None,
    };
    if reason.iter().any(|byte| is_control(*byte)) {
        return None;
    }
    head.version = if *minor == b'0' { Version::H10 } else { Version::H11 };
    head.status = status;
    head.reason_span = Span::new(line.len() - reason.len(), line.len());
    Some(())
}

/// Returns the reason phrase that nginx sends; empty for a status without one.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Time-out",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Large",
        415 => "Unsupported Media Type",
        416 => "Requested Range Not Satisfiable",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Temporarily Unavailable",
        504 => "Gateway Time-out",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

/// Appends `HTTP/1.1 200 OK\r
/// `. A status without a phrase keeps the space behind it.
pub fn write_status_line(status: u16, out: &mut Vec<u8>) {
    if status == 200 {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    write_status_line_with(status, reason(status).as_bytes(), out);
}

/// Appends a status line with a given reason, as an origin sent it.
pub fn write_status_line_with(status: u16, reason: &[u8], out: &mut Vec<u8>) {
    let status = status.min(999);
    let digit = |value: u16| b'0' + (value % 10) as u8;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}
