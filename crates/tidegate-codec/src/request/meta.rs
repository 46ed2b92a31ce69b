//! The decisions by the fields of a head: body framing, connection, host (RFC 9112 sections 3.2, 6, 9).

use super::error::{RequestError, RequestFault};
use super::host::{HostName, parse_authority, parse_target_authority};
use super::{Method, RequestHead, Version};
use crate::connection::{ConnectionOptions, parse_length};
use crate::headers::Known;
use crate::span::{Span, locate};

/// The decisions that every request needs. Borrows the host from the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMeta<'a> {
    /// `Content-Length`, in bytes.
    pub content_length: Option<u64>,
    /// Whether the body has the chunked coding.
    pub chunked: bool,
    /// Whether the client may send another request on this connection.
    pub keep_alive: bool,
    /// `Connection: upgrade` together with an `Upgrade` field.
    pub upgrade: bool,
    /// `Expect: 100-continue` from a client of HTTP/1.1 or later.
    pub expect_continue: bool,
    /// The host of the target, or else of `Host`; `None` for HTTP/1.0 clients without it.
    pub host: Option<HostName<'a>>,
    /// The port of the host, if it was sent.
    pub port: Option<u16>,
}

/// Fields that must not be repeated, as nginx documents for its duplicate check.
const SOLE: [Known; 11] = [
    Known::Host,
    Known::ContentLength,
    Known::TransferEncoding,
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfMatch,
    Known::IfNoneMatch,
    Known::ContentRange,
    Known::IfRange,
    Known::Expect,
    Known::Authorization,
];

impl<'a> RequestMeta<'a> {
    /// Reads and checks the fields that decide. Repeated or conflicting ones are refused, since two servers
    /// that read them differently disagree about the start of the next request.
    pub fn of(head: &'a RequestHead) -> Result<RequestMeta<'a>, RequestError> {
        if head.method == Method::Trace {
            return Err(refuse(head, RequestFault::TraceMethod, b""));
        }
        if let Some(second) = head.headers.repeated_among(&SOLE) {
            return Err(repeated(head, second));
        }
        let (host, port) = host_of(head)?;
        let (content_length, chunked) = framing_of(head)?;
        let headers = &head.headers;
        let mut keep_alive = head.version >= Version::H11;
        let mut upgrade = false;
        for value in headers.all(Known::Connection) {
            let asked = ConnectionOptions::of(value);
            upgrade |= asked.upgrade;
            if asked.close {
                keep_alive = false;
                break;
            }
            keep_alive |= head.version == Version::H10 && asked.keep_alive;
        }
        let expects = headers.first(Known::Expect);
        let expects = expects.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        Ok(RequestMeta {
            content_length,
            chunked,
            keep_alive,
            upgrade: upgrade && headers.contains(Known::Upgrade),
            expect_continue: expects && head.version >= Version::H11,
            host,
            port,
        })
    }
}

/// Returns the error for the field whose value `second` is, with the earlier one of the same name.
#[cold]
fn repeated(head: &RequestHead, second: &[u8]) -> RequestError {
    let text = head.headers.text();
    let line =
        |name, value| Span::new(locate(text, name).start as usize, locate(text, value).end());
    let mut error = refuse(head, RequestFault::HeaderRepeated, second);
    let is_second = |value: &[u8]| std::ptr::eq(value, second);
    let found = head.headers.iter().find(|(_, _, value)| is_second(value));
    if let Some((known, name, value)) = found {
        error.line = line(name, value);
        if known == Known::Host {
            error.fault = RequestFault::HostRepeated;
        }
        let first = head.headers.iter().find(|(other, ..)| *other == known);
        error.previous = first.map(|(_, name, value)| line(name, value));
    }
    error
}

fn host_of(head: &RequestHead) -> Result<(Option<HostName<'_>>, Option<u16>), RequestError> {
    let field = head.headers.first(Known::Host);
    if field.is_none() && head.version >= Version::H11 {
        return Err(refuse(head, RequestFault::HostMissing, b""));
    }
    let from_target = match head.authority() {
        None => None,
        Some(authority) => match parse_target_authority(authority) {
            None => return Err(refuse(head, RequestFault::TargetHostInvalid, authority)),
            host => host,
        },
    };
    // Checked also where the target decides, as the next server may use it.
    let from_field = match field {
        None => None,
        // RFC 9112 section 3.2: an empty field is correct for a target without authority, but nginx refuses a
        // request without any host.
        Some(value) => match parse_authority(value) {
            None => return Err(refuse(head, RequestFault::HostInvalid, value)),
            host => host,
        },
    };
    let host = from_target.or(from_field);
    Ok(host.map_or((None, None), |(name, port)| (Some(name), port)))
}

fn framing_of(head: &RequestHead) -> Result<(Option<u64>, bool), RequestError> {
    let length = match head.headers.first(Known::ContentLength) {
        None => None,
        Some(value) => match parse_length(value) {
            None => return Err(refuse(head, RequestFault::ContentLengthInvalid, value)),
            length => length,
        },
    };
    let Some(coding) = head.headers.first(Known::TransferEncoding) else {
        return Ok((length, false));
    };
    if length.is_some() {
        return Err(refuse(head, RequestFault::ContentLengthWithTransferEncoding, b""));
    }
    if head.version < Version::H11 {
        return Err(refuse(head, RequestFault::TransferEncodingInHttp10, b""));
    }
    if !coding.eq_ignore_ascii_case(b"chunked") {
        return Err(refuse(head, RequestFault::TransferEncodingUnknown, coding));
    }
    Ok((None, true))
}

/// Makes an error that points at `value` within the head's text.
fn refuse(head: &RequestHead, fault: RequestFault, value: &[u8]) -> RequestError {
    RequestError::new(fault, locate(head.headers.text(), value))
}
