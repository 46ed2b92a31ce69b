//! The first message of a TLS client, read without a handshake: the names, protocols and versions that the
//! client offers (RFC 8446 section 4.1.2, RFC 6066 section 3, RFC 7301 section 3.1), and the version of a
//! hello in the format of SSL 2.0 (RFC 5246 appendix E.2).

#[cfg(test)]
mod tests;

use std::fmt;

/// The content of a hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The highest version that the client offers, as on the wire: 0x0303 is TLS 1.2.
    pub version: u16,
    /// The host name of `server_name`, as sent; empty for none.
    pub server_name: Vec<u8>,
    /// The protocols of ALPN in the client's order.
    pub alpn: Vec<Vec<u8>>,
}

/// The result of parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedHello {
    /// A complete hello.
    Complete(ClientHello),
    /// More bytes are needed.
    Partial,
}

/// The bytes are not the hello of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHello;

impl fmt::Display for NotHello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are no client's hello")
    }
}

impl std::error::Error for NotHello {}

/// Record type of handshakes (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;
/// Handshake type (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER_BYTES: usize = 5;
/// Longest content of a record, in bytes (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;
/// Longest hello, in bytes. No client sends one as long; those with post-quantum key shares have about 2000
/// bytes.
const HELLO_BYTES_MAX: usize = 1 << 16;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const TLS13: u16 = 0x0304;

/// Parses a hello from the start of the bytes that a client sent.
///
/// # Errors
/// The bytes, as far as they have arrived, are something else.
pub fn parse(buffer: &[u8]) -> Result<ParsedHello, NotHello> {
    match buffer {
        [] => Ok(ParsedHello::Partial),
        [HANDSHAKE, ..] => parse_records(buffer),
        [first, ..] if first & 0x80 != 0 => parse_ssl2(buffer),
        _ => Err(NotHello),
    }
}

/// Returns the name of a version, as in OpenSSL; empty for a version without one.
pub fn version_name(version: u16) -> &'static str {
    match version {
        0x0002 => "SSLv2",
        0x0300 => "SSLv3",
        0x0301 => "TLSv1",
        0x0302 => "TLSv1.1",
        0x0303 => "TLSv1.2",
        TLS13 => "TLSv1.3",
        _ => "",
    }
}

/// Parses `length (2) | type (1) | version (2) | …`.
fn parse_ssl2(buffer: &[u8]) -> Result<ParsedHello, NotHello> {
    match buffer {
        [_, _, kind, ..] if *kind != CLIENT_HELLO => Err(NotHello),
        [_, _, _, major, minor, ..] => {
            let version = u16::from_be_bytes([*major, *minor]);
            Ok(ParsedHello::Complete(ClientHello { version, ..ClientHello::default() }))
        }
        _ => Ok(ParsedHello::Partial),
    }
}

/// Parses a hello in TLS records; it may be spread over several of them.
fn parse_records(mut buffer: &[u8]) -> Result<ParsedHello, NotHello> {
    let mut message = Vec::new();
    loop {
        match buffer {
            [kind, ..] if *kind != HANDSHAKE => return Err(NotHello),
            [_, major, ..] if *major != 3 => return Err(NotHello),
            _ => {}
        }
        let Some((header, rest)) = buffer.split_first_chunk::<RECORD_HEADER_BYTES>() else {
            return Ok(ParsedHello::Partial);
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > RECORD_BYTES_MAX {
            return Err(NotHello);
        }
        message.extend_from_slice(&rest[..length.min(rest.len())]);
        if let Some(body) = message_body(&message)? {
            return read(body).map(ParsedHello::Complete).ok_or(NotHello);
        }
        match rest.get(length..) {
            Some(next) => buffer = next,
            None => return Ok(ParsedHello::Partial),
        }
    }
}

/// Returns the content of a complete handshake message; `None` when it is incomplete.
fn message_body(message: &[u8]) -> Result<Option<&[u8]>, NotHello> {
    match message {
        [kind, ..] if *kind != CLIENT_HELLO => Err(NotHello),
        [_, high, middle, low, rest @ ..] => {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if length > HELLO_BYTES_MAX {
                return Err(NotHello);
            }
            Ok(rest.get(..length))
        }
        _ => Ok(None),
    }
}

/// Parses `version (2) | random (32) | session id | cipher suites | compression methods | extensions`.
fn read(body: &[u8]) -> Option<ClientHello> {
    let mut reader = Reader(body);
    let mut hello = ClientHello { version: reader.number16()?, ..ClientHello::default() };
    reader.take(32)?;
    let session = usize::from(reader.number8()?);
    reader.take(session)?;
    let suites = usize::from(reader.number16()?);
    reader.take(suites)?;
    let compressions = usize::from(reader.number8()?);
    reader.take(compressions)?;
    // Old clients have no extensions.
    let Some(length) = reader.number16() else { return Some(hello) };
    let mut extensions = Reader(reader.up_to(usize::from(length)));
    while let Some(kind) = extensions.number16() {
        let length = usize::from(extensions.number16()?);
        let content = Reader(extensions.up_to(length));
        match kind {
            SERVER_NAME => hello.server_name = host_name(content).unwrap_or_default(),
            ALPN => hello.alpn = protocols(content),
            SUPPORTED_VERSIONS => hello.version = highest(content).unwrap_or(hello.version),
            _ => {}
        }
    }
    Some(hello)
}

/// Returns the first name of the type `host_name`.
fn host_name(mut content: Reader<'_>) -> Option<Vec<u8>> {
    let length = usize::from(content.number16()?);
    let mut list = Reader(content.up_to(length));
    loop {
        let kind = list.number8()?;
        let length = usize::from(list.number16()?);
        let name = list.take(length)?;
        if kind == 0 {
            return Some(name.to_vec());
        }
    }
}

fn protocols(mut content: Reader<'_>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let Some(length) = content.number16() else { return found };
    let mut list = Reader(content.up_to(usize::from(length)));
    while let Some(length) = list.number8() {
        match list.take(usize::from(length)) {
            Some(name) if !name.is_empty() => found.push(name.to_vec()),
            _ => break,
        }
    }
    found
}

/// Returns the highest version that exists; drafts of TLS 1.3 count as that version.
fn highest(mut content: Reader<'_>) -> Option<u16> {
    let length = usize::from(content.number8()?);
    let mut list = Reader(content.up_to(length));
    let mut found = None;
    while let Some(version) = list.number16() {
        let version = if version >> 8 == 0x7f { TLS13 } else { version };
        if !version_name(version).is_empty() {
            found = found.max(Some(version));
        }
    }
    found
}

/// A reader that takes numbers and pieces from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes this number of bytes, or the rest if there are fewer.
    fn up_to(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }
}
