//! Heads and trailer sections: what a decoded field section says, checked before anything else sees it.

mod check;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use tidegate_codec::{Headers, Span};

use crate::priority::Priority;

pub use read::{Reader, Scratch, Section};
pub use write::{Fields, RequestLine};

/// Limits and tolerances of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRules {
    /// The protocol as a request line names it: `HTTP/2.0` or `HTTP/3.0`.
    pub version: &'static str,
    /// Bytes of names and values of a field list; what is beyond is refused with 431.
    pub list_bytes_max: u32,
    /// Bytes of one name or value, refused in the same way.
    pub field_bytes_max: u32,
    /// Fields of a list, refused in the same way.
    pub fields_max: u32,
    /// Fields whose names are not of lower-case letters, digits and `-` are left out, though the protocol allows them
    /// (`ignore_invalid_headers`).
    pub ignore_odd_names: bool,
    /// `_` is an ordinary letter of a name (`underscores_in_headers`).
    pub underscores: bool,
    /// Extended CONNECT is taken (RFC 8441, RFC 9220).
    pub extended_connect: bool,
}

impl Default for HeadRules {
    fn default() -> HeadRules {
        HeadRules {
            version: "HTTP/2.0",
            list_bytes_max: 33 * 1024,
            field_bytes_max: 33 * 1024,
            fields_max: 1000,
            ignore_odd_names: true,
            underscores: false,
            extended_connect: false,
        }
    }
}

/// A head or a trailer section that was received. All places lie in the text of `headers`, so that the caller takes
/// the whole by swapping `headers` with its own; a server gives its parts to
/// [`RequestHead::compose`](tidegate_codec::request::RequestHead::compose).
#[derive(Debug, Default)]
pub struct Head {
    /// The fields without the pseudo-header fields, names in lower case. A request has a `host` field in any case: that
    /// of `:authority` where none was sent. Its cookies are one field, the last but for `host` (RFC 9113 section
    /// 8.2.3, RFC 9114 section 4.2.1).
    pub headers: Headers,
    /// `GET /path HTTP/2.0`, with the version of [`HeadRules`]: what a request line would be. Empty in responses and trailer sections.
    pub line: Span,
    /// `:method`, within `line`.
    pub method: Span,
    /// `:path`, or `:authority` of CONNECT, within `line`.
    pub target: Span,
    /// `:scheme`.
    pub scheme: Span,
    /// `:authority`; empty where it was not sent.
    pub authority: Span,
    /// `:protocol` of extended CONNECT (RFC 8441, RFC 9220).
    pub protocol: Span,
    /// `:status` of a response, 100 to 999; else 0.
    pub status: u16,
    /// Bytes of the field section as it was sent.
    pub block_bytes: u32,
    /// The value of `content-length`.
    pub content_length: Option<u64>,
    /// The value of a `priority` field (RFC 9218).
    pub priority: Option<Priority>,
    /// `name: value` of each field that was left out for its name, for the error log.
    pub ignored: Vec<Span>,
}

impl Head {
    /// Makes ready for the next one; the buffers keep their capacity.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        let mut ignored = std::mem::take(&mut self.ignored);
        headers.clear();
        ignored.clear();
        *self = Head { headers, ignored, ..Head::default() };
    }

    /// Returns the bytes of one of its places.
    pub fn text(&self, place: Span) -> &[u8] {
        place.of(self.headers.text())
    }
}

/// Why a message is malformed (RFC 9113 section 8.1.1, RFC 9114 section 4.1.2; sections below are RFC 9113's, RFC 9114's
/// 4.2 and 4.3 have the same rules). The stream is left to the caller: a server responds with
/// [`HeadFault::status`] or resets it, a client resets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadFault {
    /// More bytes than [`HeadRules::list_bytes_max`] allows; what is beyond is missing.
    TooLarge,
    /// More fields than [`HeadRules::fields_max`] allows; what is beyond is missing.
    TooMany,
    /// A pseudo-header field that is unknown, or has no place in this section.
    PseudoUnknown,
    /// A pseudo-header field was sent twice.
    PseudoRepeated,
    /// A pseudo-header field behind others.
    PseudoLate,
    /// A pseudo-header field is missing, or both `:authority` and `host` are.
    PseudoMissing,
    /// An invalid value of a pseudo-header field.
    PseudoValue,
    /// A name that is empty, in upper case or has a byte that no name may have (section 8.2.1).
    Name,
    /// A value with a line end or a zero byte, or with a space at its begin or end (section 8.2.1).
    Value,
    /// A field that is particular to one connection (section 8.2.2).
    ConnectionField,
    /// `host` and `:authority` differ (section 8.3.1).
    Host,
    /// `content-length` is no number, or says two.
    ContentLength,
    /// The body is longer or shorter than `content-length` says (section 8.1.1).
    BodyLength,
}

impl HeadFault {
    /// Returns the status of a response to such a request.
    pub fn status(self) -> u16 {
        match self {
            HeadFault::TooLarge | HeadFault::TooMany => 431,
            _ => 400,
        }
    }
}

impl fmt::Display for HeadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadFault::TooLarge => "header list too large",
            HeadFault::TooMany => "too many fields",
            HeadFault::PseudoUnknown => "unknown pseudo-header field",
            HeadFault::PseudoRepeated => "duplicate pseudo-header field",
            HeadFault::PseudoLate => "pseudo-header field behind others",
            HeadFault::PseudoMissing => "missing pseudo-header field",
            HeadFault::PseudoValue => "invalid value of a pseudo-header field",
            HeadFault::Name => "invalid field name",
            HeadFault::Value => "invalid field value",
            HeadFault::ConnectionField => "connection-specific field",
            HeadFault::Host => "\"host\" and \":authority\" differ",
            HeadFault::ContentLength => "invalid \"content-length\"",
            HeadFault::BodyLength => "body length differs from \"content-length\"",
        })
    }
}

impl std::error::Error for HeadFault {}
