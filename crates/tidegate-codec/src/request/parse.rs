//! The request head parser: one pass, resumable at any byte, no allocation once the buffers have grown.
//!
//! Stricter than nginx where its documentation and tests leave room: exactly one space between
//! the parts of a request line, no bare CR anywhere, no folded fields (RFC 9112 sections 2.2, 3
//! and 5.2). A bare LF ends a line, as nginx accepts it.

use super::error::{RequestError, RequestFault};
use super::{Method, Parse, ParseOptions, RequestHead, TargetForm, Version};
use crate::headers::Known;
use crate::lines::{Line, read_field, trim_line_end};
use crate::span::Span;
use memchr::memchr;

/// The most bytes of empty lines before a request line, which are skipped (RFC 9112 section 2.2).
const LEADING_EMPTY_BYTES: usize = 64;

/// Reads a request head from the start of `buffer`.
///
/// Call it with a cleared `head`, and after `Partial` again with the same bytes and more: bytes are not
/// scanned twice. On `Complete` and on an error `head` has its own copy of the bytes, so that `buffer` may be
/// reused.
pub fn parse_request(
    buffer: &[u8],
    options: &ParseOptions,
    head: &mut RequestHead,
) -> Result<Parse, RequestError> {
    parse_request_for(buffer, &mut options.clone(), head, None)
}

/// The options of the server of a host; `None` keeps the present ones.
pub type HostRules<'a> = Option<&'a dyn Fn(&[u8]) -> Option<ParseOptions>>;

/// Parses as [`parse_request`] where servers have options of their own. From the line on that has the host,
/// which is the request line or the `Host` field, those of its server apply, as in nginx, and `options` has
/// them for the next call.
pub fn parse_request_for(
    buffer: &[u8],
    options: &mut ParseOptions,
    head: &mut RequestHead,
    rules: HostRules<'_>,
) -> Result<Parse, RequestError> {
    let outcome = Parser { buffer, options, head, rules }.run();
    match outcome {
        Ok(Parse::Complete(len)) => head.headers.set_text(buffer.get(..len).unwrap_or(buffer)),
        Ok(Parse::Partial) => {}
        Err(error) => {
            keep_partial(buffer, options, head);
            if !head.has_line() {
                head.version = match error.fault {
                    // A client that sends no version does not expect a head.
                    RequestFault::Http09Method => Version::H09,
                    // The version is at the end of the line. Without it no chunks are sent, which the client
                    // may not understand.
                    _ => Version::H10,
                };
            }
        }
    }
    outcome
}

/// Copies the received part of an incomplete head into `head`, for logs: after [`Parse::Partial`], with the
/// same bytes. Without a complete request line only its text is set.
#[cold]
pub fn keep_partial(buffer: &[u8], options: &ParseOptions, head: &mut RequestHead) {
    if !head.progress.in_fields {
        let start = head.progress.line_start.min(buffer.len());
        let end = buffer[start..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let end = end.map_or(buffer.len(), |end| start + end);
        // Up to the size of a buffer, as nginx logs it: more of the line would add nothing.
        let end = end.min(start + options.line_bytes_max());
        head.clear();
        head.line_span = Span::new(start, end);
    }
    let len = buffer.len().min(options.head_bytes_max());
    head.headers.set_text(&buffer[..len]);
}

struct Parser<'a> {
    buffer: &'a [u8],
    options: &'a mut ParseOptions,
    head: &'a mut RequestHead,
    rules: HostRules<'a>,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<Parse, RequestError> {
        if !self.head.progress.in_fields && !self.request_line()? {
            return Ok(Parse::Partial);
        }
        if self.head.version == Version::H09 {
            return Ok(Parse::Complete(self.head.progress.line_start));
        }
        // A line that was incomplete last time is parsed again only once its end has arrived.
        let progress = self.head.progress;
        let unseen = self.buffer.get(progress.scan_from..).unwrap_or(&[]);
        if progress.scan_from > progress.line_start && memchr(b'\n', unseen).is_none() {
            return self.incomplete();
        }
        self.fields()
    }

    /// Returns whether the line is complete.
    fn request_line(&mut self) -> Result<bool, RequestError> {
        let start = self.skip_empty_lines()?;
        let from = self.head.progress.scan_from.max(start);
        let Some(end) = memchr(b'\n', self.buffer.get(from..).unwrap_or(&[])) else {
            return self.partial_request_line(start);
        };
        let next = from + end + 1;
        self.check_line_length(start, next)?;
        let mut line_end = next - 1;
        if line_end > start && self.buffer[line_end - 1] == b'\r' {
            line_end -= 1;
        }
        self.head.line_span = Span::new(start, line_end);
        parse_line(&self.buffer[..line_end], start, self.head)
            .map_err(|fault| RequestError::new(fault, Span::new(start, line_end)))?;
        let progress = &mut self.head.progress;
        progress.in_fields = true;
        progress.line_start = next;
        progress.scan_from = next;
        if self.rules.is_some() && self.head.form == TargetForm::Absolute {
            self.follow(self.head.authority_span, next);
        }
        Ok(true)
    }

    /// Continues with the options of the server of this host; the buffers that were needed up to `next` stay.
    #[cold]
    fn follow(&mut self, host: Span, next: usize) {
        let host = host.of(self.buffer);
        if let Some(options) = self.rules.and_then(|rules| rules(host)) {
            let head_bytes_there = self.options.head_bytes_taken(next);
            *self.options = ParseOptions { head_bytes_there, ..options };
        }
    }

    fn skip_empty_lines(&mut self) -> Result<usize, RequestError> {
        let mut at = self.head.progress.line_start;
        while let Some(b'\r' | b'\n') = self.buffer.get(at) {
            at += 1;
            if at > LEADING_EMPTY_BYTES {
                return Err(RequestError::new(RequestFault::InvalidRequestLine, Span::default()));
            }
        }
        self.head.progress.line_start = at;
        Ok(at)
    }

    /// Refuses a wrong method at once: a TLS greeting on a plain port has no line end.
    fn partial_request_line(&mut self, start: usize) -> Result<bool, RequestError> {
        let len = self.buffer.len();
        self.check_line_length(start, len)?;
        let received = self.buffer.get(start..).unwrap_or(&[]);
        let from = self.head.progress.scan_from.saturating_sub(start).min(received.len());
        let known_good = &received[..from];
        if memchr(b' ', known_good).is_none() {
            let mut letters = received[from..].iter().take_while(|byte| **byte != b' ');
            if !letters.all(|byte| is_method_byte(*byte)) {
                return Err(RequestError::new(RequestFault::InvalidMethod, Span::new(start, len)));
            }
        }
        self.head.progress.scan_from = len;
        Ok(false)
    }

    fn check_line_length(&self, start: usize, end: usize) -> Result<(), RequestError> {
        let in_fields = self.head.progress.in_fields;
        let span = Span::new(start, end);
        if end.saturating_sub(start) > self.options.line_bytes_max() {
            let fault = if in_fields {
                RequestFault::LongHeaderLine
            } else {
                RequestFault::LongRequestLine
            };
            return Err(RequestError::new(fault, span));
        }
        if in_fields && end > self.options.head_bytes_max() {
            return Err(RequestError::new(RequestFault::LargeHead, span));
        }
        Ok(())
    }

    fn incomplete(&mut self) -> Result<Parse, RequestError> {
        let len = self.buffer.len();
        self.check_line_length(self.head.progress.line_start, len)?;
        self.head.progress.scan_from = len;
        Ok(Parse::Partial)
    }

    /// Reads field lines until the empty line (RFC 9112 section 5).
    ///
    /// Invariant: `progress.line_start` is the start of the first line that is not noted yet, so that after
    /// `Partial` the call is made again with the same bytes and more, and reads no line twice. The limits on
    /// one line, on the whole head (`large_client_header_buffers`) and on the number of fields are checked
    /// with each line, before it is noted.
    fn fields(&mut self) -> Result<Parse, RequestError> {
        loop {
            let start = self.head.progress.line_start;
            let next = match read_field(self.buffer, start, self.options.field_rules()) {
                Line::Field(field, next) => {
                    self.check_line_length(start, next)?;
                    self.count_line(start, next)?;
                    self.head.headers.note(field);
                    if self.rules.is_some()
                        && field.known == Known::Host
                        && self.head.form == TargetForm::Origin
                    {
                        let start = field.value_start as usize;
                        self.follow(Span::new(start, start + field.value_len as usize), next);
                    }
                    next
                }
                Line::Ignored(next) => {
                    self.check_line_length(start, next)?;
                    self.count_line(start, next)?;
                    let shown = trim_line_end(self.buffer, start, next);
                    self.head.ignored_lines.push(Span::new(start, shown));
                    next
                }
                Line::End(next) => {
                    self.check_line_length(start, next)?;
                    return Ok(Parse::Complete(next));
                }
                Line::Incomplete => return self.incomplete(),
                Line::Invalid(at) => {
                    // Decided at its end, so that the result does not depend on how the bytes arrive.
                    let Some(end) = memchr(b'\n', &self.buffer[start..]) else {
                        return self.incomplete();
                    };
                    self.check_line_length(start, start + end + 1)?;
                    let span = Span::new(start, start + at + 1);
                    return Err(RequestError::new(RequestFault::InvalidHeaderLine, span));
                }
            };
            self.head.progress.line_start = next;
            self.head.progress.scan_from = next;
        }
    }

    fn count_line(&mut self, start: usize, next: usize) -> Result<(), RequestError> {
        self.head.progress.lines += 1;
        if self.head.progress.lines > self.options.headers_max {
            return Err(RequestError::new(RequestFault::ManyHeaders, Span::new(start, next)));
        }
        Ok(())
    }
}

/// Parses `buffer[start..]`, a request line without its end.
fn parse_line(buffer: &[u8], start: usize, head: &mut RequestHead) -> Result<(), RequestFault> {
    let line = &buffer[start..];
    let method_len = line.iter().position(|byte| !is_method_byte(*byte)).unwrap_or(line.len());
    if method_len == 0 || line.get(method_len).is_some_and(|byte| *byte != b' ') {
        return Err(RequestFault::InvalidMethod);
    }
    head.method = Method::of(&line[..method_len]);
    head.method_span = Span::new(start, start + method_len);
    if line.len() <= method_len + 1 {
        return Err(RequestFault::InvalidRequestLine);
    }
    let target_start = method_len + 1;
    let rest = &line[target_start..];
    let target_len = target_len(rest);
    if target_len == 0 {
        return Err(RequestFault::InvalidRequestLine);
    }
    head.target_span = Span::new(start + target_start, start + target_start + target_len);
    parse_form(&rest[..target_len], start + target_start, head)?;
    head.version = match rest.get(target_len) {
        None if head.method == Method::Get => Version::H09,
        None => return Err(RequestFault::Http09Method),
        Some(b' ') => parse_version(&rest[target_len + 1..])?,
        Some(_) => return Err(RequestFault::InvalidRequestLine),
    };
    Ok(())
}

/// Returns the length of the target at the start of `rest`; scans many bytes at a time.
fn target_len(rest: &[u8]) -> usize {
    let (blocks, _) = rest.as_chunks::<16>();
    let whole = blocks.iter().position(|block| {
        block.iter().fold(false, |end, byte| end | (*byte <= b' ') | (*byte == 0x7f))
    });
    let seen = 16 * whole.unwrap_or(blocks.len());
    let end = rest[seen..].iter().position(|byte| !is_target_byte(*byte));
    end.map_or(rest.len(), |end| seen + end)
}

fn parse_version(text: &[u8]) -> Result<Version, RequestFault> {
    match text {
        b"HTTP/1.1" => Ok(Version::H11),
        b"HTTP/1.0" => Ok(Version::H10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::H11),
        [b'H', b'T', b'T', b'P', b'/', version @ ..] if is_later_version(version) => {
            Err(RequestFault::UnsupportedVersion)
        }
        _ => Err(RequestFault::InvalidRequestLine),
    }
}

/// Returns whether the version is above 1, whatever follows its digits.
fn is_later_version(text: &[u8]) -> bool {
    matches!(text, [b'2'..=b'9', ..] | [b'1', b'0'..=b'9', ..])
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Splits the target into authority and path (RFC 9112 section 3.2). `at` is its offset.
pub(super) fn parse_form(
    target: &[u8],
    at: usize,
    head: &mut RequestHead,
) -> Result<(), RequestFault> {
    let whole = Span::new(at, at + target.len());
    if head.method == Method::Connect {
        head.form = TargetForm::Authority;
        head.authority_span = whole;
        // The port is required (RFC 9112 section 3.2.3).
        let colon = target.iter().rposition(|byte| *byte == b':');
        let port = colon.map_or(&[][..], |colon| &target[colon + 1..]);
        return if is_number(port) { Ok(()) } else { Err(RequestFault::InvalidRequestLine) };
    }
    if target.first() == Some(&b'/') {
        head.form = TargetForm::Origin;
        head.path_span = whole;
        return Ok(());
    }
    if target == b"*" && head.method == Method::Options {
        head.form = TargetForm::Asterisk;
        head.path_span = whole;
        return Ok(());
    }
    let scheme = target.iter().position(|byte| !is_scheme_byte(*byte)).unwrap_or(target.len());
    let begins = target.first().is_some_and(u8::is_ascii_alphabetic);
    if !begins || !target[scheme..].starts_with(b"://") {
        return Err(RequestFault::InvalidRequestLine);
    }
    let authority = scheme + 3;
    let path = target[authority..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let path = path.map_or(target.len(), |path| authority + path);
    // A fragment is not sent to servers; the text behind the host is its path.
    if target.get(path) == Some(&b'#') {
        return Err(RequestFault::InvalidRequestLine);
    }
    head.form = TargetForm::Absolute;
    head.authority_span = Span::new(at + authority, at + path);
    head.path_span = Span::new(at + path, at + target.len());
    Ok(())
}

#[inline]
/// Whether it is a method as nginx takes them: upper-case letters, `_` and `-`.
pub(super) fn is_method(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_method_byte(*byte))
}

fn is_method_byte(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'_' | b'-')
}

#[inline]
fn is_target_byte(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
