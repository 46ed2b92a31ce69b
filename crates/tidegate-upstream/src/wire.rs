//! The protocols of origins: how a response's head is parsed from the received bytes, and how its body ends.
//!
//! All share the connections, the retry machine, uploads and body streams; only the differences are here.

use std::fmt;
use std::sync::Arc;

use tidegate_codec::fastcgi::{self, RecordError};
use tidegate_codec::memcached::{self, ValueResponse};
use tidegate_codec::request::{Method, Parse};
use tidegate_codec::response::{
    ResponseError, ResponseFraming, ResponseHead, parse_cgi_response, parse_response,
};
use tidegate_core::error_log::Level;

use crate::log::LogContext;

/// The protocol of a request to an origin.
#[derive(Clone, Debug, Default)]
pub enum Wire {
    /// HTTP/1 (RFC 9112).
    #[default]
    Http,
    /// HTTP/2 (RFC 9113), by prior knowledge or, over TLS, by ALPN. Requests share connections as their streams.
    Http2 {
        /// The messages are those of gRPC: other schemes in log lines.
        grpc: bool,
    },
    /// Any bytes as the request (SCGI, uwsgi); the response is a CGI head and a body until the connection's end. The
    /// text is the scheme for log lines.
    Cgi(&'static str),
    /// FastCGI 1.0, records around a CGI response.
    FastCgi(FastCgiRules),
    /// One `get` of memcached.
    Memcached(Arc<MemcachedGet>),
}

/// A request in FastCGI records: the head contains all records in front of the body's.
#[derive(Clone, Debug, Default)]
pub struct FastCgiRules {
    /// `fastcgi_catch_stderr`: a response with any of these on the error stream is invalid.
    pub catch: Arc<[Box<[u8]>]>,
}

impl FastCgiRules {
    /// Returns whether a text on the error stream makes the response invalid.
    pub(crate) fn catches(&self, text: &[u8]) -> bool {
        self.catch.iter().any(|wanted| memchr::memmem::find(text, wanted).is_some())
    }
}

/// Logs the error stream, as nginx does.
pub(crate) fn log_stderr(
    decoder: &mut fastcgi::Decoder,
    log: &LogContext,
    action: &str,
    upstream: &str,
) {
    let (text, is_cut) = decoder.take_stderr();
    let shown = String::from_utf8_lossy(text.trim_ascii_end());
    // Line ends are kept: PHP's traces contain them.
    let odd = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    let shown = shown.replace(odd, " ");
    let message = format!("FastCGI sent in stderr: \"{shown}\"");
    log.write(Level::Error, &message, action, upstream);
    if is_cut {
        let most = fastcgi::STDERR_BYTES_MAX;
        let message =
            format!("FastCGI sent more than {most} bytes in stderr, the rest is left out");
        log.write(Level::Error, &message, action, upstream);
    }
}

/// A `get` of memcached's text protocol.
#[derive(Clone, Debug)]
pub struct MemcachedGet {
    /// The key as sent.
    pub key: Vec<u8>,
    /// `memcached_gzip_flag`: values with any of these bits are compressed.
    pub gzip_flag: u32,
}

impl Wire {
    /// Returns the scheme in front of a server's address in log lines.
    pub(crate) fn scheme(&self, tls: bool) -> &'static str {
        match self {
            Wire::Http2 { grpc: true } if tls => "grpcs",
            Wire::Http2 { grpc: true } => "grpc",
            Wire::Http | Wire::Http2 { .. } if tls => "https",
            Wire::Http | Wire::Http2 { .. } => "http",
            Wire::Cgi(scheme) => scheme,
            Wire::FastCgi(_) => "fastcgi",
            Wire::Memcached(_) => "memcached",
        }
    }

    /// Returns a number for the protocol: connections are not shared between protocols.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Wire::Http => 0,
            Wire::Cgi(_) => 1,
            Wire::FastCgi(_) => 2,
            Wire::Memcached(_) => 3,
            Wire::Http2 { .. } => 4,
        }
    }

    /// Returns the codec of a response.
    pub(crate) fn codec(&self) -> Codec {
        match self {
            // Streams have no bytes to parse here.
            Wire::Http | Wire::Http2 { .. } => Codec::Http,
            Wire::Cgi(_) => Codec::Cgi,
            Wire::FastCgi(rules) => Codec::FastCgi(Box::default(), rules.clone()),
            Wire::Memcached(ask) => Codec::Memcached(ask.clone(), 0),
        }
    }
}

/// The reason why the received bytes are no head. The texts are for the error log.
#[derive(Debug)]
pub(crate) enum HeadError {
    /// Its syntax is invalid in the protocol.
    Invalid(String),
    /// The origin refuses the request.
    Refused(String),
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::Invalid(message) | HeadError::Refused(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for HeadError {}

/// A parser of one response's head.
pub(crate) enum Codec {
    Http,
    Cgi,
    FastCgi(Box<fastcgi::Decoder>, FastCgiRules),
    /// With the length of the value in bytes, once its line has arrived.
    Memcached(Arc<MemcachedGet>, u64),
}

impl Codec {
    /// Parses the bytes appended to `buffer` from `new` on. When the head is complete, returns where in the buffer
    /// the body begins: its bytes remain in place, since moving a page costs more than all of the head.
    ///
    /// Between two calls the buffer holds the head's bytes so far, with FastCGI only the output: records are taken
    /// apart in place, and their decoder keeps its position in a record. `head` keeps its position in the same way,
    /// so a call without a new line only scans the new bytes.
    ///
    /// # Errors
    /// The bytes are no head (RFC 9112 section 4, RFC 3875 section 6.2), it is larger than `head_bytes_max`
    /// (`proxy_buffer_size`), or an application refuses; `fastcgi_catch_stderr` makes a head an invalid one, without
    /// a text.
    pub(crate) fn parse(
        &mut self,
        buffer: &mut Vec<u8>,
        new: usize,
        head_bytes_max: usize,
        head: &mut ResponseHead,
    ) -> Result<Option<usize>, HeadError> {
        let mut begin = 0;
        let outcome = match self {
            Codec::Http => parse_response(buffer, head_bytes_max, head),
            Codec::Cgi => parse_cgi_response(buffer, head_bytes_max, head),
            Codec::FastCgi(decoder, rules) => {
                begin = decoder.decode(buffer, new).map_err(refused)?;
                if rules.catches(decoder.stderr()) {
                    return Err(HeadError::Invalid(String::new()));
                }
                let output = buffer.get(begin..).unwrap_or_default();
                let outcome = parse_cgi_response(output, head_bytes_max, head);
                if outcome == Ok(Parse::Partial) && decoder.is_output_closed() {
                    let message = "upstream prematurely closed FastCGI stdout";
                    return Err(HeadError::Invalid(message.to_owned()));
                }
                outcome
            }
            Codec::Memcached(ask, value) => {
                let reply = memcached::parse_value_response(buffer, &ask.key, head_bytes_max);
                let reply = reply.map_err(|error| HeadError::Invalid(error.message(&ask.key)))?;
                reply.write_head(ask.gzip_flag, head);
                return Ok(match reply {
                    ValueResponse::Partial => None,
                    ValueResponse::Absent { consumed } => Some(consumed),
                    ValueResponse::Value { consumed, length, .. } => {
                        *value = length;
                        Some(consumed)
                    }
                });
            }
        };
        match outcome {
            Ok(Parse::Partial) => {
                buffer.drain(..begin);
                Ok(None)
            }
            Ok(Parse::Complete(length)) => {
                self.check(head)?;
                Ok(Some(begin + length))
            }
            Err(error) => Err(HeadError::Invalid(error.message(head.headers.text()))),
        }
    }

    /// Checks a head: interim heads, and a switch of protocols, exist in HTTP alone.
    fn check(&self, head: &ResponseHead) -> Result<(), HeadError> {
        let final_from = match self {
            Codec::Http => return Ok(()),
            Codec::Cgi => 101,
            _ => 200,
        };
        match head.status {
            status if status < final_from => {
                let message = format!("upstream sent invalid status: \"{status}\"");
                Err(HeadError::Invalid(message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the framing of the body behind a head.
    pub(crate) fn framing(
        &self,
        head: &ResponseHead,
        method: Method,
    ) -> Result<ResponseFraming, ResponseError> {
        match self {
            Codec::Http => head.framing(method),
            Codec::Memcached(..) if method == Method::Head => Ok(ResponseFraming::None),
            Codec::Memcached(_, length) => Ok(ResponseFraming::Length(*length)),
            _ => head.cgi_framing(method),
        }
    }
}

/// Makes the error of an invalid stream of records.
fn refused(error: RecordError) -> HeadError {
    match error {
        RecordError::Refused(_) => HeadError::Refused(error.to_string()),
        _ => HeadError::Invalid(error.to_string()),
    }
}
