//! Request heads: the types, the limits, and the errors.
//!
//! `parse_request` turns received bytes into a `RequestHead` (RFC 9112 sections 2, 3 and 5);
//! `RequestMeta::of` then reads the fields that decide framing, connection and host.

mod error;
mod host;
mod meta;
mod parse;
#[cfg(test)]
mod tests;

pub use error::{RequestError, RequestFault, wire_status};
pub use host::{HostName, parse_authority, parse_host};
pub use meta::RequestMeta;
pub use parse::{HostRules, keep_partial, parse_request, parse_request_for};

use crate::headers::{Headers, Known};
use crate::lines::FieldRules;
use crate::span::Span;

/// The methods that the server itself uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Method {
    /// `GET`.
    #[default]
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `OPTIONS`.
    Options,
    /// `PATCH`.
    Patch,
    /// `TRACE`.
    Trace,
    /// `CONNECT`.
    Connect,
    /// `MKCOL`.
    Mkcol,
    /// `COPY`.
    Copy,
    /// `MOVE`.
    Move,
    /// `PROPFIND`.
    Propfind,
    /// `PROPPATCH`.
    Proppatch,
    /// `LOCK`.
    Lock,
    /// `UNLOCK`.
    Unlock,
    /// Any other well-formed method; its bytes are in `RequestHead::method_bytes`.
    Other,
}

impl Method {
    /// Returns a bit of its own in a mask of methods.
    #[inline]
    pub fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Returns the method of this name; methods are case-sensitive (RFC 9110 section 9.1).
    #[inline]
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"MKCOL" => Method::Mkcol,
            b"COPY" => Method::Copy,
            b"MOVE" => Method::Move,
            b"PROPFIND" => Method::Propfind,
            b"PROPPATCH" => Method::Proppatch,
            b"LOCK" => Method::Lock,
            b"UNLOCK" => Method::Unlock,
            _ => Method::Other,
        }
    }

    /// Returns the name as in a request line; empty for `Other`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Patch => "PATCH",
            Method::Trace => "TRACE",
            Method::Connect => "CONNECT",
            Method::Mkcol => "MKCOL",
            Method::Copy => "COPY",
            Method::Move => "MOVE",
            Method::Propfind => "PROPFIND",
            Method::Proppatch => "PROPPATCH",
            Method::Lock => "LOCK",
            Method::Unlock => "UNLOCK",
            Method::Other => "",
        }
    }
}

/// The protocol version of a request, in their order. A minor version of HTTP/1 above 1 counts as 1.1
/// (RFC 9110 section 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/0.9: a request line without a version.
    H09,
    /// HTTP/1.0.
    H10,
    /// HTTP/1.1.
    #[default]
    H11,
    /// HTTP/2, and HTTP/3 for requests: their line has the name.
    H2,
}

/// The form of the request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?args`
    #[default]
    Origin,
    /// `http://host/path?args`
    Absolute,
    /// `host:port`, only for CONNECT
    Authority,
    /// `*`, only for OPTIONS
    Asterisk,
}

/// A parsed request head. Reuse one value per connection: `clear` keeps the buffers.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The version of the request line.
    pub version: Version,
    /// The form of the target.
    pub form: TargetForm,
    /// The request line without its end; `$request`.
    pub line_span: Span,
    /// The method as received.
    pub method_span: Span,
    /// The whole target as received; `$request_uri`.
    pub target_span: Span,
    /// Host and port of an absolute or authority form; otherwise empty.
    pub authority_span: Span,
    /// Path and arguments: the target without scheme and authority; may begin with `?`.
    pub path_span: Span,
    /// The fields; their text is the whole head as received.
    pub headers: Headers,
    /// Lines left out because of `ignore_invalid_headers`, for the error log.
    pub ignored_lines: Vec<Span>,
    pub(crate) progress: Progress,
}

/// The progress of an incomplete head, from which the next call continues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) in_fields: bool,
    /// The offset of the line that is being received.
    pub(crate) line_start: usize,
    /// The offset up to which there is no line end.
    pub(crate) scan_from: usize,
    /// The number of field lines so far, those left out included.
    pub(crate) lines: usize,
}

/// A request head that was not received as text: its line was composed. All places lie in the text of `headers`.
#[derive(Debug)]
pub struct ComposedHead<'a> {
    /// The fields; they are exchanged for what the head had.
    pub headers: &'a mut Headers,
    /// Fields that were left out; as `headers`.
    pub ignored_lines: &'a mut Vec<Span>,
    /// Method, target and version with a space between.
    pub line: Span,
    /// The method, within the line.
    pub method: Span,
    /// The target, within the line.
    pub target: Span,
    /// What was spoken.
    pub version: Version,
}

impl RequestHead {
    /// Makes an empty head.
    pub fn new() -> RequestHead {
        RequestHead::default()
    }

    /// Prepares for the next request; the buffers keep their capacity.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        let mut ignored_lines = std::mem::take(&mut self.ignored_lines);
        headers.clear();
        ignored_lines.clear();
        *self = RequestHead { headers, ignored_lines, ..RequestHead::default() };
    }

    /// Makes this the head of a request that did not come as HTTP/1 text.
    ///
    /// # Errors
    /// The target is none for this method. The head has everything all the same, for logs.
    pub fn compose(&mut self, parts: ComposedHead<'_>) -> Result<(), RequestError> {
        self.clear();
        let ComposedHead { headers, ignored_lines, line, method, target, version } = parts;
        let text = headers.text();
        self.method = Method::of(method.of(text));
        let form = parse::parse_form(target.of(text), target.start as usize, self);
        (self.line_span, self.method_span, self.target_span) = (line, method, target);
        self.version = version;
        self.progress.in_fields = true;
        let form = match parse::is_method(method.of(text)) {
            true => form,
            false => Err(RequestFault::InvalidMethod),
        };
        std::mem::swap(&mut self.headers, headers);
        std::mem::swap(&mut self.ignored_lines, ignored_lines);
        form.map_err(|fault| RequestError::new(fault, line))
    }

    /// Returns the request line without its end. After an error: the part that was received.
    pub fn line(&self) -> &[u8] {
        self.line_span.of(self.headers.text())
    }

    /// Returns the method as received.
    pub fn method_bytes(&self) -> &[u8] {
        self.method_span.of(self.headers.text())
    }

    /// Returns the whole target as received.
    pub fn target(&self) -> &[u8] {
        self.target_span.of(self.headers.text())
    }

    /// Returns `host:port` of a target in absolute or authority form.
    pub fn authority(&self) -> Option<&[u8]> {
        let named = matches!(self.form, TargetForm::Absolute | TargetForm::Authority);
        named.then(|| self.authority_span.of(self.headers.text()))
    }

    /// Returns whether the request line has been received completely.
    pub fn has_line(&self) -> bool {
        self.progress.in_fields
    }

    /// Returns the requested host of a head that may be invalid elsewhere: from the target, or else from
    /// `Host`.
    pub fn host(&self) -> Option<HostName<'_>> {
        parse_authority(self.host_text()?).map(|(host, _)| host)
    }

    /// Returns host and port as written: those of the target if it has them, whatever the `Host` field is
    /// (RFC 9112 section 3.2.2), or else those of that field.
    pub fn host_text(&self) -> Option<&[u8]> {
        self.authority().or_else(|| self.headers.first(Known::Host))
    }

    /// Keeps only the request line: it was invalid, and nginx does not read further then.
    pub fn forget_fields(&mut self) {
        self.headers.forget_fields();
        self.ignored_lines.clear();
    }

    /// Returns path and arguments, `/` where an absolute target has none; input of [`crate::uri::normalise`].
    pub fn path_and_args(&self) -> &[u8] {
        match self.form {
            TargetForm::Absolute if self.path_span.is_empty() => b"/",
            _ => self.path_span.of(self.headers.text()),
        }
    }
}

/// Limits and tolerances for a request head, from the server's directives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// `ignore_invalid_headers`: whether fields with odd names are left out instead of passed on.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`: whether `_` is an ordinary letter of a name.
    pub underscores_in_headers: bool,
    /// `max_headers`: the most field lines of a request.
    pub headers_max: usize,
    /// `client_header_buffer_size`, in bytes.
    pub header_buffer_bytes: usize,
    /// `large_client_header_buffers`: the number of buffers.
    pub large_buffers: usize,
    /// `large_client_header_buffers`: the size of each in bytes, which limits the longest line.
    pub large_buffer_bytes: usize,
    /// Bytes of the buffers that this head already uses by the options of the server before this one; 0 at
    /// its start.
    pub head_bytes_there: usize,
}

impl Default for ParseOptions {
    fn default() -> ParseOptions {
        ParseOptions {
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            headers_max: 1000,
            header_buffer_bytes: 1024,
            large_buffers: 4,
            large_buffer_bytes: 8192,
            head_bytes_there: 0,
        }
    }
}

impl ParseOptions {
    /// Returns the longest line in bytes, its end included.
    pub fn line_bytes_max(&self) -> usize {
        self.header_buffer_bytes.max(self.large_buffer_bytes)
    }

    pub(crate) fn field_rules(&self) -> FieldRules {
        FieldRules {
            ignore_odd_names: self.ignore_invalid_headers,
            underscores: self.underscores_in_headers,
            controls: true,
        }
    }

    /// Returns the largest head in bytes; a receive buffer of this size holds any accepted head.
    pub fn head_bytes_max(&self) -> usize {
        let large = self.large_buffers.saturating_mul(self.large_buffer_bytes);
        let own = large.saturating_add(self.header_buffer_bytes);
        // Offsets are 32 bits.
        own.max(self.head_bytes_there).min(1 << 30)
    }

    /// Returns the bytes of the buffers that a head of `len` bytes uses.
    fn head_bytes_taken(&self, len: usize) -> usize {
        let large = len.saturating_sub(self.header_buffer_bytes);
        let large = large.checked_next_multiple_of(self.large_buffer_bytes).unwrap_or(large);
        self.header_buffer_bytes.saturating_add(large)
    }
}

/// The result of a call of `parse_request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse {
    /// The head is complete: this number of bytes from the start of the buffer belong to it.
    Complete(usize),
    /// More bytes are needed; call again with the same bytes and more behind them.
    Partial,
}
