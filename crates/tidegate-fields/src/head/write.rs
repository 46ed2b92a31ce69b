//! Heads and trailer sections to be sent, encoded as they are listed.

use tidegate_codec::connection::trim;
use tidegate_codec::{Headers, Known};

use super::check;
use crate::field::{FieldEncoder, Indexing};

/// The pseudo-header fields of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:scheme`; not sent with CONNECT unless `protocol` is set.
    pub scheme: &'a [u8],
    /// `:authority`; empty for none: the `host` field has to be listed then.
    pub authority: &'a [u8],
    /// `:path`; as `scheme`.
    pub path: &'a [u8],
    /// `:protocol`, for extended CONNECT.
    pub protocol: Option<&'a [u8]>,
}

/// Takes the fields of a section and encodes them. Names are sent in lower case, spaces around values are cut.
///
/// What the protocols do not allow is left out: fields that are particular to one connection (RFC 9113 section 8.2.2,
/// RFC 9114 section 4.2), and
/// fields with an invalid name or value, which are counted: a line end in a value would be a field of its
/// own in the HTTP/1 behind the peer.
#[derive(Debug)]
pub struct Fields<'a, E> {
    encoder: &'a mut E,
    block: &'a mut Vec<u8>,
    /// `host` is sent as `:authority`.
    has_authority: bool,
    invalid: u32,
}

impl<'a, E: FieldEncoder> Fields<'a, E> {
    /// Fields that are appended to `block` by an encoder that has begun a section.
    pub fn new(encoder: &'a mut E, block: &'a mut Vec<u8>) -> Fields<'a, E> {
        Fields { encoder, block, has_authority: false, invalid: 0 }
    }

    /// Adds a field.
    #[inline]
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_as(Known::of(name), name, value);
    }

    /// Adds a well-known field; nothing for `Known::Other`.
    #[inline]
    pub fn push_known(&mut self, known: Known, value: &[u8]) {
        if known != Known::Other {
            self.push_as(known, known.name().as_bytes(), value);
        }
    }

    /// Adds all fields of a list.
    pub fn push_all(&mut self, headers: &Headers) {
        for (known, name, value) in headers.iter() {
            // `push_beside` lists fields without their id: the name decides.
            let known = if known == Known::Other { Known::of(name) } else { known };
            self.push_as(known, name, value);
        }
    }

    /// Returns what lines of this section depend on beside the fields; see [`FieldEncoder::code`].
    #[inline]
    pub fn code(&self) -> Option<bool> {
        self.encoder.code()
    }

    /// Returns the lines so far, behind what was in the buffer before.
    pub fn lines(&self) -> &[u8] {
        self.block
    }

    /// Adds lines that another section has, of the same [`Fields::code`].
    #[inline]
    pub fn push_lines(&mut self, lines: &[u8]) {
        self.block.extend_from_slice(lines);
    }

    /// Returns how many fields were left out as invalid.
    pub fn invalid(&self) -> u32 {
        self.invalid
    }

    fn push_as(&mut self, known: Known, name: &[u8], value: &[u8]) {
        let value = trim(value);
        match known {
            known if known.is_of_connection() => return,
            Known::Te if !value.eq_ignore_ascii_case(b"trailers") => return,
            Known::Host if self.has_authority => return,
            _ => {}
        }
        let right_name = known != Known::Other || check::is_sendable_name(name);
        if !right_name || !check::is_value(value) {
            self.invalid = self.invalid.saturating_add(1);
            return;
        }
        self.encoder.field(known, name, value, indexing_of(known), self.block);
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        self.encoder.field(Known::Other, name, value, indexing, self.block);
    }

    /// Adds `:status`, 100 to 999; before all other fields.
    pub fn status(&mut self, status: u16) {
        let digit = |value: u16| b'0' + (value % 10) as u8;
        let digits = [digit(status / 100), digit(status / 10), digit(status)];
        self.pseudo(b":status", &digits, Indexing::Incremental);
    }

    /// Adds the pseudo-header fields of a request; before all other fields.
    pub fn request(&mut self, line: &RequestLine<'_>) {
        self.pseudo(b":method", line.method, Indexing::Incremental);
        if !line.authority.is_empty() {
            self.has_authority = true;
            self.pseudo(b":authority", line.authority, Indexing::Incremental);
        }
        if line.method != b"CONNECT" || line.protocol.is_some() {
            self.pseudo(b":scheme", line.scheme, Indexing::Incremental);
            self.pseudo(b":path", line.path, Indexing::Without);
        }
        if let Some(protocol) = line.protocol {
            self.pseudo(b":protocol", protocol, Indexing::Incremental);
        }
    }
}

impl RequestLine<'_> {
    /// Whether a peer may accept it: no part is missing or has bytes that a head may not hold.
    pub fn is_valid(&self) -> bool {
        let valid = |text: &[u8]| !text.is_empty() && check::is_visible(text);
        let is_connect = self.method == b"CONNECT" && self.protocol.is_none();
        let has_target = match is_connect {
            true => !self.authority.is_empty(),
            false => check::is_scheme(self.scheme) && valid(self.path),
        };
        check::is_method(self.method)
            && has_target
            && check::is_visible(self.authority)
            && self.protocol.is_none_or(valid)
            && (self.protocol.is_none() || self.method == b"CONNECT")
    }
}

/// What repeats from message to message is worth a place in the table; secrets of requests never get one, on any hop. A
/// `set-cookie` gets none from us; some decoders do not know the form that forbids it to others.
fn indexing_of(known: Known) -> Indexing {
    match known {
        Known::Authorization | Known::Cookie => Indexing::Never,
        Known::Server
        | Known::Date
        | Known::ContentType
        | Known::ContentEncoding
        | Known::CacheControl
        | Known::Vary
        | Known::AcceptRanges
        | Known::Via
        | Known::UserAgent
        | Known::Accept
        | Known::AcceptEncoding
        | Known::AcceptLanguage
        | Known::XForwardedFor
        | Known::XRealIp => Indexing::Incremental,
        _ => Indexing::Without,
    }
}
