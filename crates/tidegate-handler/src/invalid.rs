//! Errors of a handler's response.

use std::fmt;

/// Why a response cannot be sent. The text continues "returned an invalid …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidResponse {
    /// A status that no final response has (RFC 9110, section 15).
    Status(u16),
    /// A field that belongs to the connection (RFC 9110, section 7.6.1): its name.
    ConnectionField(String),
    /// A field whose name is no token or whose value has control characters (RFC 9110, section 5): the field, cut
    /// where it is long.
    Field(String),
    /// The fields together are too long.
    HeadTooLong,
    /// `Content-Length` differs from the body's length.
    Length {
        /// The value of `Content-Length` (RFC 9110, section 8.6).
        said: u64,
        /// The body's length in bytes.
        known: u64,
    },
}

impl fmt::Display for InvalidResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidResponse::Status(status) => write!(f, "status {status}"),
            InvalidResponse::ConnectionField(name) => {
                write!(f, "header \"{name}\", which is the server's own")
            }
            InvalidResponse::Field(field) => write!(f, "header \"{field}\""),
            InvalidResponse::HeadTooLong => f.write_str("header fields, which are too long"),
            InvalidResponse::Length { said, known } => {
                write!(f, "Content-Length {said} for a body of {known} bytes")
            }
        }
    }
}

impl std::error::Error for InvalidResponse {}
