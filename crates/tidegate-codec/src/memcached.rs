//! memcached's text protocol: one `get`, and its response.

#[cfg(test)]
mod tests;

use std::fmt;

use memchr::memchr;

use crate::connection::parse_length;
use crate::headers::Known;
use crate::lines::loggable;
use crate::response::ResponseHead;

/// The bytes behind a value.
pub const TRAILER: &[u8] = b"\r\nEND\r\n";

/// The response line of a `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueResponse {
    /// More bytes are needed.
    Partial,
    /// There is no such value.
    Absent {
        /// The bytes of the line.
        consumed: usize,
    },
    /// The value follows behind the line, and `TRAILER` behind the value.
    Value {
        /// The bytes of the line.
        consumed: usize,
        /// The flags of the value.
        flags: u32,
        /// The bytes of the value.
        length: u64,
    },
}

impl ValueResponse {
    /// Makes the head of an HTTP response with the same meaning: 200 and the value's length,
    /// `Content-Encoding: gzip` where the value's flags have a bit of `gzip_flag` (`memcached_gzip_flag`);
    /// 404 and no body where there is no value. `Partial` leaves `head` unchanged.
    pub fn write_head(&self, gzip_flag: u32, head: &mut ResponseHead) {
        match *self {
            ValueResponse::Partial => {}
            ValueResponse::Absent { .. } => {
                head.begin(404);
                head.headers.push_number(Known::ContentLength, 0);
            }
            ValueResponse::Value { flags, length, .. } => {
                head.begin(200);
                head.headers.push_number(Known::ContentLength, length);
                if flags & gzip_flag != 0 {
                    head.headers.push_known(Known::ContentEncoding, b"gzip");
                }
            }
        }
    }
}

/// The reason why a response is refused (502).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueResponseError {
    /// The line is no response to a `get`.
    Line(String),
    /// The value of another key.
    Key(String),
    /// Flags that are no number of 32 bits; the line.
    Flags(String),
    /// A length that is no valid number; the line.
    Length(String),
    /// There is no line end within the limit.
    TooBig,
}

impl fmt::Display for ValueResponseError {
    /// Writes the error log's text, without the requested key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueResponseError::Line(line) => {
                write!(f, "memcached sent invalid response: \"{line}\"")
            }
            ValueResponseError::Key(line) => {
                write!(f, "memcached sent invalid key in response \"{line}\"")
            }
            ValueResponseError::Flags(line) => {
                write!(f, "memcached sent invalid flags in response \"{line}\"")
            }
            ValueResponseError::Length(line) => {
                write!(f, "memcached sent invalid length in response \"{line}\"")
            }
            ValueResponseError::TooBig => f.write_str("upstream sent too big header"),
        }
    }
}

impl std::error::Error for ValueResponseError {}

impl ValueResponseError {
    /// Returns the error log's text with the requested key.
    pub fn message(&self, key: &[u8]) -> String {
        match self {
            ValueResponseError::Key(_) => format!("{self} for key \"{}\"", loggable(key)),
            _ => self.to_string(),
        }
    }
}

/// Parses the response line of `get key`.
///
/// # Errors
/// The line is invalid, or longer than `line_bytes_max`.
pub fn parse_value_response(
    buffer: &[u8],
    key: &[u8],
    line_bytes_max: usize,
) -> Result<ValueResponse, ValueResponseError> {
    let received = &buffer[..buffer.len().min(line_bytes_max)];
    let Some(end) = memchr(b'\n', received) else {
        return match buffer.len() >= line_bytes_max {
            true => Err(ValueResponseError::TooBig),
            false => Ok(ValueResponse::Partial),
        };
    };
    let shown = || loggable(received[..end].strip_suffix(b"\r").unwrap_or(&received[..end]));
    let Some(line) = received[..end].strip_suffix(b"\r") else {
        return Err(ValueResponseError::Line(shown()));
    };
    if line == b"END" {
        return Ok(ValueResponse::Absent { consumed: end + 1 });
    }
    let Some(rest) = line.strip_prefix(b"VALUE ") else {
        return Err(ValueResponseError::Line(shown()));
    };
    let Some(rest) = rest.strip_prefix(key).and_then(|rest| rest.strip_prefix(b" ")) else {
        return Err(ValueResponseError::Key(shown()));
    };
    let mut words = rest.split(|byte| *byte == b' ');
    let flags = words.next().and_then(parse_length).and_then(|flags| u32::try_from(flags).ok());
    let flags = flags.ok_or_else(|| ValueResponseError::Flags(shown()))?;
    let length =
        words.next().and_then(parse_length).ok_or_else(|| ValueResponseError::Length(shown()))?;
    // More words are no response to `get` (`gets` has one more number).
    if words.next().is_some() {
        return Err(ValueResponseError::Length(shown()));
    }
    Ok(ValueResponse::Value { consumed: end + 1, flags, length })
}
